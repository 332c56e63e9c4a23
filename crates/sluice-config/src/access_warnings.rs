//! Warnings about access rules: files that others may read, names that nobody has, users that can never come.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use sluice_access::store::Loaded;
use sluice_launch::deadline::metadata;
use sluice_settings::rule::{
    AccessEntry, AccessSettings, AccessUse, AgentSettings, OwnAgentKind, Require, ThrottlePer,
};
use sluice_settings::{Action, ListenAddress, RouteSettings, Settings, SiteSettings};

use super::suggest::similar;

/// The bits of a mode that let others than owner and group read or write.
const OTHERS: u32 = 0o006;

/// Addresses of clients of this machine.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// The warnings about the access rules of all routes, each one line.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let rules = settings.routes().filter_map(|route| match &route.changes.access.own {
        Some(AccessUse::Limited(access)) => Some(&**access),
        _ => None,
    });
    // Several routes may have the same files.
    let mut lines = BTreeSet::new();
    for access in rules {
        let source = &access.source;
        lines.extend(source.secret_files().filter_map(|path| open_file(path)));
        lines.extend(source.secret_files().filter_map(|path| empty_file(path)));
        lines.extend(wrong_names(access));
        let origin = &access.origin;
        if source.remote_user_from.is_some() && settings.proxies.trusted.is_empty() {
            lines.insert(format!(
                "{origin}: remote_user_from: nobody is a trusted proxy: name it, as in trusted_proxies = [\"127.0.0.1\"] in [server]"
            ));
        }
        lines.extend(loopback_of_proxy(settings, access));
        if (source.certificate_user || rules_of(access).any(|entry| matches!(entry, AccessEntry::Certificate(_))))
            && !asks_for_certificates(settings)
        {
            lines.insert(format!(
                "{origin}: no address or site asks clients for certificates (client_authorities), so no client has one"
            ));
        }
        let own = source.agent.as_ref().and_then(AgentSettings::own);
        lines.extend(names_with_blanks(access));
        if own.is_some_and(|own| own.kind == OwnAgentKind::Ldap)
            && source
                .agent
                .as_ref()
                .is_some_and(|agent| agent.parameters.contains("\tclear_text="))
        {
            lines.insert(format!(
                "{origin}: ldap: clear_text: everybody between this machine and the directory server can read the passwords"
            ));
        }
        if source.asks_for_passwords() && !access.clear_text && is_clear_text_only(settings) {
            lines.insert(format!(
                "{origin}: a password is not accepted over clear text from other machines, and no address has TLS: add one with tls, or \
                 clear_text = true in access"
            ));
        }
    }
    lines.extend(settings.sites.iter().filter_map(throttle_without_users));
    lines.extend(settings.sites.iter().flat_map(open_reports));
    if settings.sites.iter().any(has_scripts) {
        lines.extend(settings.sites.iter().flat_map(reports_for_scripts));
    }
    lines.into_iter().collect()
}

/// Entries with several names that may be one name with blanks, as in Active Directory: an agent has other names than files.
fn names_with_blanks(access: &AccessSettings) -> Vec<String> {
    if access.source.agent.is_none() {
        return Vec::new();
    }
    let line = |entry: &AccessEntry| {
        let one = entry.as_one_name()?;
        Some(format!(
            "{}: {entry} means several names: if it is one name with a blank, write '{one}', otherwise an entry for each name",
            access.origin
        ))
    };
    rules_of(access).filter_map(line).collect()
}

/// The rules grant something to clients of this machine, where a trusted proxy runs: a request from there that names no client is nobody's.
fn loopback_of_proxy(settings: &Settings, access: &AccessSettings) -> Option<String> {
    let is_of_proxy = |ip: &IpAddr| settings.proxies.trusted.has_address(*ip);
    let is_granted = |ip: &IpAddr| access.read.grants_to(*ip) || access.write.grants_to(*ip);
    let ip = LOOPBACK.into_iter().find(|ip| is_of_proxy(ip) && is_granted(ip))?;
    Some(format!(
        "{}: net: {ip} is a trusted proxy, so a request from there is not taken for one of this machine: let users in, too, or let the proxy \
         connect to a unix socket (trusted_proxies = [\"unix:\"])",
        access.origin
    ))
}

/// A route counts the requests of each user, and the site has no access rules that would make one known.
fn throttle_without_users(site: &SiteSettings) -> Option<String> {
    let is_limited = |route: &RouteSettings| matches!(route.changes.access.own, Some(AccessUse::Limited(_)));
    if site.routes.iter().any(is_limited) {
        return None;
    }
    let mut throttles = site
        .routes
        .iter()
        .filter_map(|route| route.changes.throttle.as_ref()?.limit());
    let throttle = throttles.find(|throttle| throttle.per == ThrottlePer::User)?;
    Some(format!(
        "{}: per = \"user\": no route of the site has access, so nobody is a user, and each address is counted: add access = {{ … }}, or write \
         per = \"client\"",
        throttle.origin
    ))
}

/// Routes with reports that a large part of the Internet may read, without being users.
fn open_reports(site: &SiteSettings) -> Vec<String> {
    // Public addresses far from each other: a network with two of them is not that of an organization.
    let samples = [
        "8.8.8.8",
        "45.33.32.1",
        "93.184.216.1",
        "130.59.31.1",
        "185.15.59.1",
        "203.119.0.1",
        "2001:4860::1",
        "2a02:ec80::1",
    ];
    let is_wide = |entry: &AccessEntry| match entry {
        AccessEntry::Networks(networks) => {
            let held = samples
                .iter()
                .filter(|address| address.parse().is_ok_and(|address: IpAddr| networks.contain(address)));
            held.count() > 1
        }
        _ => false,
    };
    rules_of_reports(site)
        .filter(|access| {
            let mut rules = [&access.read, &access.write].into_iter();
            rules.any(|rule| rule.entries.iter().any(is_wide) && (rule.require == Require::Any || !rule.names_users()))
        })
        .map(|access| {
            format!(
                "{}: reports: the networks in access let a large part of the Internet read paths and users, watch requests, and end the server: name \
                 smaller ones, or users = \"FILE\" and require = \"all\"",
                access.origin
            )
        })
        .collect()
}

