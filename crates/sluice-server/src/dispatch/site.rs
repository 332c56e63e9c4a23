//! A site: the directories, routes and settings of a virtual host, opened.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use sluice_files::directory::Directory;
use sluice_files::types::Types;
use sluice_script::route::ScriptRoute;
use sluice_settings::compression::Compression;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::{Adjustments, CertificateUse, Wildcard};
use sluice_settings::site_choice::is_named;
use sluice_settings::template::Template;
use sluice_settings::{Action, CacheUse, ErrorSettings, RouteSettings, SiteSettings};

use crate::dispatch::route::{Route, open_directory};

/// The pattern of the files that `convert = "rewrite"` leaves beside those that it has rewritten.
const ORIGINALS: &str = "*.orig";

pub(crate) struct Site {
    pub origin: String,
    pub hosts: Vec<String>,
    /// The addresses on which it is served, for people; empty for all.
    pub listen: Vec<String>,
    pub log: usize,
    /// Whether its clients need a certificate, where no route says otherwise.
    pub client_certificates: CertificateUse,
    pub root: Option<Directory>,
    pub hsts: Option<HeaderValue>,
    pub index: Vec<String>,
    pub routes: Vec<Route>,
    /// The numbers of the routes that say who may have an answer: with which certificate, or by which access rules.
    pub guard_routes: Vec<usize>,
    pub types: Types,
    /// The use of the file cache where a route sets none.
    pub cache: CacheUse,
    pub listing_template: Option<Template>,
    pub compression: Arc<Compression>,
    pub errors: ErrorSettings,
    pub user_fields: Box<[HeaderName]>,
}

impl Site {
    /// Opens what the settings name; `log` is the number of its access log.
    pub(crate) fn open(settings: &SiteSettings, log: usize) -> Result<Site, OpenError> {
        let name = label(&settings.hosts);
        let root = settings.root.as_deref();
        let mut root = root.map(|path| open_directory(path, &settings.origin)).transpose()?;
        if let Some(root) = &mut root {
            root.follow = settings.files.follow_links;
            root.is_listed = settings.files.listing;
        }
        let mut routes = Vec::new();
        let suffixes = script_suffixes(&settings.routes);
        for route_settings in &settings.routes {
            let mut route = Route::open(route_settings, name)?;
            route.note_other_mode(route_settings, &settings.routes);
            route.note_suffixes(&suffixes);
            route.join_processes(&routes);
            route.follow_links(route_settings.follow_links.unwrap_or(settings.files.follow_links));
            if let (Some(directory), Action::Files(files)) = (route.directory_mut(), &route_settings.action)
                && files.listing.unwrap_or(settings.files.listing)
            {
                directory.is_listed = true;
            }
            routes.push(route);
        }
        let mut site = Site {
            origin: settings.origin.clone(),
            hosts: settings.hosts.clone(),
            listen: settings.listen.iter().map(ToString::to_string).collect(),
            log,
            client_certificates: settings.client_certificates,
            root,
            hsts: settings.hsts.map(hsts),
            index: settings.index.clone(),
            guard_routes: (0..routes.len()).filter(|number| routes[*number].is_guard()).collect(),
            routes,
            types: Types::new(&settings.files),
            cache: settings.files.cache,
            listing_template: settings.files.listing_template.clone(),
            compression: Arc::new(Compression::new(&settings.compression)),
            errors: settings.errors.clone(),
            user_fields: user_fields(settings),
        };
        site.withhold_names(&settings.files.withhold);
        Ok(site)
    }

    fn withhold_names(&mut self, names: &[String]) {
        let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let patterns = |names: &mut dyn Iterator<Item = &String>| names.map(|name| Wildcard::new(name)).collect();
        let all: Arc<[Wildcard]> = patterns(&mut lower.iter());
        for directory in self.directories_mut() {
            directory.withheld_names = Arc::clone(&all);
        }
        // Of record files these names have the originals, which such a route sends as lines.
        let without_originals: Arc<[Wildcard]> = patterns(&mut lower.iter().filter(|name| *name != ORIGINALS));
        let with_records = self.routes.iter_mut().filter(|route| route.has_records());
        for directory in with_records.filter_map(Route::directory_mut) {
            directory.withheld_names = Arc::clone(&without_originals);
        }
    }

