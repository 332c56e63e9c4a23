//! Warnings: what a valid configuration says and its author probably does not mean. `check` shows them, and a server at its start.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::statvfs;
use sluice_launch::deadline::{ask, metadata};
use sluice_settings::permission::Subject;
use sluice_settings::rule::{AccessUse, CertificateUse};
use sluice_settings::source::Source;
use sluice_settings::{
    Action, ClientCertificates, ListenSettings, RouteSettings, ScriptSettings, Settings, SiteSettings,
};

use super::access_warnings;
use super::client_certificates::is_served_on;
use super::confinement_warnings;
use super::path_owners;
use sluice_settings::notation::format_size;

/// The warnings about a configuration that this process serves, each one line.
pub fn warnings(settings: &Settings) -> Vec<String> {
    warnings_for(settings, Some(Subject::own().uid()))
}

/// The warnings about a configuration. `server`: the user of the server process, if that is known.
pub fn warnings_for(settings: &Settings, server: Option<u32>) -> Vec<String> {
    let mut warnings = writable_by_all(&settings.config_files);
    let files = settings.config_files.iter().skip(1);
    let of_others = files.filter(|file| Source::DISK.tolerating_others().tolerates(&[file]));
    warnings.extend(of_others.map(|file| {
        let text = "its owner, or that of a part of its path, is not root: that user can change the configuration, and a mistake prevents starts and reloads";
        format!("{}: {text}", file.display())
    }));
    warnings.extend(settings.warnings.iter().cloned());
    warnings.extend(small_body_budget(settings));
    warnings.extend(small_buffer_budget(settings));
    warnings.extend(large_minimum(settings));
    warnings.extend(fifo_logs(settings));
    warnings.extend(full_spool(settings));
    warnings.extend(
        server
            .into_iter()
            .flat_map(|server| path_owners::log_warnings(settings, server)),
    );
    warnings.extend(access_warnings::warnings(settings));
    warnings.extend(php_without_engine(settings));
    warnings.extend(confinement_warnings::warnings(settings));
    for site in &settings.sites {
        let listen = || settings.listen.iter().filter(|listen| is_served_on(site, listen));
        warnings.extend(unequal_addresses(site, listen));
        for listen in listen() {
            warnings.extend(clients_of_unix_socket(settings, site, listen));
        }
    }
    warnings
}

/// A file system without room for what a script is to read.
fn full_spool(settings: &Settings) -> Option<String> {
    let directory = settings.spool_directory.clone()?;
    let shown = format!("[server] spool_directory {}: no storage space", directory.display());
    let free = ask(&directory.clone(), move || Ok(statvfs(&directory)?.f_bavail));
    (free.ok()? == 0).then(|| format!("{shown}; larger request bodies for scripts are refused until that is corrected"))
}

/// A log is a FIFO. Those of /dev and /proc are streams of the server itself, which are open already.
fn fifo_logs(settings: &Settings) -> Vec<String> {
    let paths: BTreeSet<&Path> = settings.log_files().collect();
    let is_fifo = |path: &Path| metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    let is_own = |path: &Path| path.starts_with("/dev") || path.starts_with("/proc");
    let found = paths.into_iter().filter(|path| !is_own(path) && is_fifo(path));
    let line = |path: &Path| {
        format!(
            "log {}: is a FIFO: the server does not start unless a program reads it",
            path.display()
        )
    };
    found.map(line).collect()
}

/// The processes that are started in advance are more than `limits.processes` has room for: an eighth of it is for scripts without any process.
fn large_minimum(settings: &Settings) -> Option<String> {
    let max = settings.limits.processes_max?;
    let room = max - max / 8;
    let minimum: usize = settings.scripts().map(|(_, script)| script.pool.min).sum();
    (minimum > room).then(|| {
        format!(
            "[limits] processes = {max}: has room for {room} processes that are started in advance, and the routes want {minimum} (min): raise \
             processes or lower min"
        )
    })
}

/// Scripts among files are run by the command line's `php`, which writes no head: the word is that of the engine, without its mode.
fn php_without_engine(settings: &Settings) -> Vec<String> {
    let found = settings.routes().filter_map(|route| match &route.action {
        Action::Files(files) => {
            let script = &files.scripts.as_ref()?.script;
            let mut programs = script.interpreters.iter();
            let is_php = |program: &str| program.rsplit('/').next() == Some("php");
            let (suffix, program) = programs.find(|(_, program)| is_php(program))?;
            (!script.mode.has_engine()).then_some((route, suffix, program))
        }
        _ => None,
    });
    found
        .map(|(route, suffix, program)| {
            format!(
                "{}: scripts: \"{suffix}\" = \"{program}\" is the php of the command line, which writes no head, so its replies get 502: for the \
                 engine add script = {{ mode = \"rte\" }}, for CGI write \"php-cgi\"",
                route.origin
            )
        })
        .collect()
}

