//! `[server]`: threads, trusted proxies and reverse DNS.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use sluice_settings::address::UNIX_PATH_BYTES_MAX;
use sluice_settings::{
    ControlSocket, DnsSettings, ForwardedField, OwnerSettings, Peers, ProxySettings, StateDirectory, UnknownHosts,
    UserSettings, WatchSettings,
};

use super::document::{At, Document};
use super::key::{Key, Section, between, set};
use super::section::to_usize;
use super::server_watch::SERVER_WATCH;
use super::sites::Sites;
use super::table::{Table, Written, require_directory};
use super::users::{OWNERS, check_owners, parse_user};

/// The port of name servers.
const DNS_PORT: u16 = 53;

/// `[server]` while it is read.
pub(super) struct Server {
    pub(super) workers: NonZeroUsize,
    pub(super) spool_directory: Option<PathBuf>,
    pub(super) state_directory: StateDirectory,
    pub(super) proxies: ProxySettings,
    pub(super) core_dumps: bool,
    pub(super) control: ControlSocket,
    pub(super) watch: WatchSettings,
    pub(super) users: UserSettings,
    dns: DnsSettings,
    is_dns_on: bool,
    pub(super) unknown_hosts: UnknownHosts,
    /// The key `unknown_hosts` as in the file.
    unknown_hosts_key: Option<At<String>>,
}

impl Server {
    pub(super) fn new() -> Server {
        Server {
            workers: default_workers(),
            spool_directory: None,
            state_directory: StateDirectory::Usual,
            proxies: ProxySettings::default(),
            core_dumps: false,
            control: ControlSocket::Usual,
            watch: WatchSettings::default(),
            users: UserSettings::default(),
            dns: DnsSettings {
                timeout: DnsSettings::TIMEOUT,
                server: None,
            },
            is_dns_on: false,
            unknown_hosts: UnknownHosts::Serve,
            unknown_hosts_key: None,
        }
    }

    /// Completes the section. Reports keys that have no effect, because another key is absent or the program cannot do what they
    /// say.
    pub(super) fn finish(self, table: &Table<'_>) -> Server {
        if !table.has("trusted_proxies") {
            table.refuse("forwarded", "no proxy is trusted: add trusted_proxies, or remove this");
        }
        if !table.has("dns_lookup") {
            for name in ["dns_timeout", "dns_server"] {
                table.refuse(name, "needs dns_lookup = true: add it, or remove this");
            }
        }
        Server {
            unknown_hosts_key: table.written("unknown_hosts").map(|written| written.shown()),
            ..self
        }
    }

    /// Reports that unknown hosts are refused where a site serves them.
    pub(super) fn check_hosts(&self, sites: &Sites, document: &Document<'_>) {
        if let (UnknownHosts::Refuse, Some(key), Some(line)) =
            (&self.unknown_hosts, &self.unknown_hosts_key, sites.any_host_line())
        {
            let message = "the site without hosts serves any host: give it hosts = [\"example.org\"]";
            document.report(line, format!("{}: {message}", key.value));
        }
    }

    /// How clients' names are looked up; `None` if they are not.
    pub(super) fn dns(&self) -> Option<DnsSettings> {
        self.is_dns_on.then(|| self.dns.clone())
    }
}

/// One thread for each processor that this process may use.
pub fn default_workers() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

pub(super) static SERVER: Section<Server> = Section {
    title: "[server]",
    keys: &[
        Key::text("user", |server, text, _| {
            set(&mut server.users.server, parse_user(&text)?)
        }),
        Key::text("script_user", |server, text, _| {
            set(&mut server.users.scripts, parse_user(&text)?)
        }),
        Key::table("script_owners", &OWNERS, |server, table| {
            let owners = OWNERS.read(table, OwnerSettings::default());
            check_owners(&owners, table);
            table.document.permit_owners();
            server.users.owners = Some(owners);
        }),
        Key::number(
            "workers",
            "threads",
            between(1, 1024, "the server is designed for one per processor"),
            |server, workers| {
                server.workers = NonZeroUsize::new(to_usize(workers)).unwrap_or(NonZeroUsize::MIN);
            },
        ),
        Key::path("spool_directory", |server, path, written| {
            require_directory(written.document(), written.name, &written.at(path.clone()));
            server.spool_directory = Some(path);
            Ok(())
        }),
        Key::word_or_path(
            "state_directory",
            &[("off", |server| server.state_directory = StateDirectory::Off)],
            |server, path, _| set(&mut server.state_directory, StateDirectory::Path(path)),
        ),
        Key::path("sdk", |_, path, written| {
            require_directory(written.document(), written.name, &written.at(path.clone()));
            written.document().set_sdk(path);
            Ok(())
        }),
        Key::choice(
            "unknown_hosts",
            &[
                ("serve", |server| server.unknown_hosts = UnknownHosts::Serve),
                ("refuse", |server| server.unknown_hosts = UnknownHosts::Refuse),
            ],
        ),
        Key::texts("trusted_proxies", |server, texts, written| {
            set(&mut server.proxies.trusted, read_peers(texts, written))
        }),
        Key::choice(
            "forwarded",
            &[
                ("x-forwarded-for", |server| {
                    server.proxies.forwarded = ForwardedField::XForwardedFor;
                }),
                ("forwarded", |server| {
                    server.proxies.forwarded = ForwardedField::Forwarded;
                }),
            ],
        ),
        Key::flag("dns_lookup", |server, is_on| server.is_dns_on = is_on),
        Key::duration(
            "dns_timeout",
            between(0, 5000, "a lookup ends after that time"),
            |server, timeout| server.dns.timeout = timeout,
        ),
        Key::text("dns_server", |server, text, _| {
            set(&mut server.dns.server, parse_dns_server(&text)?)
        }),
        Key::flag("core_dumps", |server, is_on| server.core_dumps = is_on),
        Key::word_or_path(
            "control",
            &[("off", |server| server.control = ControlSocket::Off)],
            |server, path, written| {
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
                server.control = ControlSocket::Path(path);
                Ok(())
            },
        ),
        Key::table("watch", &SERVER_WATCH, |server, table| {
            server.watch = SERVER_WATCH.read(table, server.watch.clone());
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
