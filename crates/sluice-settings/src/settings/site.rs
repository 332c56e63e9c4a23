//! The settings of a site: its hosts, files, routes and error pages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::ListenAddress;
use crate::cache::CacheUse;
use crate::compression::CompressionSettings;
use crate::rule::CertificateUse;
use crate::settings::links::FollowLinks;
use crate::settings::listen::{AuthoritySettings, IdentitySettings};
use crate::settings::log::AccessLog;
use crate::settings::route::RouteSettings;
use crate::template::Template;

/// A virtual host.
#[derive(Clone, Debug, Default)]
pub struct SiteSettings {
    /// The place in the configuration (`sluice.toml:12`), for messages.
    pub origin: String,
    /// Host names without port, lower case; `*.example.org` stands for every name below it. Empty for any host.
    pub hosts: Vec<String>,
    /// The addresses on which the site is served, as they are listened on; empty for all. Elsewhere its requests get 421.
    pub listen: Vec<ListenAddress>,
    /// The directory of the site's files, if it serves any; also DOCUMENT_ROOT.
    pub root: Option<PathBuf>,
    /// The certificate for clients that name one of the site's hosts (SNI, RFC 6066 §3).
    pub identity: Option<IdentitySettings>,
    /// Whether its clients need a certificate, where no route says otherwise.
    pub client_certificates: CertificateUse,
    /// The authorities of its clients' certificates: clients that name one of its hosts are asked for one on every address with TLS. `None`: the address's.
    pub client_authorities: Option<AuthoritySettings>,
    /// How long clients must use https only (HSTS, RFC 6797); sent over TLS.
    pub hsts: Option<Duration>,
    /// Names of index pages, in the order in which they are tried.
    pub index: Vec<String>,
    /// Routes in the order in which they are tried; the first that matches and has an answer decides. Without one, the path is a file under `root`.
    pub routes: Vec<RouteSettings>,
    /// Media types, caching and directory listings.
    pub files: FileSettings,
    /// Which responses are compressed.
    pub compression: CompressionSettings,
    /// The error pages.
    pub errors: ErrorSettings,
    /// The site's own access log; `None` for the server's.
    pub log: Option<AccessLog>,
    /// The names of the blocks that it uses, for explanations.
    pub blocks: Vec<String>,
}

impl SiteSettings {
    /// The name of the fault that its own access log cannot be opened, which a start tolerates (`Source::tolerate`).
    #[must_use]
    pub fn log_fault(&self) -> String {
        format!("{} log", self.origin)
    }

    /// Whether an answer of the site may depend on the client's certificate.
    #[must_use]
    pub fn depends_on_certificates(&self) -> bool {
        self.requires_certificates() || self.routes.iter().any(|route| route.when.depends_on_certificate())
    }

    /// Whether clients need a certificate, for the whole site or for some of its paths.
    #[must_use]
    pub fn requires_certificates(&self) -> bool {
        let by_route = |route: &RouteSettings| route.changes.client_certificates == Some(CertificateUse::Required);
        self.client_certificates == CertificateUse::Required || self.routes.iter().any(by_route)
    }
}

/// The media types of a site's files, their caching, and directory listings.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// Media types by the suffix of a name (`".foo"` → `text/x-foo`); they override the server's own table.
    pub types: BTreeMap<String, String>,
    /// The charset of text whose type names none; empty if none is sent.
    pub charset: String,
    /// Whether browsers must not guess other types of files (`X-Content-Type-Options: nosniff`).
    pub nosniff: bool,
    /// Whether files are kept in the cache.
    pub cache: CacheUse,
    /// Whether directories without an index page are listed.
    pub listing: bool,
    /// Which symbolic links that leave a directory are followed, where no route says otherwise.
    pub follow_links: FollowLinks,
    /// The template of directory listings; `None` for the server's own.
    pub listing_template: Option<Template>,
    /// Names of files that are never sent, with stars; the case of ASCII letters does not matter.
    pub withhold: Vec<String>,
}

/// Names of backup copies that editors, packaging tools and people make beside a file: Emacs, vim, nano, joe (`~`, `#…#`, `.swp`,
/// `.save`), patch (`.orig`), cp and sed (`.bak`, `.old`). Such a copy of a script would be sent as text.
pub const BACKUP_NAMES: [&str; 9] = [
    "*~", "#*#", "*.bak", "*.old", "*.orig", "*.rej", "*.save", "*.swp", "*.swo",
];

impl Default for FileSettings {
    fn default() -> Self {
        FileSettings {
            types: BTreeMap::new(),
            charset: "utf-8".to_owned(),
            nosniff: true,
            cache: CacheUse::On,
            listing: false,
            follow_links: FollowLinks::No,
            listing_template: None,
            withhold: BACKUP_NAMES.map(str::to_owned).into(),
        }
    }
}

/// The error pages of a site.
#[derive(Clone, Debug, Default)]
pub struct ErrorSettings {
    /// Which clients get the detail that is logged.
    pub detail: ErrorDetail,
    /// The site's own error pages.
    pub templates: BTreeMap<Statuses, Template>,
}

/// The clients whose error pages show what is logged about the error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorDetail {
    /// None.
    #[default]
    Off,
    /// Clients that send their requests on this machine, to one of its own names, and not through a proxy.
    Local,
    /// All.
    All,
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
