//! Sites: which host is whose, what a site holds ready, and which of its files belong to which paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use sluice_files::directory::{Directory, Program};
use sluice_files::file_cache::FileCache;
use sluice_files::send_file::SendDirectories;
use sluice_files::types::Types;
use sluice_log::{Log, SiteLog};
use sluice_script::route::{Map, ScriptRoute};
use sluice_settings::compression::Compression;
use sluice_settings::limits::Limits;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::Pattern;
use sluice_settings::template::Template;
use sluice_settings::{Action, CacheUse, ErrorSettings, ProxySettings, ScriptSource, Settings, SiteSettings};

use crate::dispatch::route::{Effect, Route, RouteKind, Star, leading_parts, open_directory};

/// Everything that a running server serves; replaced as a whole on reload.
pub(crate) struct Config {
    sites: Vec<Arc<Site>>,
    pub limits: Limits,
    pub proxies: ProxySettings,
    pub cache: Option<FileCache>,
    /// The server's own, then those of the sites.
    pub logs: Box<[SiteLog]>,
}

/// A virtual host, ready for use.
pub(crate) struct Site {
    /// Where it was written.
    pub origin: String,
    hosts: Vec<String>,
    /// The number of its log.
    pub log: usize,
    pub root: Option<Directory>,
    /// The field Strict-Transport-Security.
    pub hsts: Option<HeaderValue>,
    pub index: Vec<String>,
    pub routes: Vec<Route>,
    pub types: Types,
    /// How files are kept in the cache where their route does not say.
    pub cache: CacheUse,
    pub listing_template: Option<Template>,
    pub compression: Arc<Compression>,
    pub errors: ErrorSettings,
}

/// Why a site is the one of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    Exactly,
    Below,
    AnyHost,
    First,
}

impl Chosen {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Chosen::Exactly => "the host is one of its names",
            Chosen::Below => "the host is below one of its names",
            Chosen::AnyHost => "no site has that name, and this one is for any host",
            Chosen::First => "no site has that name, and this is the first",
        }
    }
}

/// What answers for a path.
pub(crate) enum Resolved<'s> {
    /// A route, what it answers with, and what its star stands for.
    Route(&'s Route, &'s RouteKind, Star),
    /// A file under the root.
    Root(&'s Directory),
    /// Nothing.
    Nowhere,
}

impl Config {
    /// Opens all that the settings name. An error is the administrator's.
    pub(crate) fn open(settings: &Settings, log: &Log) -> Result<Config, OpenError> {
        let mut sites = Vec::new();
        for (number, site) in settings.sites.iter().enumerate() {
            sites.push(Site::open(site, number + 1)?);
        }
        // Whichever site runs them: their text is sent by none.
        let places: Vec<_> = settings.sites.iter().flat_map(script_places).collect();
        refuse_sent_programs(settings, &places)?;
        let programs: Vec<_> = settings.sites.iter().flat_map(script_patterns).collect();
        for directory in sites.iter_mut().flat_map(Site::directories_mut) {
            places.iter().for_each(|place| directory.withhold(place));
            for (root, pattern) in &programs {
                if let Some(is_program) = programs_below(directory.path(), root, pattern) {
                    directory.withhold_programs(is_program);
                }
            }
        }
        let sites: Vec<_> = sites.into_iter().map(Arc::new).collect();
        if sites.is_empty() {
            return Err(OpenError::new("", "there is no site to serve"));
        }
        Ok(Config {
            sites,
            limits: settings.limits.clone(),
            proxies: settings.proxies.clone(),
            cache: settings.cache.as_ref().map(FileCache::new),
            // Last: nothing fails after it, so a configuration that is refused leaves the logs as they are.
            logs: log.open(settings).map_err(|text| OpenError::new("", text))?,
        })
    }

