//! `[server]`: threads, trusted proxies and reverse DNS.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use sluice_settings::address::UNIX_PATH_BYTES_MAX;
use sluice_settings::{
    ControlSocket, DnsSettings, ForwardedField, OwnerSettings, Peers, ProxySettings, StateDirectory, UnknownHosts,
    UserSettings, WatchSettings,
};

use super::description::Fallback::{Value, Words};
use super::document::{At, Document};
use super::key::{Bounds, Key, Kind, Nested, Section};
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
    text: "The server as a whole.",
    keys: &[
        USER,
        SCRIPT_USER,
        SCRIPT_OWNERS,
        Key {
            name: "workers",
            kind: Kind::Number {
                unit: "threads",
                bounds: Bounds {
                    least: 1,
                    most: 1024,
                    hint: "the server is designed for one per processor",
                },
                set: |server, workers| {
                    server.workers = NonZeroUsize::new(to_usize(workers)).unwrap_or(NonZeroUsize::MIN);
                },
            },
            default: Words("one for each processor"),
            text: "Event-loop threads. Scripts run in processes of their own, so more threads than processors gain nothing. A change \
                   takes effect when the server is restarted.",
            example: "4",
        },
        Key {
            name: "spool_directory",
            kind: Kind::Path(|server, path, written| {
                require_directory(written.document(), written.name, &written.at(path.clone()));
                server.spool_directory = Some(path);
                Ok(())
            }),
            default: Words("`$TMPDIR`, or `/tmp`"),
            text: "Directory for the request bodies that are stored before a script starts, if they are larger than 64 KiB. On many systems \
                   `/tmp` is memory (tmpfs): then name a directory on a disk, or lower `limits.stored_bodies`. The files have no names, so \
                   nothing is left if the server is killed.",
            example: "\"/var/tmp\"",
        },
        Key {
            name: "state_directory",
            kind: Kind::WordOrPath(
                &[("off", |server| server.state_directory = StateDirectory::Off)],
                |server, path, _| {
                    server.state_directory = StateDirectory::Path(path);
                    Ok(())
                },
            ),
            default: Words(
                "`$STATE_DIRECTORY` (systemd), `/var/lib/sluice` (root), `$XDG_STATE_HOME/sluice` or `~/.local/state/sluice`",
            ),
            text: "The directory for data that survives a restart: the [activity](../guides/reports.md#activity) of the last 28 days, in a \
                   file of 2.5 MiB. It is created if it does not exist, for the user of the server only. Each server needs a directory \
                   of its own. With `off` \
                   the activity is kept in memory. A change takes effect when the server is restarted.",
            example: "\"/var/lib/sluice-shop\"",
        },
        Key {
            name: "sdk",
            kind: Kind::Path(|_, path, written| {
                require_directory(written.document(), written.name, &written.at(path.clone()));
                written.document().set_sdk(path);
                Ok(())
            }),
            default: Words(
                "beside the program: `../lib/sluice`, or `sdk` of the checkout in which it was built; then `/usr/local/lib/sluice`, `/usr/lib/sluice`",
            ),
            text: "The directory of the engines that run scripts in mode `rte`, and of the authentication agents: it has `python/engine.py`, \
                   `perl/engine.pl`, `php/sluice-php`, `agents/sluice-pam` and `agents/sluice-ldap`.",
            example: "\"/opt/sluice/lib\"",
        },
        Key {
            name: "unknown_hosts",
            kind: Kind::Choice(&[
                ("serve", |server| server.unknown_hosts = UnknownHosts::Serve),
                ("refuse", |server| server.unknown_hosts = UnknownHosts::Refuse),
            ]),
            default: Value("\"serve\""),
            text: "The answer to requests for a host that no site names. `serve`: the site without `hosts` answers, or else the first \
                   site. `refuse`: 421 (Misdirected Request).",
            example: "\"refuse\"",
        },
        Key {
            name: "trusted_proxies",
            kind: Kind::Texts(|server, texts, written| {
                server.proxies.trusted = read_peers(&texts, written);
                Ok(())
            }),
            default: Words("none"),
            text: "Proxies in front of this server whose information about their clients is trusted: addresses, networks, and `unix:` \
                   for every connection to a unix socket. Logs, scripts and routes then see the client instead of the proxy. See \
                   [Addresses](../guides/addresses.md#behind-a-proxy).",
            example: "[\"10.0.0.0/8\", \"::1\", \"unix:\"]",
        },
        Key {
            name: "forwarded",
            kind: Kind::Choice(&[
                ("x-forwarded-for", |server| {
                    server.proxies.forwarded = ForwardedField::XForwardedFor;
                }),
                ("forwarded", |server| {
                    server.proxies.forwarded = ForwardedField::Forwarded;
                }),
            ]),
            default: Value("\"x-forwarded-for\""),
            text: "The field in which trusted proxies name their clients: `X-Forwarded-For` (with `X-Forwarded-Proto`), or `Forwarded`. \
                   Choose the field that the proxy itself sets; the other one is ignored.",
            example: "\"forwarded\"",
        },
        Key {
            name: "dns_lookup",
            kind: Kind::Flag(|server, is_on| server.is_dns_on = is_on),
            default: Value("false"),
            text: "Whether the host names of clients are looked up, for `REMOTE_HOST` and for `%h` in logs. Only scripts wait for them, \
                   at most `dns_timeout`. See [Addresses](../guides/addresses.md#reverse-dns). A change of this key and of the \
                   two below takes effect when the server is restarted.",
            example: "true",
        },
        Key {
            name: "dns_timeout",
            kind: Kind::Duration(
                Bounds {
                    least: 0,
                    most: 5000,
                    hint: "a lookup ends after that time",
                },
                |server, timeout| server.dns.timeout = timeout,
            ),
            default: Value("\"500ms\""),
            text: "How long a script may wait for the name of its client, counted from the client's first request. After that the \
                   script gets the address.",
            example: "\"100ms\"",
        },
        Key {
            name: "dns_server",
            kind: Kind::Text(|server, text, _| {
                server.dns.server = Some(parse_dns_server(&text)?);
                Ok(())
            }),
            default: Words("those of `/etc/resolv.conf`"),
            text: "The name server to ask: an address, or an address and port.",
            example: "\"192.0.2.53\"",
        },
        Key {
            name: "core_dumps",
            kind: Kind::Flag(|server, is_on| server.core_dumps = is_on),
            default: Value("false"),
            text: "Whether the kernel may write core dumps of the server, and whether debuggers of the server's user may attach to it. \
                   Scripts, which run as the same user, can then read the server's memory (keys, other clients' requests) and its \
                   descriptors. Root can attach a debugger in any case. A change takes effect when the server is restarted.",
            example: "true",
        },
        Key {
            name: "control",
            kind: Kind::WordOrPath(
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
            default: Words("`PID.sock` in `$XDG_RUNTIME_DIR/sluice`, `/run/sluice-root` (root) or `/tmp/sluice-UID`"),
            text: "The unix socket for `sluice status`, `top`, `reload`, `drain`, `purge`, `retire`, `end` and `log reopen`, or `off`. Only the user of the server \
                   and root can use it; so can scripts, which run as the same user. A change takes effect when the server is restarted.",
            example: "\"/run/sluice/control.sock\"",
        },
        Key {
            name: "watch",
            kind: Kind::Table(&Nested {
                section: &SERVER_WATCH,
                off: None,
                begin: |server: &Server, _| server.watch.clone(),
                end: |server, watch, _| server.watch = watch,
            }),
            default: Words("the defaults of its keys"),
            text: "Secrets that WATCH does not show.",
            example: "{ masked_fields = [\"password\", \"pin_code\"] }",
        },
    ],
};