/// A request body that is allowed is larger than all stored bodies together may be.
fn small_body_budget(settings: &Settings) -> Option<String> {
    let most = settings.limits.stored_bodies_bytes_max;
    let all = ("[limits]", settings.limits.body_bytes_max);
    let own = settings
        .routes()
        .filter_map(|route| Some((route.origin.as_str(), route.changes.body.bytes_max?)));
    let (place, bytes) = std::iter::once(all).chain(own).max_by_key(|(_, bytes)| *bytes)?;
    settings.scripts().next().filter(|_| bytes > most)?;
    Some(format!(
        "{place}: body_size ({}) is more than all stored bodies together may have (limits.stored_bodies, {}): a larger body gets 413",
        format_size(bytes),
        format_size(most)
    ))
}

/// A memory buffer that a script may ask for is larger than all memory buffers together may be.
fn small_buffer_budget(settings: &Settings) -> Option<String> {
    let most = settings.limits.memory_buffers_bytes_max?;
    let is_over = |script: &ScriptSettings| script.output.memory_buffer_max > most;
    let (route, script) = settings.scripts().find(|(_, script)| is_over(script))?;
    Some(format!(
        "{}: memory_buffer_max ({}) is more than all memory buffers together may have (limits.memory_buffers, {}): a larger buffer is \
         refused",
        route.origin,
        format_size(script.output.memory_buffer_max),
        format_size(most)
    ))
}

/// Every user of the machine can change the configuration, which says which programs the server runs. The first file is the main one.
fn writable_by_all(files: &[impl AsRef<Path>]) -> Vec<String> {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o002;
    let has = |path: &Path, bit: u32| metadata(path).is_ok_and(|about| about.mode() & bit != 0);
    let mut found = BTreeSet::new();
    for (number, file) in files.iter().map(AsRef::as_ref).enumerate() {
        found.extend(has(file, OTHERS_WRITE).then_some(file));
        // Files of others cannot be replaced in a sticky directory, but further files to include can be made there.
        let directory = file.parent().filter(|directory| has(directory, OTHERS_WRITE));
        found.extend(directory.filter(|directory| number > 0 || !has(directory, STICKY)));
    }
    let line = |path: &Path| {
        format!(
            "{0}: every user of this machine can change the configuration, and so run programs as the user of the server: chmod o-w {0}",
            path.display()
        )
    };
    found.into_iter().map(line).collect()
}

/// An address requires a client certificate, and another one that serves the same site does not.
fn unequal_addresses<'a, I: Iterator<Item = &'a ListenSettings>>(
    site: &SiteSettings,
    listen: impl Fn() -> I,
) -> Option<String> {
    let requires = |listen: &&ListenSettings| {
        let clients = listen.tls.as_ref().map(|tls| &tls.clients);
        matches!(clients, Some(ClientCertificates::Required(_)))
    };
    if site.client_certificates == CertificateUse::Required {
        return None;
    }
    let strict = listen().find(requires)?;
    let open = listen().find(|listen| !requires(listen) && listen.redirect_to_https.is_none())?;
    Some(format!(
        "{}: {} requires client certificates and {} does not, and this site is served on both: give it client_certificates = \
         \"required\", or listen = [\"{}\"]",
        site.origin, strict.address, open.address, strict.address
    ))
}

