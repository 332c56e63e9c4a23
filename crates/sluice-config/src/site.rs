//! `[[site]]`: virtual hosts.
//!
//! Here: the keys of a site. Not here: which of several sites a host belongs to (`sites`), and what paths mean (`route`).

use sluice_settings::rule::{CertificateUse, check_bracketed};
use sluice_settings::{
    AccessLog, CacheUse, CompressionSettings, ErrorDetail, ErrorSettings, FileSettings, FollowLinks, ListenAddress,
    LogTarget, SiteSettings,
};

use super::blocks;
use super::client_certificates::{Authorities, CRL_TEXT};
use super::compression::{self, SITE_COMPRESSION};
use super::description::Fallback::{Value, Words};
use super::document::{At, Document, Missing};
use super::key::{ANY, Key, Kind, Nested, Section};
use super::listen::{Identity, SITE_TLS};
use super::log::{self, Logs, SITE_LOG};
use super::pages;
use super::route::{self, FOLLOW_LINKS_TEXT, ROUTE};
use super::route_lint::{ParsedRoute, SiteRoot};
use super::table::{Table, Written, expect_directory};
use sluice_settings::notation;

/// The index page of a site that names none.
pub const INDEX: &str = "index.html";

/// A site while it is read.
pub(super) struct Draft {
    /// The settings of the site. Their hosts are filled in at the end.
    pub(super) settings: SiteSettings,
    /// `None` for any host.
    pub(super) hosts: Option<Vec<At<String>>>,
    /// Empty for all addresses.
    pub(super) listen: Vec<At<ListenAddress>>,
    pub(super) authorities: Authorities,
    pub(super) root: SiteRoot,
    server_log: AccessLog,
    pub(super) parsed_routes: Vec<ParsedRoute>,
    /// Whether the site is served.
    pub(super) is_enabled: bool,
    /// The messages about what is missing, before this site was read.
    pub(super) missing_before: Missing,
}

impl Draft {
    pub(super) fn new(server_log: &AccessLog, compression: &CompressionSettings, table: &Table<'_>) -> Draft {
        Draft {
            settings: SiteSettings {
                origin: table.document.origin(table.line),
                hosts: Vec::new(),
                root: None,
                listen: Vec::new(),
                identity: None,
                client_certificates: CertificateUse::Optional,
                client_authorities: None,
                hsts: None,
                index: vec![INDEX.to_owned()],
                routes: Vec::new(),
                files: FileSettings::default(),
                compression: compression.clone(),
                errors: ErrorSettings::default(),
                log: None,
                blocks: Vec::new(),
            },
            hosts: None,
            listen: Vec::new(),
            authorities: Authorities::default(),
            root: if table.has("root") {
                SiteRoot::Present
            } else {
                SiteRoot::Absent
            },
            server_log: server_log.clone(),
            parsed_routes: Vec::new(),
            is_enabled: true,
            missing_before: table.document.missing(),
        }
    }
}

