//! The top of the file: its sections, in the order in which they are read, and the server's settings made of them.

use std::path::PathBuf;

use sluice_settings::limits::Limits;
use sluice_settings::{AccessLog, CacheSettings, CompressionSettings, LogTarget, Settings, SiteSettings};

use super::blocks::BLOCK;
use super::cache::CACHE;
use super::compression::{self, COMPRESSION};
use super::document::{At, Document};
use super::include::{self, IncludeFile};
use super::key::{Key, Section};
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
        ROOT.read(&Table::whole(document, values), Root::new())
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

pub(super) static ROOT: Section<Root> = Section {
    title: "",
    keys: &[
        Key::words("include", |root, patterns, written| {
            root.include = include::expand(&patterns, written.line, written.document())?;
            Ok(())
        }),
        Key::tables("listen", &LISTEN, |root, table| {
            let listen = LISTEN.read(table, listen::Draft::default());
            root.listen.extend(listen.finish(table, &root.listen));
        }),
        Key::table("server", &SERVER, |root, table| {
            let server = SERVER.read(table, Server::new());
            root.server = server.finish(table);
        }),
        Key::table("limits", &LIMITS, |root, table| {
            root.limits = LIMITS.read(table, Limits::default());
        }),
        Key::table("cache", &CACHE, |root, table| {
            let cache = CACHE.read(table, CacheSettings::default());
            root.cache = (cache.bytes_max > 0).then_some(cache);
        }),
        Key::table_or_off(
            "compression",
            &COMPRESSION,
            |root| compression::switch_off(&mut root.compression),
            |root, table| root.compression = COMPRESSION.read(table, root.compression.clone()),
        ),
        Key::table_or_off(
            "log",
            &LOG,
            |root| root.access_log.target = LogTarget::Off,
            |root, table| {
                let log = LOG.read(table, Logs::new(root.access_log.clone()));
                log::check_keep(&log.access, table);
                root.stray_rotation = log::stray_rotation(&log, table);
                (root.access_log, root.server_log) = log.finish();
            },
        ),
        SITE_KEY,
        BLOCKS_KEY,
    ],
};

pub(super) const BLOCKS_KEY: Key<Root> = Key::named("blocks", &BLOCK);

pub(super) const SITE_KEY: Key<Root> = Key::tables("site", &SITE, |root, table| {
    let site = SITE.read(table, site::Draft::new(&root.access_log, &root.compression, table));
    root.sites.add(site, table);
});