    /// The same with nothing in its cache; None where there is none.
    pub(crate) fn with_empty_cache(&self) -> Option<Config> {
        Some(Config {
            sites: self.sites.clone(),
            limits: self.limits.clone(),
            proxies: self.proxies.clone(),
            cache: Some(self.cache.as_ref()?.empty_copy()),
            logs: self.logs.clone(),
        })
    }

    /// The site of a host.
    pub(crate) fn site(&self, host: &str) -> &Arc<Site> {
        self.choose(host).0
    }

    /// The site of a host, and why: named exactly, named by a wildcard, one for any host, or else the first.
    pub(crate) fn choose(&self, host: &str) -> (&Arc<Site>, Chosen) {
        let exact = |site: &&Arc<Site>| site.hosts.iter().any(|name| name.eq_ignore_ascii_case(host));
        let wildcard = |site: &&Arc<Site>| site.hosts.iter().any(|name| is_below(host, name));
        let find = |how: Chosen, fits: &dyn Fn(&&Arc<Site>) -> bool| Some((self.sites.iter().find(fits)?, how));
        find(Chosen::Exactly, &exact)
            .or_else(|| find(Chosen::Below, &wildcard))
            .or_else(|| find(Chosen::AnyHost, &|site| site.hosts.is_empty()))
            .unwrap_or((&self.sites[0], Chosen::First))
    }

    pub(crate) fn sites(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.sites.iter()
    }
}

/// The value of Strict-Transport-Security (RFC 6797 §6.1).
fn hsts(age: Duration) -> HeaderValue {
    HeaderValue::try_from(format!("max-age={}", age.as_secs()))
        .unwrap_or_else(|_| HeaderValue::from_static("max-age=0"))
}

/// `*.example.org` names every host below example.org.
fn is_below(host: &str, name: &str) -> bool {
    name.strip_prefix('*').is_some_and(|suffix| {
        host.len() > suffix.len()
            && host
                .get(host.len() - suffix.len()..)
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    })
}

impl Site {
    fn open(settings: &SiteSettings, log: usize) -> Result<Site, OpenError> {
        let name = settings.hosts.first().map_or("*", String::as_str);
        let mut root = settings
            .root
            .as_deref()
            .map(|path| open_directory(path, &settings.origin))
            .transpose()?;
        if let Some(root) = &mut root {
            root.set_listed(settings.files.listing);
        }
        let mut routes = Vec::new();
        for route_settings in &settings.routes {
            let mut route = Route::open(route_settings, name)?;
            if let (Some(directory), Action::Files { listing, .. }) = (route.folder_mut(), &route_settings.action) {
                directory.set_listed(listing.unwrap_or(settings.files.listing));
            }
            routes.push(route);
        }
        Ok(Site {
            origin: settings.origin.clone(),
            hosts: settings.hosts.clone(),
            log,
            root,
            hsts: settings.hsts.map(hsts),
            index: settings.index.clone(),
            routes,
            types: Types::new(&settings.files),
            cache: settings.files.cache,
            listing_template: settings.files.listing_template.clone(),
            compression: Arc::new(Compression::new(&settings.compression)),
            errors: settings.errors.clone(),
        })
    }

    /// All that files are sent from.
    fn directories_mut(&mut self) -> impl Iterator<Item = &mut Directory> {
        let routes = self.routes.iter_mut().flat_map(Route::directories_mut);
        self.root.iter_mut().chain(routes)
    }

    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The routes that run scripts.
    pub(crate) fn script_routes(&self) -> impl Iterator<Item = &ScriptRoute> {
        self.routes.iter().filter_map(|route| match route.answer()? {
            RouteKind::Script(script) => Some(&**script),
            _ => None,
        })
    }

