//! The settings of a site: its hosts, files, routes and error pages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::cache::CacheUse;
use crate::compression::CompressionSettings;
use crate::settings::listen::IdentitySettings;
use crate::settings::log::AccessLog;
use crate::settings::route::RouteSettings;
use crate::template::Template;

/// A virtual host.
#[derive(Clone, Debug)]
pub struct SiteSettings {
    /// The place in the configuration (`sluice.toml:12`), for messages.
    pub origin: String,
    /// Host names without port, lower case; `*.example.org` stands for every name below it. Empty for any host.
    pub hosts: Vec<String>,
    /// The directory of the site's files, if it serves any; also DOCUMENT_ROOT.
    pub root: Option<PathBuf>,
    /// The certificate for clients that name one of the site's hosts (SNI, RFC 6066 §3).
    pub identity: Option<IdentitySettings>,
    /// How long clients must use https only (HSTS, RFC 6797); sent over TLS.
    pub hsts: Option<Duration>,
    /// Names of index pages, in the order in which they are tried.
    pub index: Vec<String>,
    /// Routes in the order in which they are tried; the first that matches and has an answer decides. Without one, the path
    /// is a file under `root`.
    pub routes: Vec<RouteSettings>,
    /// Media types, caching and directory listings.
    pub files: FileSettings,
    /// Which responses are compressed.
    pub compression: CompressionSettings,
    /// The error pages.
    pub errors: ErrorSettings,
    /// The site's own access log; `None` for the server's.
    pub log: Option<AccessLog>,
}

/// The media types of a site's files, their caching, and directory listings.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// Media types by the suffix of a name (`".foo"` → `text/x-foo`); they override the server's own table.
    pub types: BTreeMap<String, String>,
    /// The charset of text whose type names none; empty if none is sent.
    pub charset: String,
    /// Whether files are kept in the cache.
    pub cache: CacheUse,
    /// Whether directories without an index page are listed.
    pub listing: bool,
    /// The template of directory listings; `None` for the server's own.
    pub listing_template: Option<Template>,
    /// Names of files that are never sent, with stars; the case of ASCII letters does not matter.
    pub withhold: Vec<String>,
}

/// Names of backup copies that editors, packaging tools and people make beside a file: Emacs, vim, nano, joe (`~`, `#…#`, `.swp`,
/// `.save`), patch (`.orig`), cp and sed (`.bak`, `.old`). Such a copy of a script would be sent as text.
pub const BACKUP_NAMES: [&str; 8] = ["*~", "#*#", "*.bak", "*.old", "*.orig", "*.save", "*.swp", "*.swo"];

impl Default for FileSettings {
    fn default() -> Self {
        FileSettings {
            types: BTreeMap::new(),
            charset: "utf-8".to_owned(),
            cache: CacheUse::On,
            listing: false,
            listing_template: None,
            withhold: BACKUP_NAMES.map(str::to_owned).into(),
        }
    }
}

/// The error pages of a site.
#[derive(Clone, Debug, Default)]
pub struct ErrorSettings {
    /// Whether the client gets the detail that is logged.
    pub detail: bool,
    /// The site's own error pages.
    pub templates: BTreeMap<Statuses, Template>,
}

/// The statuses of an error page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statuses {
    /// One status, such as 404.
    One(u16),
    /// All statuses that begin with this digit, 4 or 5, and have no page of their own.
    Class(u16),
}

impl ErrorSettings {
    /// The site's own error page for a status; `None` for the server's.
    pub fn template(&self, status: u16) -> Option<&Template> {
        let own = self.templates.get(&Statuses::One(status));
        own.or_else(|| self.templates.get(&Statuses::Class(status / 100)))
    }
}
