//! `[server]`: threads, trusted proxies and reverse DNS.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use sluice_settings::address::UNIX_PATH_BYTES_MAX;
use sluice_settings::{
    ControlSocket, DnsSettings, ForwardedField, OwnerSettings, Peers, Settings, StateDirectory, UnknownHosts,
};

use super::document::At;
use super::key::{Key, Section, between, set};
use super::section::to_usize;
use super::server_watch::SERVER_WATCH;
use super::table::{Table, Written, require_directory};
use super::users::{OWNERS, check_owners, parse_user};

/// The port of name servers.
const DNS_PORT: u16 = 53;

/// Reports keys that have no effect, because another key is absent or the program cannot do what they say.
pub(super) fn check(table: &Table<'_>) {
    if !table.has("trusted_proxies") {
        table.refuse("forwarded", "no proxy is trusted: add trusted_proxies, or remove this");
    }
    if !table.has("dns_lookup") {
        for name in ["dns_timeout", "dns_server"] {
            table.refuse(name, "needs dns_lookup = true: add it, or remove this");
        }
    }
}

/// One thread for each processor that this process may use.
pub fn default_workers() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

pub(super) static SERVER: Section<Settings> = Section {
    title: "[server]",
    keys: &[
        Key::text("user", |settings, text, _| {
            set(&mut settings.users.server, parse_user(&text)?)
        }),
        Key::text("script_user", |settings, text, _| {
            set(&mut settings.users.scripts, parse_user(&text)?)
        }),
        Key::table("script_owners", &OWNERS, |settings, table| {
            let owners = OWNERS.read(table, OwnerSettings::default());
            check_owners(&owners, table);
            table.document.permit_owners();
            settings.users.owners = Some(owners);
        }),
        Key::number(
            "workers",
            "threads",
            between(1, 1024, "the server is designed for one per processor"),
            |settings, workers| {
                settings.workers = NonZeroUsize::new(to_usize(workers)).unwrap_or(NonZeroUsize::MIN);
            },
        ),
        Key::path("spool_directory", |settings, path, written| {
            require_directory(written.document(), written.name, &written.at(path.clone()));
            settings.spool_directory = Some(path);
            Ok(())
        }),
        Key::word_or_path(
            "state_directory",
            &[("off", |settings| settings.state_directory = StateDirectory::Off)],
            |settings, path, _| set(&mut settings.state_directory, StateDirectory::Path(path)),
        ),
        Key::path("sdk", |_, path, written| {
            require_directory(written.document(), written.name, &written.at(path.clone()));
            written.document().set_sdk(path);
            Ok(())
        }),
        Key::choice(
            "unknown_hosts",
            &[
                ("serve", |settings| settings.unknown_hosts = UnknownHosts::Serve),
                ("refuse", |settings| settings.unknown_hosts = UnknownHosts::Refuse),
            ],
        ),
        Key::texts("trusted_proxies", |settings, texts, written| {
            set(&mut settings.proxies.trusted, read_peers(texts, written))
        }),
        Key::choice(
            "forwarded",
            &[
                ("x-forwarded-for", |settings| {
                    settings.proxies.forwarded = ForwardedField::XForwardedFor;
                }),
                ("forwarded", |settings| {
                    settings.proxies.forwarded = ForwardedField::Forwarded;
                }),
            ],
        ),
        Key::flag("dns_lookup", |settings, is_on| {
            settings.dns = is_on.then_some(DnsSettings { timeout: DnsSettings::TIMEOUT, server: None });
        }),
        Key::duration(
            "dns_timeout",
            between(0, 5000, "a lookup ends after that time"),
            |settings, timeout| settings.dns.iter_mut().for_each(|dns| dns.timeout = timeout),
        ),
        Key::text("dns_server", |settings, text, _| {
            let server = parse_dns_server(&text)?;
            settings.dns.iter_mut().for_each(|dns| dns.server = Some(server));
            Ok(())
        }),
        Key::flag("core_dumps", |settings, is_on| settings.core_dumps = is_on),
        Key::word_or_path(
            "control",
            &[("off", |settings| settings.control = ControlSocket::Off)],
            |settings, path, written| {
                if let Some(word) = written.value.as_str()
                    && ["on", "yes", "true", "default", "auto"].contains(&word)
                {
                    return Err(
                        "there is a control socket without this key: remove the key, or write a path, or \"off\""
                            .to_owned(),
                    );
                }
                let bytes = path.as_os_str().len();
                if bytes > UNIX_PATH_BYTES_MAX {
                    return Err(format!(
                        "has {bytes} bytes, but the path of a socket may have {UNIX_PATH_BYTES_MAX}: choose a shorter one"
                    ));
                }
                settings.control = ControlSocket::Path(path);
                Ok(())
            },
        ),
        Key::table("watch", &SERVER_WATCH, |settings, table| {
            SERVER_WATCH.fill(table, &mut settings.watch);
        }),
    ],
};

fn parse_dns_server(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().map(|address: IpAddr| SocketAddr::new(address, DNS_PORT));
    let server = address.ok().or_else(|| text.parse().ok());
    server.filter(|server| server.port() != 0).ok_or_else(|| {
        "must be an address, as in \"192.0.2.53\", or one with its port, \"192.0.2.53:5353\" or \"[::1]:5353\""
            .to_owned()
    })
}

/// Addresses, networks and `unix:`; those that are wrong are reported and left out.
pub(super) fn read_peers(texts: Vec<At<String>>, written: &Written<'_>) -> Peers {
    let mut peers = Peers::default();
    written.each(texts, |text, _| {
        let added = peers.add(text);
        added.map_err(|message| format!("{}: \"{}\": {message}", written.name, text.escape_debug()))
    });
    peers
}
