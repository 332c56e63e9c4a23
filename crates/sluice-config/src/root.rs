//! The top of the file: its sections, in the order in which they are read, and the server's settings made of them.

use std::path::PathBuf;

use sluice_settings::limits::Limits;
use sluice_settings::{AccessLog, CacheSettings, CompressionSettings, LogTarget, Settings, SiteSettings};

use super::blocks::BLOCK;
use super::cache::CACHE;
use super::compression::{self, COMPRESSION};
use super::description::Fallback::{self, Words};
use super::document::{At, Document};
use super::include::{self, IncludeFile};
use super::key::{Key, Kind, Nested, Section};
use super::limits::LIMITS;
use super::listen::{self, LISTEN, Listen};
use super::log::{self, LOG, Logs, OwnLog};
use super::server::{SERVER, Server};
use super::site::{self, SITE};
use super::sites::Sites;
use super::table::Table;
use super::users;

/// The file while it is read.
pub(super) struct Root {
    listen: Vec<Listen>,
    server: Server,
    limits: Limits,
    /// `None` if the cache is switched off.
    cache: Option<CacheSettings>,
    compression: CompressionSettings,
    access_log: AccessLog,
    server_log: OwnLog,
    /// A key of `[log]` about rotation, though that log is not a file.
    stray_rotation: Option<At<String>>,
    pub(super) sites: Sites,
    /// The files to include; taken when they are read.
    pub(super) include: Vec<IncludeFile>,
    /// Warnings that the settings do not show.
    pub(super) warnings: Vec<String>,
    /// The included files that were read.
    pub(super) included_files: Vec<PathBuf>,
    /// The host whose site gets the routes of the included file that is being read; `None` for the default.
    pub(super) route_host: Option<String>,
    /// The number of that site; `None` for a host without a site.
    pub(super) route_site: Option<usize>,
}

impl Root {
    /// Reads the main file.
    pub(super) fn read(document: &Document<'_>, values: &toml::de::DeTable<'_>) -> Root {
        let mut root = Root::new();
        ROOT.read(&Table::whole(document, values), &mut root);
        root
    }

    fn new() -> Root {
        Root {
            listen: Vec::new(),
            server: Server::new(),
            limits: Limits::default(),
            cache: Some(CacheSettings::default()),
            compression: CompressionSettings::default(),
            access_log: AccessLog::new(LogTarget::Stdout),
            server_log: OwnLog::default(),
            stray_rotation: None,
            sites: Sites::default(),
            include: Vec::new(),
            warnings: Vec::new(),
            included_files: Vec::new(),
            route_host: None,
            route_site: None,
        }
    }

    /// The settings, and the checks of several sections together.
    pub(super) fn finish(self, document: &Document<'_>) -> Settings {
        if self.sites.is_empty() && !document.has_mistakes() {
            let message = "has no [[site]], so nothing would be served: add [[site]] and root = \"htdocs\" below it";
            document.report(document.whole, message);
        }
        let listen = listen::finish(self.listen, document);
        self.server.check_hosts(&self.sites, document);
        let sites: Vec<SiteSettings> = self.sites.finish(&listen, document);
        self.server_log.check(&self.access_log, &sites, document);
        if let Some(key) = self.stray_rotation
            && sites.iter().all(|site| site.log.is_none())
        {
            let message = "only a file can be rotated: add access = \"access.log\"";
            document.report(key.line, format!("{}: {message}", key.value));
        }
        let mut settings = Settings {
            listen,
            workers: self.server.workers,
            dns: self.server.dns(),
            proxies: self.server.proxies,
            sites,
            unknown_hosts: self.server.unknown_hosts,
            limits: self.limits,
            spool_directory: self.server.spool_directory,
            state_directory: self.server.state_directory,
            cache: self.cache,
            access_log: self.access_log,
            server_log: self.server_log.settings,
            config_files: [document.path()].into_iter().chain(self.included_files).collect(),
            source: document.source(),
            core_dumps: self.server.core_dumps,
            control: self.server.control,
            watch: self.server.watch,
            users: self.server.users,
            warnings: self.warnings,
        };
        users::finish(&mut settings);
        settings
    }
}

/// The default of a section that is absent.
const DEFAULTS: Fallback = Words("the defaults of its keys");