pub(super) static SITE: Section<Draft> = Section {
    title: "[[site]]",
    text: "A virtual host; at least one. Requests for a host that no site names go to the site without `hosts`, or else to the first \
           site.",
    keys: &[
        ENABLED,
        USE,
        HOSTS,
        LISTEN_ON,
        Key {
            name: "root",
            kind: Kind::Path(|site, path, written| {
                expect_directory(written.document(), written.name, &written.at(path.clone()));
                site.settings.root = Some(path);
                Ok(())
            }),
            default: Words("none: only routes are served"),
            text: "Directory of the site's files; a path that no route matches is looked up there. Scripts get it as DOCUMENT_ROOT.",
            example: "\"htdocs\"",
        },
        Key {
            name: "tls",
            kind: Kind::Table(&Nested {
                section: &SITE_TLS,
                off: None,
                begin: |_: &Draft, _| Identity::default(),
                end: |site, identity, table| site.settings.identity = identity.finish(table),
            }),
            default: Words("the certificate of the address"),
            text: "The site's own certificate.",
            example: "{ certificate = \"cert.pem\" }",
        },
        CLIENT_CERTIFICATES,
        CLIENT_AUTHORITIES,
        CLIENT_CRL,
        Key {
            name: "hsts",
            kind: Kind::Duration(ANY, |site, hsts| site.settings.hsts = Some(hsts)),
            default: Words("none"),
            text: "How long browsers must use only https for this host; sent over TLS as `Strict-Transport-Security`. It cannot be \
                   revoked before it expires, so begin with minutes.",
            example: "\"5m\"",
        },
        INDEX_KEY,
        CACHE,
        LISTING,
        FOLLOW_LINKS,
        LISTING_TEMPLATE,
        WITHHOLD,
        TYPES,
        CHARSET,
        NOSNIFF,
        Key {
            name: "compression",
            kind: Kind::Table(&Nested {
                section: &SITE_COMPRESSION,
                off: Some(|site: &mut Draft| compression::switch_off(&mut site.settings.compression)),
                begin: |site: &Draft, _| compression::for_site(&site.settings.compression),
                end: |site, compression, _| site.settings.compression = compression,
            }),
            default: Words("as `[compression]`"),
            text: "Compression for this site; `false` for none.",
            example: "{ files = \"stored\" }",
        },
        ERRORS,
        ERROR_DETAIL,
        Key {
            name: "log",
            kind: Kind::Table(&Nested {
                section: &SITE_LOG,
                off: Some(|site: &mut Draft| {
                    site.settings.log = Some(AccessLog {
                        target: LogTarget::Off,
                        ..site.server_log.clone()
                    });
                }),
                begin: |site: &Draft, _| Logs::new(site.server_log.clone()),
                end: |site, log, table| {
                    log::check_site_log(&log.access, &site.server_log, table);
                    site.settings.log = Some(log.access);
                },
            }),
            default: Words("as `[log]`"),
            text: "The site's own access log; `false` for none.",
            example: "{ access = \"example.org.log\" }",
        },
        Key {
            name: "route",
            kind: Kind::Tables(&Nested {
                section: &ROUTE,
                off: None,
                begin: |site: &Draft, table| route::Draft::new(site.root, site.settings.root.as_deref(), table),
                end: |site, route, table| {
                    let (settings, parsed) = route.finish(&site.settings.compression, table);
                    site.settings.routes.extend(settings);
                    site.parsed_routes.push(parsed);
                },
            }),
            default: Words("none: files under `root`"),
            text: "The answer to requests for some paths.",
            example: "{ path = \"/old\", redirect = { to = \"/new\" } }",
        },
    ],
};

const ENABLED: Key<Draft> = Key {
    name: "enabled",
    kind: Kind::Flag(|site, is_enabled| site.is_enabled = is_enabled),
    default: Value("true"),
    text: "`false` switches the site off: it is read, so mistakes in it are reported, but not served, and its directories and programs may be missing. \
           Requests for its hosts are those for a host that no site names.",
    example: "false",
};

const HOSTS: Key<Draft> = Key {
    name: "hosts",
    kind: Kind::Texts(|site, names, written| {
        let is_empty = names.is_empty();
        site.hosts = Some(read_hosts(names, written.document()));
        if is_empty {
            return Err("an empty list names no host; leave hosts out for any host".to_owned());
        }
        Ok(())
    }),
    default: Words("any host"),
    text: "Host names of the site, without port. `*.example.org` matches every name below example.org.",
    example: "[\"example.org\", \"*.example.org\"]",
};

