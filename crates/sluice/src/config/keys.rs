//! The table of every key that a configuration may hold: the one place where a key is made.
//!
//! From it come the check for unknown keys, the messages about wrong values and bounds (`section`) and the reference page
//! (`reference`). The reader can ask for no key that is not here, and tests show that every key here is read, that its
//! example changes the settings and that its default does not.

mod addresses;
mod cache;
mod compression;
mod log;
mod pages;
mod route;
mod rules;
mod script;

use Fallback::{Required, Said, Value};
use addresses::{DNS_LOOKUP, DNS_SERVER, DNS_TIMEOUT, FORWARDED, PROXY_PROTOCOL, TRUSTED_PROXIES};
use cache::CACHE_OF_SITE;
use compression::{COMPRESSION, COMPRESSION_OF_SITE};
use log::{LOG, SITE_LOG};
use pages::{CHARSET, ERROR_DETAIL, ERRORS, LISTING, LISTING_TEMPLATE, TYPES};
use route::ROUTE;

/// One key.
pub(crate) struct Key {
    /// Its name within the section.
    pub(crate) name: &'static str,
    /// What may be written there.
    pub(crate) kind: Kind,
    /// What holds without it.
    pub(crate) default: Fallback,
    /// What it does, in whole sentences.
    pub(crate) text: &'static str,
    /// A value as it is written in the file, other than the default.
    pub(crate) example: &'static str,
}

/// Keys that stand together.
pub(crate) struct Section {
    /// How messages and the reference name it, such as `[[site.route]].script`; empty for the file's top.
    pub(crate) title: &'static str,
    /// What it is for.
    pub(crate) text: &'static str,
    /// Its keys, in the order in which the reference shows them.
    pub(crate) keys: &'static [Key],
}

