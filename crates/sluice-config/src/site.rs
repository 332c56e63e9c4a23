//! `[[site]]`: virtual hosts.

use sluice_settings::rule::{CertificateUse, check_bracketed};
use sluice_settings::{
    AccessLog, CacheUse, CompressionSettings, ErrorDetail, FollowLinks, ListenAddress, LogTarget, SiteSettings,
};

use super::client_certificates::Authorities;
use super::compression::{self, SITE_COMPRESSION};
use super::document::At;
use super::key::{ANY, Key, Section, set};
use super::listen::{Identity, SITE_TLS};
use super::log::{self, Logs, SITE_LOG};
use super::pages;
use super::route::{self, ROUTE};
use super::route_lint::{ParsedRoute, SiteRoot};
use super::section::address;
use super::table::{Table, Written, set_directory};

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
    /// The number of messages about what a server starts without, before this site was read.
    pub(super) lacks_before: usize,
}

impl Draft {
    pub(super) fn new(server_log: &AccessLog, compression: &CompressionSettings, table: &Table<'_>) -> Draft {
        Draft {
            settings: SiteSettings {
                origin: table.document.origin(table.line),
                index: vec![INDEX.to_owned()],
                compression: compression.clone(),
                ..SiteSettings::default()
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
            lacks_before: table.document.lacks(),
        }
    }

    /// Adds a route after the others.
    pub(super) fn add_route(&mut self, route: route::Draft, table: &Table<'_>) {
        let (settings, parsed) = route.finish(&self.settings.compression, table);
        self.settings.routes.extend(settings);
        self.parsed_routes.push(parsed);
    }
}

pub(super) static SITE: Section<Draft> = Section {
    title: "[[site]]",
    keys: &[
        Key::flag("enabled", |site, is_enabled| site.is_enabled = is_enabled),
        Key::words("use", |site, names, _| set(&mut site.settings.blocks, names)),
        Key::texts("hosts", |site, names, written| {
            let is_empty = names.is_empty();
            site.hosts = Some(read_hosts(names, written));
            if is_empty {
                return Err("an empty list names no host; leave hosts out for any host".to_owned());
            }
            Ok(())
        }),
        Key::texts("listen", |site, addresses, written| {
            let is_empty = addresses.is_empty();
            site.listen = read_addresses(addresses, written);
            match is_empty {
                true => Err("an empty list names no address; leave listen out for all addresses".to_owned()),
                false => Ok(()),
            }
        }),
        Key::path("root", |site, path, written| {
            set_directory(&mut site.settings.root, path, written)
        }),
        Key::table("tls", &SITE_TLS, |site, table| {
            let identity = SITE_TLS.read(table, Identity::default());
            site.settings.identity = identity.finish(table);
        }),
        Key::choice(
            "client_certificates",
            &[
                ("optional", |site| {
                    site.settings.client_certificates = CertificateUse::Optional;
                }),
                ("required", |site| {
                    site.settings.client_certificates = CertificateUse::Required;
                }),
            ],
        ),
        Key::path("client_authorities", |site, file, written| {
            site.authorities.set_certificates(file, written)
        }),
        Key::texts("client_crl", |site, files, written| {
            site.authorities.set_lists(files, written);
            Ok(())
        }),
        Key::duration("hsts", ANY, |site, hsts| site.settings.hsts = Some(hsts)),
        Key::texts("index", |site, names, written| {
            set(&mut site.settings.index, read_index(names, written))
        }),
        Key::choice(
            "cache",
            &[
                ("on", |site| site.settings.files.cache = CacheUse::On),
                ("off", |site| site.settings.files.cache = CacheUse::Off),
                ("permanent", |site| site.settings.files.cache = CacheUse::Permanent),
            ],
        ),
        Key::flag("listing", |site, is_listed| site.settings.files.listing = is_listed),
        Key::flag_or_word(
            "follow_links",
            |site, follow| {
                site.settings.files.follow_links = if follow { FollowLinks::Yes } else { FollowLinks::No };
            },
            &[("same-owner", |site| {
                site.settings.files.follow_links = FollowLinks::SameOwner;
            })],
        ),
        Key::path("listing_template", |site, path, written| {
            site.settings.files.listing_template = pages::read_listing_template(&path, written);
            Ok(())
        }),
        Key::texts("withhold", |site, names, written| {
            set(&mut site.settings.files.withhold, read_withheld(names, written))
        }),
        Key::pairs("types", |site, pairs, written| {
            set(&mut site.settings.files.types, pages::read_types(pairs, written))
        }),
        Key::text("charset", |site, charset, _| {
            pages::check_charset(&charset)?;
            site.settings.files.charset = charset;
            Ok(())
        }),
        Key::flag("nosniff", |site, is_exact| site.settings.files.nosniff = is_exact),
        Key::table_or_off(
            "compression",
            &SITE_COMPRESSION,
            |site| compression::switch_off(&mut site.settings.compression),
            |site, table| {
                site.settings.compression =
                    SITE_COMPRESSION.read(table, compression::for_site(&site.settings.compression));
            },
        ),
        Key::pairs("errors", |site, pairs, written| {
            site.settings.errors.templates = pages::read_error_templates(&pairs, written);
            Ok(())
        }),
        Key::flag_or_word(
            "error_detail",
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
        Key::table_or_off(
            "log",
            &SITE_LOG,
            |site| {
                site.settings.log = Some(AccessLog { target: LogTarget::Off, ..site.server_log.clone() });
            },
            |site, table| {
                let log = SITE_LOG.read(table, Logs::new(site.server_log.clone()));
                log::check_site_log(&log.access, &site.server_log, table);
                site.settings.log = Some(log.access);
            },
        ),
        Key::tables("route", &ROUTE, |site, table| {
            let route = ROUTE.read(
                table,
                route::Draft::new(site.root, site.settings.root.as_deref(), table),
            );
            site.add_route(route, table);
        }),
    ],
};

/// The addresses of a site; invalid ones are reported and left out.
fn read_addresses(texts: Vec<At<String>>, written: &Written<'_>) -> Vec<At<ListenAddress>> {
    written.each(texts, |text, line| match address(text, line, written) {
        Ok(value) => Ok(At { value, line }),
        Err(message) => Err(format!("listen \"{}\": {message}", text.escape_debug())),
    })
}

/// The host names, in lower case; invalid ones are reported and left out.
fn read_hosts(names: Vec<At<String>>, written: &Written<'_>) -> Vec<At<String>> {
    written.each(names, |host, line| match check_host(host) {
        Ok(()) => Ok(At::new(host.to_lowercase(), line)),
        Err(message) => Err(format!("host \"{host}\": {message}")),
    })
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
    written.each(names, |name, _| {
        match name.is_empty() || name.contains('/') || name.bytes().all(|byte| byte == b'*') {
            true => Err(format!(
                "withhold \"{name}\": must be the name of a file, in which * stands for any text, as in \"*.bak\""
            )),
            false => Ok(name.to_owned()),
        }
    })
}

fn read_index(names: Vec<At<String>>, written: &Written<'_>) -> Vec<String> {
    written.each(names, |name, _| {
        match name.contains('/') || ["", ".", ".."].contains(&name) {
            true => Err(format!("index \"{name}\": must be the name of a file in the directory")),
            false => Ok(name.to_owned()),
        }
    })
}