const LISTEN_ON: Key<Draft> = Key {
    name: "listen",
    kind: Kind::Texts(|site, addresses, written| {
        let is_empty = addresses.is_empty();
        site.listen = read_addresses(addresses, written.document());
        match is_empty {
            true => Err("an empty list names no address; leave listen out for all addresses".to_owned()),
            false => Ok(()),
        }
    }),
    default: Words("all addresses"),
    text: "The addresses on which the site is served, each as in a `[[listen]]`. Elsewhere its hosts get 421 (Misdirected Request); \
           an address that only redirects to https still redirects them.",
    example: "[\"127.0.0.1:8080\"]",
};

const CLIENT_CERTIFICATES: Key<Draft> = Key {
    name: "client_certificates",
    kind: Kind::Choice(&[
        ("optional", |site| {
            site.settings.client_certificates = CertificateUse::Optional;
        }),
        ("required", |site| {
            site.settings.client_certificates = CertificateUse::Required;
        }),
    ]),
    default: Value("\"optional\""),
    text: "Whether a client needs a certificate for this site, on whichever address. Without one it gets 403, or 421 if the connection \
           did not ask for one (clear text, or a handshake for another host). See [TLS](../guides/tls.md#client-certificates).",
    example: "\"required\"",
};

const USE: Key<Draft> = Key {
    name: "use",
    kind: Kind::Words(|site, names, _| {
        site.settings.blocks = names;
        Ok(())
    }),
    default: Words("none"),
    text: blocks::USE_TEXT,
    example: "\"public\"",
};

const CLIENT_AUTHORITIES: Key<Draft> = Key {
    name: "client_authorities",
    kind: Kind::Path(|site, file, written| site.authorities.set_certificates(file, written)),
    default: Words("those of the address"),
    text: "The certificates of the authorities that sign certificates of this site's clients. Clients that name one of its hosts (SNI) \
           are asked for such a certificate, on every address with `tls`.",
    example: "\"clients.pem\"",
};

const CLIENT_CRL: Key<Draft> = Key {
    name: "client_crl",
    kind: Kind::Texts(|site, files, written| {
        site.authorities.set_lists(files, written);
        Ok(())
    }),
    default: Words("none: nothing is revoked"),
    text: CRL_TEXT,
    example: "[\"revoked.pem\"]",
};

const INDEX_KEY: Key<Draft> = Key {
    name: "index",
    kind: Kind::Texts(|site, names, written| {
        site.settings.index = read_index(names, written);
        Ok(())
    }),
    default: Value("[\"index.html\"]"),
    text: "Names of index pages, tried in order when a directory is requested.",
    example: "[\"index.html\", \"index.cgi\"]",
};

const CACHE: Key<Draft> = Key {
    name: "cache",
    kind: Kind::Choice(&[
        ("on", |site| site.settings.files.cache = CacheUse::On),
        ("off", |site| site.settings.files.cache = CacheUse::Off),
        ("permanent", |site| site.settings.files.cache = CacheUse::Permanent),
    ]),
    default: Value("\"on\""),
    text: "Use of the [file cache](../guides/files.md#the-cache). `on`: files are cached and revalidated as `[cache]` says. `off`: every \
           request reads its file. `permanent`: files are cached and never revalidated before the cache is purged (`sluice purge`), for \
           files that never change.",
    example: "\"off\"",
};

const LISTING: Key<Draft> = Key {
    name: "listing",
    kind: Kind::Flag(|site, is_listed| site.settings.files.listing = is_listed),
    default: Value("false"),
    text: "Whether a directory without an index page is answered with a listing: a page for browsers, JSON for clients that ask \
           for it (`Accept`).",
    example: "true",
};

const FOLLOW_LINKS: Key<Draft> = Key {
    name: "follow_links",
    kind: Kind::FlagOrWord(
        |site, follow| {
            site.settings.files.follow_links = if follow { FollowLinks::Yes } else { FollowLinks::No };
        },
        &[("same-owner", |site| {
            site.settings.files.follow_links = FollowLinks::SameOwner;
        })],
    ),
    default: Value("false"),
    text: FOLLOW_LINKS_TEXT,
    example: "\"same-owner\"",
};