/// Routes distinguish clients by their address, and clients of a unix socket have none.
fn clients_of_unix_socket(settings: &Settings, site: &SiteSettings, listen: &ListenSettings) -> Option<String> {
    listen.address.path()?;
    if settings.proxies.trusted.has_unix() || listen.proxy_protocol.is_some() {
        return None;
    }
    let depends = |route: &RouteSettings| match &route.changes.access.own {
        _ if route.when.depends_on_client() => Some(format!(
            "{}: when = {{ client = … }}: every client of {} is 127.0.0.1 here",
            route.origin, listen.address
        )),
        Some(AccessUse::Limited(access)) if access.read.names_networks() || access.write.names_networks() => {
            Some(format!(
                "{}: net: nobody knows the addresses of the clients of {}, so none is in a network",
                access.origin, listen.address
            ))
        }
        _ => None,
    };
    let found = site.routes.iter().find_map(depends)?;
    Some(format!(
        "{found}; if a proxy connects there, add trusted_proxies = [\"unix:\"] to [server]"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::warnings;

    const TLS: &str =
        "tls = { certificate = 'cert.pem', client_certificates = 'required', client_authorities = 'ca.pem' }";

    #[track_caller]
    fn warnings_of(text: &str) -> Vec<String> {
        warnings(&read(text).unwrap_or_else(|errors| panic!("{errors}\n{text}")))
    }

    #[test]
    fn an_address_that_requires_what_another_does_not_is_a_warning() {
        let text = |other: &str, site: &str| {
            format!(
                "[[listen]]\naddress = ':443'\n{TLS}\n[[listen]]\naddress = ':80'\n{other}\n[[site]]\nroot = 'htdocs'\n{site}"
            )
        };
        let found = warnings_of(&text("", ""));
        assert_eq!(
            found,
            [
                "sluice.toml:7: 0.0.0.0:443 requires client certificates and 0.0.0.0:80 does not, and this site is served on both: give \
              it client_certificates = \"required\", or listen = [\"0.0.0.0:443\"]"
            ]
        );
        for (other, site) in [
            ("redirect = 'https'", ""),
            ("", "client_certificates = 'required'"),
            ("", "listen = [':443']"),
            (TLS, ""),
        ] {
            assert_eq!(warnings_of(&text(other, site)), [""; 0], "{other} {site}");
        }
    }

    #[test]
    fn more_processes_in_advance_than_there_is_room_for_are_a_warning() {
        let text = |max: usize| {
            format!(
                "[limits]\nprocesses = {max}\n[[site]]\n[[site.route]]\npath = '/*'\n\
                 script = {{ directory = 'base', mode = 'cgiplus', min = 7, max = 9 }}"
            )
        };
        assert_eq!(warnings_of(&text(8)), [""; 0]);
        let found = warnings_of(&text(6));
        let expected = "[limits] processes = 6: has room for 6 processes that are started in advance, and the routes want 7 (min): ";
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }

    #[test]
    fn conditions_on_clients_of_a_unix_socket_are_a_warning() {
        let text = |listen: &str, server: &str, when: &str| {
            format!(
                "[[listen]]\naddress = 'unix:/run/s'\n{listen}\n[server]\n{server}\n[[site]]\n[[site.route]]\npath = '/*'\nwhen = {when}\nrefuse = {{}}"
            )
        };
        let found = warnings_of(&text("", "", "{ client = '!127.0.0.1' }"));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("sluice.toml:7: when = { client = … }: every client of unix:/run/s"),
            "{found:?}"
        );
        for (listen, server, when) in [
            ("", "trusted_proxies = ['unix:']", "{ client = '::1' }"),
            ("proxy_protocol = ['unix:']", "", "{ client = '::1' }"),
            ("", "", "{ method = 'GET' }"),
        ] {
            assert_eq!(
                warnings_of(&text(listen, server, when)),
                [""; 0],
                "{listen} {server} {when}"
            );
        }
    }

    #[test]
    fn the_command_lines_php_among_files_is_a_warning() {
        let text = |keys: &str| format!("[[site]]\nroot = 'htdocs'\n[[site.route]]\npath = '/*'\n{keys}");
        let found = warnings_of(&text("scripts = { '.php' = 'php' }"));
        assert_eq!(
            found,
            [
                "sluice.toml:3: scripts: \".php\" = \"php\" is the php of the command line, which writes no head, so its replies get 502: for the \
                 engine add script = { mode = \"rte\" }, for CGI write \"php-cgi\""
            ]
        );
        for keys in [
            "scripts = { '.php' = 'php-cgi' }",
            "scripts = { '.php' = 'php' }\nscript = { mode = 'rte' }",
        ] {
            assert_eq!(warnings_of(&text(keys)), [""; 0], "{keys}");
        }
    }

    #[test]
    fn a_throttle_of_users_without_users_is_a_warning() {
        let text = |keys: &str| {
            format!(
                "[[site]]\nroot = 'htdocs'\n[[site.route]]\npath = '/*'\nthrottle = {{ at_once = 2, per = 'user' }}\n{keys}"
            )
        };
        let found = warnings_of(&text(""));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("sluice.toml:5: per = \"user\": no route of the site has access, so nobody is a user"),
            "{found:?}"
        );
        assert_eq!(warnings_of(&text("access = { allow = ['net:10.0.0.0/8'] }")), [""; 0]);
    }

    #[test]
    fn budgets_that_are_smaller_than_what_they_hold_are_a_warning() {
        let text = |limits: &str, route: &str| {
            format!(
                "[limits]\n{limits}\n[[site]]\n[[site.route]]\npath = '/*'\nscript = {{ directory = 'a' }}\n{route}"
            )
        };
        for (limits, route, warning) in [
            (
                "stored_bodies = '1GiB'\nbody_size = '2GiB'",
                "",
                "[limits]: body_size (2GiB) is more than all stored bodies together may have (limits.stored_bodies, 1GiB): a larger body gets 413",
            ),
            (
                "stored_bodies = '4GiB'",
                "limits = { body_size = '8GiB' }",
                "sluice.toml:4: body_size (8GiB) is more than all stored bodies together may have (limits.stored_bodies, 4GiB): a larger body gets 413",
            ),
            (
                "memory_buffers = '64MiB'",
                "",
                "sluice.toml:4: memory_buffer_max (256MiB) is more than all memory buffers together may have (limits.memory_buffers, 64MiB): a larger buffer is refused",
            ),
        ] {
            assert_eq!(warnings_of(&text(limits, route)), [warning], "{limits} {route}");
        }
        assert_eq!(warnings_of(&text("memory_buffers = '1GiB'", "")), [""; 0]);
    }
}
