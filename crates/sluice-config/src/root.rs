//! The top of the file: its sections, in the order in which they are read, and the server's settings made of them.

use sluice_settings::{
    AccessLog, CacheSettings, CompressionSettings, ControlSocket, LogTarget, ServerLog, Settings, StateDirectory,
    UnknownHosts,
};

use super::blocks::BLOCK;
use super::cache::CACHE;
use super::compression::{self, COMPRESSION};
use super::document::{At, Document};
use super::include::{self, IncludeFile};
use super::key::{Key, Section};
use super::limits::LIMITS;
use super::listen::{self, LISTEN, Listen};
use super::log::{self, LOG, Logs};
use super::server::{self, SERVER};
use super::site::{self, SITE};
use super::sites::Sites;
use super::table::Table;
use super::users;

/// The file while it is read.
pub(super) struct Root {
    /// The settings so far. Addresses and sites are added at the end.
    pub(super) settings: Settings,
    listen: Vec<Listen>,
    compression: CompressionSettings,
    /// The key `diagnostics` of `[log]` as in the file.
    diagnostics: Option<At<String>>,
    /// A key of `[log]` about rotation, though that log is not a file.
    stray_rotation: Option<At<String>>,
    /// The key `unknown_hosts` of `[server]` as in the file.
    unknown_hosts: Option<At<String>>,
    pub(super) sites: Sites,
    /// The files to include; taken when they are read.
    pub(super) include: Vec<IncludeFile>,
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
            settings: Settings {
                workers: server::default_workers(),
                state_directory: StateDirectory::Usual,
                cache: Some(CacheSettings::default()),
                access_log: AccessLog::new(LogTarget::Stdout),
                control: ControlSocket::Usual,
                ..Settings::new(Vec::new())
            },
            listen: Vec::new(),
            compression: CompressionSettings::default(),
            diagnostics: None,
            stray_rotation: None,
            unknown_hosts: None,
            sites: Sites::default(),
            include: Vec::new(),
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
        let mut settings = self.settings;
        settings.listen = listen::finish(self.listen, document);
        if let (UnknownHosts::Refuse, Some(key), Some(line)) =
            (&settings.unknown_hosts, self.unknown_hosts, self.sites.any_host_line())
        {
            let message = "the site without hosts serves any host: give it hosts = [\"example.org\"]";
            document.report(line, format!("{}: {message}", key.value));
        }
        settings.sites = self.sites.finish(&settings.listen, document);
        log::check_diagnostics(self.diagnostics, &settings, document);
        if let Some(key) = self.stray_rotation
            && settings.sites.iter().all(|site| site.log.is_none())
        {
            let message = "only a file can be rotated: add access = \"access.log\"";
            document.report(key.line, format!("{}: {message}", key.value));
        }
        settings.config_files.insert(0, document.path());
        settings.source = document.files.source().clone();
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
            SERVER.fill(table, &mut root.settings);
            server::check(table);
            root.unknown_hosts = table.written("unknown_hosts").map(|written| written.shown());
        }),
        Key::table("limits", &LIMITS, |root, table| {
            LIMITS.fill(table, &mut root.settings.limits);
        }),
        Key::table("cache", &CACHE, |root, table| {
            let cache = CACHE.read(table, CacheSettings::default());
            root.settings.cache = (cache.bytes_max > 0).then_some(cache);
        }),
        Key::table_or_off(
            "compression",
            &COMPRESSION,
            |root| compression::switch_off(&mut root.compression),
            |root, table| COMPRESSION.fill(table, &mut root.compression),
        ),
        Key::table_or_off(
            "log",
            &LOG,
            |root| root.settings.access_log.target = LogTarget::Off,
            |root, table| {
                let log = LOG.read(table, Logs::new(root.settings.access_log.clone()));
                log::check_keep(&log.access, table);
                root.stray_rotation = log::stray_rotation(&log, table);
                // The server log is rotated as the access log is.
                root.settings.server_log = ServerLog {
                    rotation: log.access.rotation.clone(),
                    ..log.server
                };
                root.settings.access_log = log.access;
                root.diagnostics = log.diagnostics;
            },
        ),
        SITE_KEY,
        BLOCKS_KEY,
    ],
};

pub(super) const BLOCKS_KEY: Key<Root> = Key::named("blocks", &BLOCK);

pub(super) const SITE_KEY: Key<Root> = Key::tables("site", &SITE, |root, table| {
    let site = SITE.read(
        table,
        site::Draft::new(&root.settings.access_log, &root.compression, table),
    );
    root.sites.add(site, table);
});
