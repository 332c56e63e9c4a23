//! Permissions of users for the files of a configuration: those that the server must read, and those that a script should not.
//!
//! For `check`, which may run as root: root can read more than the server. Permission bits decide (`sluice_settings::permission`), so nothing is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::path_owners;
use sluice_launch::Credentials;
use sluice_settings::permission::{Subject, Use, denial, is_permitted};
use sluice_settings::rule::AccessUse;
use sluice_settings::{
    Action, ControlSocket, IdentitySettings, IdentitySource, RouteSettings, ScriptSettings, ScriptSource, ScriptUser,
    Settings,
};

/// Places that a warning names.
const PLACES_MAX: usize = 5;

/// The users of a server: `starter` starts it, reads the configuration and its keys, and may give commands; `server` is that of the process that serves.
#[derive(Clone, Debug)]
pub struct ServerUsers {
    /// The user of the supervisor.
    pub starter: Subject,
    /// The user of the server process.
    pub server: Subject,
}

/// The files and directories that these users may not use and must, each with the command that permits it.
#[must_use]
pub fn unusable(settings: &Settings, users: &ServerUsers) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut need = |origin: &str, path: &Path, wanted: Use, subject: &Subject| {
        let denial = denial(path, wanted, subject);
        found.extend(denial.map(|denial| match origin {
            "" => denial.to_string(),
            origin => format!("{origin}: {denial}"),
        }));
    };
    for file in &settings.config_files {
        need("", file, Use::Read, &users.starter);
    }
    for identity in identities(settings) {
        if let IdentitySource::Files { certificate, key } = &identity.source {
            need(&identity.origin, certificate, Use::Read, &users.starter);
            need(&identity.origin, key, Use::Read, &users.starter);
        }
    }
    if let Some(spool) = &settings.spool_directory {
        need("[server] spool_directory", spool, Use::Enter, &users.server);
        need("[server] spool_directory", spool, Use::Write, &users.server);
    }
    for site in &settings.sites {
        if let Some(root) = &site.root {
            need(&site.origin, root, Use::Enter, &users.server);
        }
        for route in &site.routes {
            if let Some(AccessUse::Limited(access)) = &route.changes.access.own {
                let files = [&access.source.users, &access.source.groups];
                for file in files.into_iter().flatten() {
                    need(&access.origin, file, Use::Read, &users.server);
                }
            }
            if let Action::Files(files) = &route.action {
                need(&route.origin, &files.path, Use::Enter, &users.server);
            }
            let Some(script) = route.action.script() else { continue };
            let subject = user_of(script, &users.server);
            match &script.source {
                ScriptSource::Directory(directory) | ScriptSource::App { directory, .. } => {
                    need(&route.origin, directory, Use::Enter, &users.server);
                    if let Some(subject) = &subject {
                        need(&route.origin, directory, Use::Enter, subject);
                    }
                }
                ScriptSource::File(_) | ScriptSource::Root => {}
            }
        }
    }
    found.into_iter().collect()
}

/// Warnings about what the users of scripts can reach: keys, the control socket, the files of other routes.
#[must_use]
pub fn script_warnings(settings: &Settings, users: &ServerUsers) -> Vec<String> {
    let mut warnings = BTreeSet::new();
    let mut reached = OthersFiles::default();
    let scripts = settings
        .scripts()
        .filter_map(|(route, script)| Some((route, script, user_of(script, &users.server)?)));
    let scripts: Vec<UsedScript<'_>> = scripts.collect();
    // Files are asked for once for each user.
    let mut by_user = BTreeMap::<_, (&Subject, BTreeSet<&str>)>::new();
    for (route, script, user) in &scripts {
        // Landlock keeps it from what the route does not name.
        if script.confinement.files.is_none() {
            let Credentials { uid, gid, groups } = user.credentials();
            let of_user = by_user.entry((uid, gid, groups)).or_insert((user, BTreeSet::new()));
            of_user.1.insert(&route.origin);
        }
        let has_service_socket = matches!(settings.control, ControlSocket::Path(_));
        if has_service_socket && user.uid() == users.starter.uid() {
            warnings.insert(format!(
                "scripts that run as {} can give the server commands (sluice drain), because it is the user who starts it: {}",
                user.name(),
                advice(user, users)
            ));
        }
    }
    for (user, routes) in by_user.into_values() {
        warnings.extend(readable_key(settings, user).map(|key| {
            format!(
                "scripts that run as {} can read the key {}, so a hole in one of them is the key of all sites: {}",
                user.name(),
                key.display(),
                advice(user, users)
            )
        }));
        reached.add(&scripts, &routes, user);
    }
    let of_paths = path_owners::warnings(settings, &users.server);
    warnings
        .into_iter()
        .chain(reached.warnings(users))
        .chain(of_paths)
        .collect()
}