    /// The file that belongs to a path which has led to this place.
    pub(crate) fn file_at(&self, place: &Resolved<'_>, path: &str) -> Option<PathBuf> {
        match place {
            Resolved::Route(_, kind, star) => match kind {
                RouteKind::Files(files) => Some(files.directory.path().join(star.of(path))),
                RouteKind::Script(script) => match &script.settings.source {
                    ScriptSource::Directory(directory) => Some(directory.join(star.of(path))),
                    ScriptSource::File(file) => Some(file.clone()),
                    ScriptSource::Root => self.below_root(path),
                },
                RouteKind::Redirect { .. } | RouteKind::Refuse(_) => None,
            },
            Resolved::Root(_) => self.below_root(path),
            Resolved::Nowhere => None,
        }
    }

    fn below_root(&self, path: &str) -> Option<PathBuf> {
        Some(self.root.as_ref()?.path().join(path.trim_start_matches('/')))
    }
}

impl Map for Site {
    fn document_root(&self) -> &Path {
        self.root.as_ref().map_or(Path::new(""), Directory::path)
    }

    /// What the path means to everybody: nobody asks, so rules that have conditions are passed by.
    fn file_of(&self, path: &str) -> Option<PathBuf> {
        let resolution = self.resolve(path, None, None, &mut ()).ok()?;
        let path = resolution.rewritten.as_ref().map_or(path, |target| &target.path);
        self.file_at(&resolution.place, path)
    }

    fn path_of(&self, file: &str) -> Option<String> {
        let file = Path::new(OsStr::from_bytes(file.as_bytes()));
        let by_route = self.routes.iter().find_map(|route| {
            let directory = match route.answer()? {
                RouteKind::Files(files) => files.directory.path(),
                RouteKind::Script(script) => match &script.settings.source {
                    ScriptSource::Directory(directory) => directory.as_path(),
                    _ => return None,
                },
                _ => return None,
            };
            let below = file.strip_prefix(directory).ok()?.to_str()?;
            Some(format!("{}{below}", route.pattern.prefix()))
        });
        by_route.or_else(|| {
            let below = file.strip_prefix(self.root.as_ref()?.path()).ok()?.to_str()?;
            Some(format!("/{below}"))
        })
    }
}

impl Route {
    fn folder_mut(&mut self) -> Option<&mut Directory> {
        served_mut(&mut self.effect)
    }

    /// All that files are sent from. Nobody else has them yet.
    fn directories_mut(&mut self) -> impl Iterator<Item = &mut Directory> {
        let sent = Arc::get_mut(&mut self.send_directories);
        let sent = sent.into_iter().flat_map(SendDirectories::directories_mut);
        served_mut(&mut self.effect).into_iter().chain(sent)
    }
}

/// The directory whose files a rule serves.
fn served_mut(effect: &mut Effect) -> Option<&mut Directory> {
    match effect {
        Effect::Answer(RouteKind::Files(files)) => Some(&mut files.directory),
        _ => None,
    }
}

/// The site's root, and each pattern of paths under it that are scripts.
fn script_patterns(settings: &SiteSettings) -> Vec<(PathBuf, Pattern)> {
    let Some(root) = settings.root.as_ref().and_then(|root| root.canonicalize().ok()) else {
        return Vec::new();
    };
    let is_root = |action: &Action| matches!(action, Action::Script(script) if script.source == ScriptSource::Root);
    let routes = settings.routes.iter().filter(|route| is_root(&route.action));
    routes.map(|route| (root.clone(), route.path.clone())).collect()
}

/// Tells which paths below a directory are scripts by a pattern of paths under a root; none where the two places are apart.
fn programs_below(directory: &Path, root: &Path, pattern: &Pattern) -> Option<Program> {
    let pattern = pattern.clone();
    let is_script = move |path: &str| leading_parts(path).any(|part| pattern.matches(part).is_some());
    if let Ok(below) = directory.strip_prefix(root) {
        if below.as_os_str().is_empty() {
            return Some(Box::new(is_script));
        }
        let above = format!("/{}", below.display());
        return Some(Box::new(move |path| is_script(&format!("{above}{path}"))));
    }
    let above = format!("/{}", root.strip_prefix(directory).ok()?.display());
    Some(Box::new(move |path| {
        path.strip_prefix(above.as_str())
            .is_some_and(|path| path.starts_with('/') && is_script(path))
    }))
}