const USER: Key<Server> = Key {
    name: "user",
    kind: Kind::Text(|server, text, _| {
        server.users.server = Some(parse_user(&text)?);
        Ok(())
    }),
    default: Words("the user who starts the server"),
    text: "The user of the server process, if the server is started as root: `name`, `name:group`, or numbers, `33:33`, which need no account. \
           The supervisor stays root: it reads the configuration with certificates and keys, binds the addresses and makes the files of the logs. \
           Never root. See [users](../guides/users.md). A change takes effect when the server is restarted.",
    example: "\"nobody\"",
};

const SCRIPT_USER: Key<Server> = Key {
    name: "script_user",
    kind: Kind::Text(|server, text, _| {
        server.users.scripts = Some(parse_user(&text)?);
        Ok(())
    }),
    default: Words("`user`"),
    text: "The user of scripts on routes without a `user`; written like `user`. If it differs from the user of the server, scripts \
           cannot signal the server, give it commands, or read its files. Never root.",
    example: "\"nobody\"",
};

const SCRIPT_OWNERS: Key<Server> = Key {
    name: "script_owners",
    kind: Kind::Table(&Nested {
        section: &OWNERS,
        off: None,
        begin: |_: &Server, _| OwnerSettings::default(),
        end: |server, owners, table| {
            check_owners(&owners, table);
            table.document.permit_owners();
            server.users.owners = Some(owners);
        },
    }),
    default: Words("nobody"),
    text: "The owners whose scripts may run as them, on routes with `user = \"owner\"`.",
    example: "{ users = [\"nobody\"], directories = [\"/home\"] }",
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
pub(super) fn read_peers(texts: &[At<String>], written: &Written<'_>) -> Peers {
    let mut peers = Peers::default();
    for text in texts {
        if let Err(message) = peers.add(&text.value) {
            let message = format!("{}: \"{}\": {message}", written.name, text.value.escape_debug());
            written.document().report(text.line, message);
        }
    }
    peers
}