/// What may be written as the value of a key.
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A text that is a path.
    Path,
    /// A text that is an address to listen on.
    Address,
    /// true or false.
    Flag,
    /// A list of texts.
    Texts,
    /// A text, or a list of texts.
    Words,
    /// Names with texts.
    Pairs,
    /// A whole number.
    Number {
        /// What is counted.
        unit: &'static str,
        /// What is allowed.
        bounds: Bounds,
    },
    /// A duration; the bounds are milliseconds.
    Duration(Bounds),
    /// A size; the bounds are bytes.
    Size(Bounds),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these numbers.
    Code(&'static [u16]),
    /// A section that stands once.
    Table(&'static Section),
    /// A section that may stand several times.
    Tables(&'static Section),
}

/// The least and the most that a number may be.
pub(crate) struct Bounds {
    /// The least.
    pub(crate) least: u64,
    /// The most.
    pub(crate) most: u64,
    /// What to do instead, or why; told with the refusal.
    pub(crate) mend: &'static str,
}

/// What holds when a key is left out.
pub(crate) enum Fallback {
    /// The same as if this value stood there.
    Value(&'static str),
    /// What no value can say, in words.
    Said(&'static str),
    /// Nothing: the key must be there.
    Required,
}

/// Bounds that refuse nothing that can be written.
const ANY: Bounds = Bounds {
    least: 0,
    most: u64::MAX,
    mend: "",
};

const fn at_least(least: u64, mend: &'static str) -> Bounds {
    Bounds {
        least,
        most: u64::MAX,
        mend,
    }
}

/// The top of the file.
pub(crate) static ROOT: Section = Section {
    title: "",
    text: "A configuration is a file in TOML. Relative paths in it start from the folder in which it lies.",
    keys: &[
        Key {
            name: "listen",
            kind: Kind::Tables(&LISTEN),
            default: Said("`127.0.0.1:8080`"),
            text: "An address to listen on.",
            example: "{ address = \"0.0.0.0:80\" }",
        },
        Key {
            name: "server",
            kind: Kind::Table(&SERVER),
            default: Said("the defaults of its keys"),
            text: "The server as a whole.",
            example: "{ workers = 4 }",
        },
        Key {
            name: "limits",
            kind: Kind::Table(&LIMITS),
            default: Said("the defaults of its keys"),
            text: "Bounds on connections, heads and bodies.",
            example: "{ body_size = \"100MiB\" }",
        },
        Key {
            name: "cache",
            kind: Kind::Table(&CACHE),
            default: Said("the defaults of its keys"),
            text: "Files kept in memory.",
            example: "{ size = \"1GiB\" }",
        },
        COMPRESSION,
        Key {
            name: "log",
            kind: Kind::Table(&LOG),
            default: Said("the defaults of its keys"),
            text: "Where finished exchanges are written down; `false` for nowhere.",
            example: "{ access = \"access.log\" }",
        },
        Key {
            name: "site",
            kind: Kind::Tables(&SITE),
            default: Required,
            text: "A virtual host.",
            example: "{ root = \"htdocs\" }",
        },
    ],
};

static LISTEN: Section = Section {
    title: "[[listen]]",
    text: "An address to listen on; as many as needed. Without any, `127.0.0.1:8080`: this machine alone.",
    keys: &[
        Key {
            name: "address",
            kind: Kind::Address,
            default: Required,
            text: "Address and port: `0.0.0.0:80` or `:80` (every IPv4 address), `[::]:80` (every IPv6 address), \
                   `localhost:8080` or `8080` (this machine alone). Port 0 lets the system choose. `unix:/run/sluice.sock` is \
                   a unix socket; the file is made at the start and removed at the end.",
            example: "\"0.0.0.0:80\"",
        },
        Key {
            name: "mode",
            kind: Kind::Text,
            default: Value("\"660\""),
            text: "The mode of a unix socket's file. Who may write to it may connect: the server's user, its group, everybody.",
            example: "\"600\"",
        },
        PROXY_PROTOCOL,
        Key {
            name: "tls",
            kind: Kind::Table(&TLS),
            default: Said("clear text"),
            text: "TLS 1.2 and 1.3 on this address.",
            example: "{ certificate = \"cert.pem\" }",
        },
        Key {
            name: "http2",
            kind: Kind::Choice(&["on", "off"]),
            default: Said("`on` with `tls`, `off` without"),
            text: "HTTP/2 besides HTTP/1.1: over TLS the client chooses (ALPN); in clear text it must know beforehand.",
            example: "\"on\"",
        },
        Key {
            name: "redirect",
            kind: Kind::Choice(&["https"]),
            default: Said("requests are served"),
            text: "Sends every request to the same place by https (308), at the port of the first address with `tls`.",
            example: "\"https\"",
        },
    ],
};

static TLS: Section = Section {
    title: "[[listen]].tls",
    text: "TLS on an address, with the certificate for clients that name no site's host, or one without a certificate of its \
           own. Certificates and keys are files in PEM form; when they change they are read again within some seconds, \
           and on SIGHUP, and connections go on.",
    keys: &[
        CERTIFICATE,
        KEY,
        Key {
            name: "oldest",
            kind: Kind::Choice(&["1.2", "1.3"]),
            default: Value("\"1.2\""),
            text: "The oldest version of TLS that is spoken.",
            example: "\"1.3\"",
        },
        Key {
            name: "client_certificates",
            kind: Kind::Choice(&["off", "optional", "required"]),
            default: Value("\"off\""),
            text: "Whether clients are asked for a certificate. Scripts are told of it by `SSL_CLIENT_VERIFY`, \
                   `SSL_CLIENT_S_DN` and the other names of Apache.",
            example: "\"required\"",
        },
        Key {
            name: "client_authorities",
            kind: Kind::Path,
            default: Said("none, so `client_certificates` must be off"),
            text: "The certificates of the authorities that sign those of clients.",
            example: "\"clients.pem\"",
        },
    ],
};

static SITE_TLS: Section = Section {
    title: "[site.tls]",
    text: "The certificate of a site, for clients that name one of its hosts (SNI) on an address with `tls`.",
    keys: &[CERTIFICATE, KEY],
};

const CERTIFICATE: Key = Key {
    name: "certificate",
    kind: Kind::Path,
    default: Required,
    text: "The certificate, followed by those that lead to its authority.",
    example: "\"cert.pem\"",
};

const KEY: Key = Key {
    name: "key",
    kind: Kind::Path,
    default: Said("in the file of the certificate"),
    text: "Its key: RSA, P-256, P-384 or Ed25519, without a pass phrase.",
    example: "\"key.pem\"",
};

static SERVER: Section = Section {
    title: "[server]",
    text: "The server as a whole.",
    keys: &[
        Key {
            name: "workers",
            kind: Kind::Number {
                unit: "threads",
                bounds: Bounds {
                    least: 1,
                    most: 1024,
                    mend: "one for each processor is what it is made for",
                },
            },
            default: Said("one for each processor"),
            text: "Event-loop threads. Scripts run in processes of their own, so more threads than processors gain nothing. Read when the server starts.",
            example: "4",
        },
        TRUSTED_PROXIES,
        FORWARDED,
        DNS_LOOKUP,
        DNS_TIMEOUT,
        DNS_SERVER,
    ],
};

static LIMITS: Section = Section {
    title: "[limits]",
    text: "Bounds on connections, heads and bodies, for the whole server. The bounds of a script stand with it.",
    keys: &[
        Key {
            name: "connections",
            kind: Kind::Number {
                unit: "connections",
                bounds: at_least(1, "a server without connections serves nothing"),
            },
            default: Value("10000"),
            text: "Connections open at once. At the limit no more are accepted until one ends; the kernel holds those \
                   that wait.",
            example: "50000",
        },
        Key {
            name: "head_size",
            kind: Kind::Size(Bounds {
                least: 8 << 10,
                most: 16 << 20,
                mend: "browsers send several KiB of cookies",
            }),
            default: Value("\"64KiB\""),
            text: "Largest head of a request. Over it: 431. A target of more than 64 KiB in a head within it: 414.",
            example: "\"16KiB\"",
        },
        Key {
            name: "head_fields",
            kind: Kind::Number {
                unit: "fields",
                bounds: at_least(1, "every request has a Host field"),
            },
            default: Value("100"),
            text: "Most fields in the head of a request. Over it: 431.",
            example: "200",
        },
        Key {
            name: "body_size",
            kind: Kind::Size(ANY),
            default: Value("\"1GiB\""),
            text: "Largest body of a request, announced or counted. Over it: 413.",
            example: "\"100MiB\"",
        },
        Key {
            name: "head_timeout",
            kind: Kind::Duration(at_least(1, "no client is that fast")),
            default: Value("\"30s\""),
            text: "Longest wait for a complete head, from the moment it is awaited, or for a handshake of TLS. Half a head is \
                   answered 408; a connection that sent nothing is closed. Looked at once a second.",
            example: "\"10s\"",
        },
        Key {
            name: "body_timeout",
            kind: Kind::Duration(at_least(1, "no client is that fast")),
            default: Value("\"30s\""),
            text: "Longest silence within the body of a request. Over it: 408.",
            example: "\"1m\"",
        },
        Key {
            name: "body_rate",
            kind: Kind::Size(ANY),
            default: Value("500"),
            text: "Least rate of the body of a request, bytes a second: it may take `body_timeout`, and a second more for each so \
                   many bytes. Over it: 408. The time that a script takes to read does not count; that in which a client waits for an \
                   answer before it sends more (`request_body = \"stream\"`) does. 0 for any rate.",
            example: "\"4KiB\"",
        },
        Key {
            name: "send_timeout",
            kind: Kind::Duration(at_least(1, "no client is that fast")),
            default: Value("\"1m\""),
            text: "A client that makes no room for more of its response for so long loses its connection. The kernel, which holds up to \
                   some MB for a client, tells of room in large pieces: who takes a byte now and then makes none.",
            example: "\"5m\"",
        },
        Key {
            name: "drain_timeout",
            kind: Kind::Duration(ANY),
            default: Value("\"30s\""),
            text: "After SIGTERM: how long the exchanges under way may take before they are cut.",
            example: "\"2m\"",
        },
    ],
};

static CACHE: Section = Section {
    title: "[cache]",
    text: "Files kept in memory, for all sites and workers together. What is asked for least makes room.",
    keys: &[
        Key {
            name: "size",
            kind: Kind::Size(ANY),
            default: Value("\"256MiB\""),
            text: "Memory for the content of files; used as files are asked for. 0 switches the cache off: every file is then \
                   read anew for every request.",
            example: "\"1GiB\"",
        },
        Key {
            name: "files",
            kind: Kind::Number {
                unit: "files",
                bounds: at_least(1, "size = 0 switches the cache off"),
            },
            default: Value("20000"),
            text: "Most files in the cache.",
            example: "100000",
        },
        Key {
            name: "file_size",
            kind: Kind::Size(ANY),
            default: Value("\"8MiB\""),
            text: "Larger files are not kept in the cache.",
            example: "\"1MiB\"",
        },
        Key {
            name: "revalidate",
            kind: Kind::Duration(ANY),
            default: Value("\"100ms\""),
            text: "How long a file in the cache is believed to be unchanged. Then it is looked at again, and read again if \
                   it has changed. `0s` looks every time.",
            example: "\"10s\"",
        },
    ],
};

static SITE: Section = Section {
    title: "[[site]]",
    text: "A virtual host; at least one. For hosts that no site names the one without `hosts` answers, or else the first.",
    keys: &[
        Key {
            name: "hosts",
            kind: Kind::Texts,
            default: Said("any host"),
            text: "Names of the site, without port. `*.example.org` stands for every name below example.org.",
            example: "[\"example.org\", \"*.example.org\"]",
        },
        Key {
            name: "root",
            kind: Kind::Path,
            default: Said("no files"),
            text: "Folder of the site's files: what no route matches is looked for there. Scripts are told it as \
                   DOCUMENT_ROOT.",
            example: "\"htdocs\"",
        },
        Key {
            name: "tls",
            kind: Kind::Table(&SITE_TLS),
            default: Said("the certificate of the address"),
            text: "The site's own certificate.",
            example: "{ certificate = \"cert.pem\" }",
        },
        Key {
            name: "hsts",
            kind: Kind::Duration(ANY),
            default: Said("not told"),
            text: "For how long clients are to use nothing but https for this host (`Strict-Transport-Security`), told over \
                   TLS. Browsers hold to it: begin with minutes.",
            example: "\"5m\"",
        },
        Key {
            name: "index",
            kind: Kind::Texts,
            default: Value("[\"index.html\"]"),
            text: "Names of files that are tried, in order, when a folder is asked for.",
            example: "[\"index.html\", \"index.cgi\"]",
        },
        CACHE_OF_SITE,
        LISTING,
        LISTING_TEMPLATE,
        TYPES,
        CHARSET,
        COMPRESSION_OF_SITE,
        ERRORS,
        ERROR_DETAIL,
        Key {
            name: "log",
            kind: Kind::Table(&SITE_LOG),
            default: Said("as `[log]`"),
            text: "Where the site's finished exchanges are written down, if elsewhere or in another form; `false` for nowhere.",
            example: "{ access = \"example.org.log\" }",
        },
        Key {
            name: "route",
            kind: Kind::Tables(&ROUTE),
            default: Said("files under `root`"),
            text: "What a path means.",
            example: "{ path = \"/old\", redirect = { to = \"/new\" } }",
        },
    ],
};