pub(super) static ROOT: Section<Root> = Section {
    title: "",
    text: "A configuration is a TOML file. Relative paths in it start from the directory that contains it.",
    keys: &[
        INCLUDE,
        Key {
            name: "listen",
            kind: Kind::Tables(&Nested {
                section: &LISTEN,
                off: None,
                begin: |_: &Root, _| listen::Draft::default(),
                end: |root, listen, table| root.listen.extend(listen.finish(table, &root.listen)),
            }),
            default: Words("`127.0.0.1:8080`"),
            text: "An address to listen on.",
            example: "{ address = \"0.0.0.0:80\" }",
        },
        Key {
            name: "server",
            kind: Kind::Table(&Nested {
                section: &SERVER,
                off: None,
                begin: |_: &Root, _| Server::new(),
                end: |root, server, table| {
                    root.server = server.finish(table);
                },
            }),
            default: DEFAULTS,
            text: "The server as a whole.",
            example: "{ workers = 4 }",
        },
        Key {
            name: "limits",
            kind: Kind::Table(&Nested {
                section: &LIMITS,
                off: None,
                begin: |_: &Root, _| Limits::default(),
                end: |root, limits, _| root.limits = limits,
            }),
            default: DEFAULTS,
            text: "Bounds on connections, request heads and request bodies.",
            example: "{ body_size = \"100MiB\" }",
        },
        Key {
            name: "cache",
            kind: Kind::Table(&Nested {
                section: &CACHE,
                off: None,
                begin: |_: &Root, _| CacheSettings::default(),
                end: |root, cache, _| root.cache = (cache.bytes_max > 0).then_some(cache),
            }),
            default: DEFAULTS,
            text: "Files kept in memory.",
            example: "{ size = \"1GiB\" }",
        },
        Key {
            name: "compression",
            kind: Kind::Table(&Nested {
                section: &COMPRESSION,
                off: Some(|root: &mut Root| compression::switch_off(&mut root.compression)),
                begin: |root: &Root, _| root.compression.clone(),
                end: |root, compression, _| root.compression = compression,
            }),
            default: DEFAULTS,
            text: "Compression for clients that accept it; `false` for none.",
            example: "{ encodings = [\"gzip\"] }",
        },
        Key {
            name: "log",
            kind: Kind::Table(&Nested {
                section: &LOG,
                off: Some(|root: &mut Root| root.access_log.target = LogTarget::Off),
                begin: |root: &Root, _| Logs::new(root.access_log.clone()),
                end: |root, log, table| {
                    log::check_keep(&log.access, table);
                    root.stray_rotation = log::stray_rotation(&log, table);
                    (root.access_log, root.server_log) = log.finish();
                },
            }),
            default: DEFAULTS,
            text: "The access log, `false` for none, and the server log.",
            example: "{ access = \"access.log\" }",
        },
        SITE_KEY,
        BLOCKS_KEY,
    ],
};

pub(super) const BLOCKS_KEY: Key<Root> = Key {
    name: "blocks",
    kind: Kind::Named(&BLOCK),
    default: Words("none"),
    text: "Keys that several routes or sites share, by names of your choice.",
    example: "{ php = { script = { mode = \"rte\" } } }",
};

pub(super) const SITE_KEY: Key<Root> = Key {
    name: "site",
    kind: Kind::Tables(&Nested {
        section: &SITE,
        off: None,
        begin: |root: &Root, table| site::Draft::new(&root.access_log, &root.compression, table),
        end: |root, site, table| root.sites.add(site, table),
    }),
    // Not `Required`: an empty list is as wrong, and so is a file whose included files have none.
    default: Words("required, here or in an included file"),
    text: "A virtual host.",
    example: "{ root = \"htdocs\" }",
};

const INCLUDE: Key<Root> = Key {
    name: "include",
    kind: Kind::Words(|root, patterns, written| {
        root.include = include::expand(&patterns, written.line, written.document())?;
        Ok(())
    }),
    default: Words("none"),
    text: "Files with further sites and routes ([their content](#included-files)): paths or patterns, in which `*` and `?` \
           match characters of a name, except a leading dot. The files of a pattern are read in the order of their names. A pattern may \
           match no file; its directory must exist. `sluice reload` reads them again.",
    example: "\"sites/*.toml\"",
};