/// Routes whose `allow_write` gives clients of this machine everything without a user: scripts are such clients.
fn reports_for_scripts(site: &SiteSettings) -> Vec<String> {
    let is_open = |access: &&Arc<AccessSettings>| {
        let is_granted = |ip: &IpAddr| access.read.grants_to(*ip) && access.write.grants_to(*ip);
        access.is_write_named && LOOPBACK.iter().any(is_granted)
    };
    let line = |access: &Arc<AccessSettings>| {
        format!(
            "{}: allow_write: scripts are clients of this machine, so each can read the logs, watch requests, and end the server: remove it (such clients \
             then get totals only), or name users",
            access.origin
        )
    };
    rules_of_reports(site).filter(is_open).map(line).collect()
}

/// The access rules of the routes with reports.
fn rules_of_reports(site: &SiteSettings) -> impl Iterator<Item = &Arc<AccessSettings>> {
    let routes = site.routes.iter();
    routes.filter_map(|route| match (&route.action, &route.changes.access.own) {
        (Action::Reports, Some(AccessUse::Limited(access))) => Some(access),
        _ => None,
    })
}

fn has_scripts(site: &SiteSettings) -> bool {
    site.routes.iter().any(|route| route.action.script().is_some())
}

/// A file in which nothing is.
fn empty_file(path: &Path) -> Option<String> {
    let is_empty = metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0);
    is_empty.then(|| format!("{}: the file is empty", path.display()))
}

/// A file with hashes or groups that every user of this machine may read or change.
fn open_file(path: &Path) -> Option<String> {
    let mode = metadata(path).ok()?.mode();
    (mode & OTHERS != 0).then(|| {
        format!(
            "{}: every user of this machine may {} it (mode {:03o}): chmod o= {}",
            path.display(),
            if mode & 0o002 == 0 { "read" } else { "change" },
            mode & 0o777,
            path.display()
        )
    })
}

/// Weak hashes, users and groups of the rules that the files do not have, and groups without users.
fn wrong_names(access: &AccessSettings) -> Vec<String> {
    let source = &access.source;
    // What is wrong with the files is reported when they are opened.
    let Ok(loaded) = Loaded::read(source) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let Some(path) = &source.users {
        let weak = loaded.users.weak_hashes().into_iter();
        lines.extend(weak.map(|line| format!("{}: {line}", path.display())));
    }
    let has_only_file = source.users.is_some() && source.remote_user_from.is_none() && !source.certificate_user;
    for entry in rules_of(access) {
        let (names, kind): (&[String], _) = match entry {
            AccessEntry::Users(names) if has_only_file => (names, "user"),
            // An agent may have other groups.
            AccessEntry::Groups(names) if source.agent.is_none() => (names, "group"),
            _ => continue,
        };
        for name in names {
            let is_known = match kind {
                "user" => loaded.users.hash(name).is_some(),
                _ => loaded.groups.has(name),
            };
            if !is_known {
                let (file, known) = match kind {
                    "user" => (&source.users, loaded.users.names().collect::<Vec<_>>()),
                    _ => (&source.groups, loaded.groups.names().collect()),
                };
                let place = match file {
                    Some(path) => format!("is not in {}", path.display()),
                    None => "is of no file: there is no groups = \"FILE\"".to_owned(),
                };
                let similar = similar(name, known.into_iter())
                    .map(|known| format!("; did you mean \"{known}\"?"))
                    .unwrap_or_default();
                lines.push(format!("{}: {kind} \"{name}\" {place}{similar}", access.origin));
            }
        }
    }
    if let Some(path) = &source.groups {
        let shown = path.display();
        lines.extend(
            loaded
                .groups
                .empty()
                .map(|group| format!("{shown}: group \"{group}\" has no users")),
        );
        if has_only_file {
            let unknown = loaded
                .groups
                .users()
                .into_iter()
                .filter(|user| loaded.users.hash(user).is_none());
            let users = source
                .users
                .iter()
                .map(|path| path.display().to_string())
                .collect::<String>();
            lines.extend(unknown.map(|user| format!("{shown}: user \"{user}\" is not in {users}")));
        }
    }
    lines
}

fn rules_of(access: &AccessSettings) -> impl Iterator<Item = &AccessEntry> {
    [&access.read, &access.write]
        .into_iter()
        .flat_map(|rule| rule.entries.iter().chain(&rule.but))
}

fn asks_for_certificates(settings: &Settings) -> bool {
    let by_address = settings
        .listen
        .iter()
        .filter_map(|listen| listen.tls.as_ref())
        .any(|tls| tls.clients.authorities().is_some());
    by_address || settings.sites.iter().any(|site| site.client_authorities.is_some())
}

/// Whether other machines can only come in clear text, and no proxy says otherwise.
fn is_clear_text_only(settings: &Settings) -> bool {
    let is_local = |address: &ListenAddress| address.ip().is_none_or(|ip: IpAddr| ip.is_loopback());
    settings.proxies.trusted.is_empty()
        && settings.listen.iter().all(|listen| listen.tls.is_none())
        && settings.listen.iter().any(|listen| !is_local(&listen.address))
}