    pub(crate) fn directories_mut(&mut self) -> impl Iterator<Item = &mut Directory> {
        let routes = self.routes.iter_mut().flat_map(Route::directories_mut);
        self.root.iter_mut().chain(routes)
    }

    pub(crate) fn directories(&self) -> impl Iterator<Item = &Directory> {
        let routes = self.routes.iter().filter_map(|route| route.kind()?.directory());
        self.root.iter().chain(routes)
    }

    /// The name by which reports, logs of scripts and metrics call it: its first host.
    pub(crate) fn label(&self) -> &str {
        label(&self.hosts)
    }

    /// Whether a host is one of its names, or below one.
    pub(crate) fn has_name(&self, host: &str) -> bool {
        is_named(&self.hosts, host)
    }

    /// Adds to the adjustments of routes what the site says where they say nothing.
    pub(crate) fn complete(&self, adjustments: &mut Adjustments) {
        adjustments.client_certificates.get_or_insert(self.client_certificates);
    }

    pub(crate) fn script_routes(&self) -> impl Iterator<Item = &Arc<ScriptRoute>> {
        self.routes.iter().filter_map(Route::script)
    }

    /// The first of its names that is one.
    pub(crate) fn name(&self) -> Option<&str> {
        let mut names = self.hosts.iter().map(String::as_str);
        names.find(|name| !name.starts_with('*'))
    }
}

fn label(hosts: &[String]) -> &str {
    hosts.first().map_or("*", String::as_str)
}

/// The value of Strict-Transport-Security (RFC 6797 §6.1).
fn hsts(age: Duration) -> HeaderValue {
    HeaderValue::try_from(format!("max-age={}", age.as_secs()))
        .unwrap_or_else(|_| HeaderValue::from_static("max-age=0"))
}

/// The fields in which a trusted proxy names the user. Only it may send them, even to routes that need no user: scripts would take them for the proxy's.
fn user_fields(settings: &SiteSettings) -> Box<[HeaderName]> {
    let rules = settings.routes.iter().flat_map(|route| route.changes.access.limits());
    let mut fields: Vec<HeaderName> = rules
        .filter_map(|access| access.source.remote_user_from.clone())
        .collect();
    fields.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    fields.dedup();
    fields.into()
}

/// The suffixes of the scripts among the files of directories, the longest first.
fn script_suffixes(routes: &[RouteSettings]) -> Arc<[String]> {
    let of_route = |route: &RouteSettings| match &route.action {
        Action::Files(files) => Some(files.scripts.as_ref()?.suffixes.clone()),
        _ => None,
    };
    let mut suffixes: Vec<_> = routes.iter().filter_map(of_route).flatten().collect();
    suffixes.sort_by_key(|suffix| std::cmp::Reverse(suffix.len()));
    suffixes.dedup();
    suffixes.into()
}

/// Settings of a site for tests.
#[cfg(test)]
pub(crate) fn test_settings(hosts: &[&str], root: &std::path::Path) -> SiteSettings {
    use sluice_settings::{CompressionSettings, FileSettings};

    SiteSettings {
        origin: "test".into(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        root: Some(root.to_owned()),
        listen: Vec::new(),
        identity: None,
        client_certificates: CertificateUse::Optional,
        client_authorities: None,
        hsts: None,
        index: vec!["index.html".into()],
        routes: Vec::new(),
        files: FileSettings::default(),
        compression: CompressionSettings::default(),
        errors: ErrorSettings::default(),
        log: None,
        blocks: Vec::new(),
    }
}