/// Nothing can be sent from a directory whose files are all programs, nor from one within it.
fn refuse_sent_programs(settings: &Settings, places: &[PathBuf]) -> Result<(), OpenError> {
    let places: Vec<_> = places.iter().filter_map(|place| place.canonicalize().ok()).collect();
    for route in settings.sites.iter().flat_map(|site| &site.routes) {
        let Action::Script(script) = &route.action else {
            continue;
        };
        for directory in script.send_files.values() {
            let is_programs = |directory: PathBuf| places.iter().any(|place| directory.starts_with(place));
            if directory.canonicalize().is_ok_and(is_programs) {
                let text = format!(
                    "send_files: {} is a directory of scripts, whose text is never sent: choose another",
                    directory.display()
                );
                return Err(OpenError::new(&route.origin, text));
            }
        }
    }
    Ok(())
}

/// Directories whose files are programs: their text must not be served where they lie within a served directory.
fn script_places(settings: &SiteSettings) -> Vec<PathBuf> {
    let sources = settings.routes.iter().filter_map(|route| match &route.action {
        Action::Script(script) => Some(&script.source),
        _ => None,
    });
    sources
        .filter_map(|source| match source {
            ScriptSource::Directory(place) | ScriptSource::File(place) => Some(place.clone()),
            ScriptSource::Root => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_settings::{CompressionSettings, FileSettings, Mode, RouteSettings, ScriptSettings};

    fn site(hosts: &[&str], root: &Path) -> SiteSettings {
        SiteSettings {
            origin: "test".into(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            root: Some(root.to_owned()),
            identity: None,
            hsts: None,
            index: vec!["index.html".into()],
            routes: Vec::new(),
            files: FileSettings::default(),
            compression: CompressionSettings::default(),
            errors: ErrorSettings::default(),
            log: None,
        }
    }

    fn config(sites: &[SiteSettings]) -> Config {
        Config {
            sites: sites
                .iter()
                .map(|site| Arc::new(Site::open(site, 0).unwrap()))
                .collect(),
            limits: Limits::default(),
            proxies: ProxySettings::default(),
            cache: None,
            logs: Box::default(),
        }
    }

    #[test]
    fn hosts_are_matched_exactly_then_by_wildcard_then_by_default() {
        let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let config = config(&[
            site(&["one.example"], directories[0].path()),
            site(&["*.example"], directories[1].path()),
            site(&[], directories[2].path()),
        ]);
        for (host, expected) in [
            ("one.example", 0),
            ("ONE.example", 0),
            ("two.example", 1),
            ("a.b.example", 1),
            ("example", 2),
            ("", 2),
        ] {
            let root = directories[expected].path().canonicalize().unwrap();
            assert_eq!(config.site(host).document_root(), root, "{host}");
        }
    }

    #[test]
    fn paths_and_files_map_both_ways() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("programs")).unwrap();
        let mut settings = site(&[], &root);
        let script = ScriptSettings::new(ScriptSource::Directory(root.join("programs")), Mode::Cgi);
        settings
            .routes
            .push(RouteSettings::new("/cgi-bin/*", Action::Script(Box::new(script))));
        let site = Site::open(&settings, 0).unwrap();
        assert_eq!(site.file_of("/a/b"), Some(root.join("a/b")));
        assert_eq!(site.file_of("/cgi-bin/x"), Some(root.join("programs/x")));
        let file = |name: &str| root.join(name).to_str().unwrap().to_owned();
        assert_eq!(site.path_of(&file("a/b")).as_deref(), Some("/a/b"));
        assert_eq!(site.path_of(&file("programs/x")).as_deref(), Some("/cgi-bin/x"));
        assert_eq!(site.path_of("/etc/passwd"), None);
    }
}