const LISTING_TEMPLATE: Key<Draft> = Key {
    name: "listing_template",
    kind: Kind::Path(|site, path, written| {
        site.settings.files.listing_template = pages::read_listing_template(&path, written);
        Ok(())
    }),
    default: Words("the built-in page"),
    text: "The page of directory listings: a [template](../guides/listings-and-error-pages.md#templates).",
    example: "\"pages/listing.html\"",
};

const WITHHOLD: Key<Draft> = Key {
    name: "withhold",
    kind: Kind::Texts(|site, names, written| {
        site.settings.files.withhold = read_withheld(names, written);
        Ok(())
    }),
    default: Value("[\"*~\", \"#*#\", \"*.bak\", \"*.old\", \"*.orig\", \"*.rej\", \"*.save\", \"*.swp\", \"*.swo\"]"),
    text: "Names of files that are [never sent](../guides/routes.md#files-that-are-never-sent), in any directory; `*` stands for any text, \
           and upper and lower case are alike. The default has the names of backup copies, which would show the source of a \
           script. Compressed files (`.gz`, `.br`, `.zst`, `.xz`, `.bz2`) count by the name before this suffix. `[]` withholds no names. A route with `record_format` sends `*.orig`.",
    example: "[\"*~\", \"*.bak\", \"*.sql\"]",
};

const TYPES: Key<Draft> = Key {
    name: "types",
    kind: Kind::Pairs(|site, pairs, written| {
        site.settings.files.types = pages::read_types(pairs, written);
        Ok(())
    }),
    default: Words("none: the built-in table of about a thousand types"),
    text: "Media types by file name suffix, in addition to the built-in ones. The longest matching suffix is used; case does not matter.",
    example: "{ \".foo\" = \"text/x-foo\", \".tar.gz\" = \"application/gzip\" }",
};

const CHARSET: Key<Draft> = Key {
    name: "charset",
    kind: Kind::Text(|site, charset, _| {
        pages::check_charset(&charset)?;
        site.settings.files.charset = charset;
        Ok(())
    }),
    default: Value("\"utf-8\""),
    text: "The `charset` parameter of text files' media types; none if empty.",
    example: "\"iso-8859-1\"",
};

const NOSNIFF: Key<Draft> = Key {
    name: "nosniff",
    kind: Kind::Flag(|site, is_exact| site.settings.files.nosniff = is_exact),
    default: Value("true"),
    text: "Whether files are sent with `X-Content-Type-Options: nosniff`, so that a browser takes the media type as it is, and does not run a file that a \
           visitor has uploaded as a script. Replies of scripts do not get it. `headers` of a route can replace or remove the field.",
    example: "false",
};

const ERRORS: Key<Draft> = Key {
    name: "errors",
    kind: Kind::Pairs(|site, pairs, written| {
        site.settings.errors.templates = pages::read_error_templates(&pairs, written);
        Ok(())
    }),
    default: Words("the built-in pages"),
    text: "Error pages by status: [templates](../guides/listings-and-error-pages.md#templates). `4xx` and `5xx` are used for statuses that have no page of their own.",
    example: "{ 404 = \"pages/404.html\", 5xx = \"pages/failed.html\" }",
};

const ERROR_DETAIL: Key<Draft> = Key {
    name: "error_detail",
    kind: Kind::FlagOrWord(
        |site, is_shown| {
            site.settings.errors.detail = match is_shown {
                true => ErrorDetail::All,
                false => ErrorDetail::Off,
            }
        },
        &[
            ("local", |site| site.settings.errors.detail = ErrorDetail::Local),
            ("all", |site| site.settings.errors.detail = ErrorDetail::All),
            ("off", |site| site.settings.errors.detail = ErrorDetail::Off),
        ],
    ),
    default: Value("false"),
    text: "Whether error pages show the text of the log about the error and, for a script, how its process ended and the last lines of \
           its standard error. This reveals names of files and programs, so `true` is for development. `\"local\"` shows this only to \
           clients on this machine that name a host of it (`localhost`, `127.0.0.1`) and use no proxy; a proxy on this machine that adds no \
           field (`X-Forwarded-For`, `Via` …), and a tunnel, are not recognized: write `false` behind them. `\"all\"` is `true` and `\"off\"` \
           is `false`, as for `sluice serve --detail`.",
    example: "\"local\"",
};