/// The advice for scripts that run as the user of the server.
const USER_OF_THEIR_OWN: &str = "give them a user of their own, script_user = \"…\" in [server], which needs a server that root starts (docs/guides/users.md)";

/// The way to another user of scripts.
fn advice(user: &Subject, users: &ServerUsers) -> &'static str {
    match user.uid() == users.server.uid() {
        true => USER_OF_THEIR_OWN,
        false => "permit only the user of the server",
    }
}

/// The user of a route's scripts. `None` if each has its own.
fn user_of(script: &ScriptSettings, server: &Subject) -> Option<Subject> {
    match &script.confinement.user {
        ScriptUser::Usual => Some(server.clone()),
        ScriptUser::Named(user) => Some(Subject::of(user)),
        ScriptUser::Owner | ScriptUser::Unknown { .. } => None,
    }
}

fn identities(settings: &Settings) -> impl Iterator<Item = &IdentitySettings> {
    let of_addresses = settings.listen.iter().filter_map(|listen| listen.tls.as_ref());
    let of_sites = settings.sites.iter().filter_map(|site| site.identity.as_ref());
    of_addresses.map(|tls| &tls.identity).chain(of_sites)
}

fn readable_key(settings: &Settings, user: &Subject) -> Option<PathBuf> {
    let keys = identities(settings).filter_map(|identity| match &identity.source {
        IdentitySource::Files { key, .. } => Some(key),
        IdentitySource::Made { .. } => None,
    });
    keys.into_iter().find(|key| is_permitted(key, Use::Read, user)).cloned()
}

/// A script with its route and its user.
type UsedScript<'a> = (&'a RouteSettings, &'a ScriptSettings, Subject);

/// The scripts of other users that users can change, or read: by the name of the user, and the verb.
#[derive(Default)]
struct OthersFiles(BTreeMap<(String, &'static str), Reached>);

/// The places that a user reaches, and its routes.
#[derive(Default)]
struct Reached {
    routes: BTreeSet<String>,
    /// The directories and files, with the users of their scripts and the place in the configuration.
    places: BTreeMap<PathBuf, (String, String)>,
}

impl OthersFiles {
    /// Adds the scripts of other users that those of a user, on these routes, reach.
    fn add(&mut self, scripts: &[UsedScript<'_>], routes: &BTreeSet<&str>, user: &Subject) {
        for (other, script, owner) in scripts {
            let place = match &script.source {
                ScriptSource::Directory(path) | ScriptSource::File(path) => path,
                ScriptSource::App { directory, .. } => directory,
                ScriptSource::Root => continue,
            };
            if owner.uid() == user.uid() {
                continue;
            }
            // Who names a user for a route wants it to be apart; other scripts are usually readable by everybody.
            let is_apart = script.confinement.user != ScriptUser::Usual && !is_of_package(place);
            let verb = match () {
                () if is_permitted(place, Use::Write, user) => "change",
                () if is_apart && is_permitted(place, Use::Read, user) => "read",
                () => continue,
            };
            let reached = self.0.entry((user.name().to_owned(), verb)).or_default();
            if routes.first().is_some_and(|first| !reached.routes.contains(*first)) {
                reached.routes.extend(routes.iter().map(|route| (*route).to_owned()));
            }
            reached
                .places
                .insert(place.clone(), (owner.name().to_owned(), other.origin.clone()));
        }
    }

    /// One warning for each user and verb, whose places are named.
    fn warnings(self, users: &ServerUsers) -> Vec<String> {
        let warning = |((user, verb), Reached { routes, places }): ((String, &str), Reached)| {
            let letters = if verb == "change" { "w" } else { "rwx" };
            let shown: Vec<String> = places
                .iter()
                .take(PLACES_MAX)
                .map(|(place, (owner, origin))| format!("{}, whose scripts run as {owner} ({origin})", place.display()))
                .collect();
            let more = match places.len().saturating_sub(PLACES_MAX) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let group = users.server.group();
            let help = match places.first_key_value() {
                // The server reads the files, so the permissions cannot keep its own user from them.
                _ if user == users.server.name() && verb == "read" => USER_OF_THEIR_OWN.to_owned(),
                Some((place, (owner, _))) if places.len() == 1 => format!(
                    "chown {owner}:{group} {0} && chmod o-{letters} {0} (the group is that of the server, which reads the files, too)",
                    place.display()
                ),
                _ => format!(
                    "give each of them to its user and to the group {group} of the server, and chmod o-{letters} it"
                ),
            };
            let routes: Vec<String> = routes.into_iter().collect();
            format!(
                "scripts that run as {user} (those of {}) can {verb} {}{more}: {help}",
                routes.join(", "),
                shown.join("; ")
            )
        };
        self.0.into_iter().map(warning).collect()
    }
}

/// Whether a place belongs to a package, whose files are for everybody.
fn is_of_package(place: &Path) -> bool {
    ["/usr", "/opt"].iter().any(|public| place.starts_with(public))
}