/// The addresses of a site; invalid ones are reported and left out.
fn read_addresses(texts: Vec<At<String>>, document: &Document<'_>) -> Vec<At<ListenAddress>> {
    let mut addresses = Vec::new();
    for At { value: text, line } in texts {
        let resolved = notation::parse_address(&text).map(|address| match address {
            ListenAddress::Unix(path) => ListenAddress::Unix(document.resolve(line, &path.to_string_lossy())),
            inet => inet,
        });
        match resolved {
            Ok(value) => addresses.push(At { value, line }),
            Err(message) => document.report(line, format!("listen \"{}\": {message}", text.escape_debug())),
        }
    }
    addresses
}

/// The host names, in lower case; invalid ones are reported and left out.
fn read_hosts(names: Vec<At<String>>, document: &Document<'_>) -> Vec<At<String>> {
    let mut hosts = Vec::new();
    for host in names {
        match check_host(&host.value) {
            Ok(()) => hosts.push(At {
                value: host.value.to_lowercase(),
                line: host.line,
            }),
            Err(message) => document.report(host.line, format!("host \"{}\": {message}", host.value)),
        }
    }
    hosts
}

/// The host name of a command line, in lower case. The error says what to write instead.
pub fn parse_host(text: &str) -> Result<String, String> {
    check_host(text)?;
    match text.contains('*') {
        true => Err("write each name out, without a star".to_owned()),
        false => Ok(text.to_lowercase()),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    if let Some((_, after)) = host.split_once("://") {
        let name = after.split('/').next().unwrap_or_default();
        return Err(format!("must be a host name, not a URL: write \"{name}\""));
    }
    if host.starts_with('[') {
        return check_bracketed("", host);
    }
    if let Some((name, _)) = host.split_once(':') {
        return Err(format!("a host is written without port: write \"{name}\""));
    }
    if host == "*" {
        return Err("leave hosts out for any host".into());
    }
    if let Some(name) = host.strip_suffix('.').filter(|name| !name.is_empty()) {
        return Err(format!(
            "a host is written without the dot at its end: write \"{name}\""
        ));
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    if name.contains('*') {
        return Err("\"*\" may only stand before the first dot, as in \"*.example.org\"".into());
    }
    if !name.is_ascii() {
        return Err("browsers send such a name in its ASCII form: write that, \"xn--…\"".into());
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_letter) {
        return Err("a host name consists of letters, digits, \"-\" and \".\"".into());
    }
    Ok(())
}

fn read_withheld(names: Vec<At<String>>, written: &Written<'_>) -> Vec<String> {
    for name in &names {
        if name.value.is_empty() || name.value.contains('/') || name.value.bytes().all(|byte| byte == b'*') {
            let message = format!(
                "withhold \"{}\": must be the name of a file, in which * stands for any text, as in \"*.bak\"",
                name.value
            );
            written.document().report(name.line, message);
        }
    }
    names.into_iter().map(|name| name.value).collect()
}

fn read_index(names: Vec<At<String>>, written: &Written<'_>) -> Vec<String> {
    for name in &names {
        if name.value.is_empty() || name.value.contains('/') || [".", ".."].contains(&name.value.as_str()) {
            let message = format!("index \"{}\": must be the name of a file in the directory", name.value);
            written.document().report(name.line, message);
        }
    }
    names.into_iter().map(|name| name.value).collect()
}
