//! The configuration of a running server, opened, and the choice of the site for a host.

use std::sync::Arc;

use sluice_files::directory::Directory;
use sluice_files::file_cache::FileCache;
use sluice_files::withheld::WithheldFiles;
use sluice_log::{Log, SiteLog};
use sluice_settings::limits::Limits;
use sluice_settings::open_error::OpenError;
use sluice_settings::{ProxySettings, Settings};

use crate::dispatch::script_sources::ScriptSources;
use crate::dispatch::site::Site;
use crate::dispatch::withheld::{self, withheld_files};

/// The sites, limits and logs of a running server; replaced as a whole on reload.
pub(crate) struct Config {
    sites: Vec<Arc<Site>>,
    pub limits: Limits,
    pub proxies: ProxySettings,
    pub cache: Option<FileCache>,
    /// Lines for the log about files that are not sent although they lie below a served directory.
    pub notices: Vec<String>,
    /// The server's own, then those of the sites.
    pub logs: Box<[SiteLog]>,
}

/// How a site was chosen for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMatch {
    Exact,
    Wildcard,
    /// By a site without host names.
    AnyHost,
    /// By none: the first site serves the host.
    Default,
}

impl HostMatch {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            HostMatch::Exact => "the host is one of its names",
            HostMatch::Wildcard => "the host is below one of its names",
            HostMatch::AnyHost => "no site has that name, and this one is for any host",
            HostMatch::Default => "no site has that name, and this is the first",
        }
    }
}

impl Config {
    /// Opens everything that the settings name. An error is the administrator's.
    pub(crate) fn open(settings: &Settings, log: &Log) -> Result<Config, OpenError> {
        Config::open_withholding(settings, withheld_files(settings), log)
    }

    /// As `open`, but never sends `withheld`.
    pub(crate) fn open_withholding(
        settings: &Settings,
        withheld: WithheldFiles,
        log: &Log,
    ) -> Result<Config, OpenError> {
        let withheld = Arc::new(withheld);
        let mut sites = Vec::new();
        for (number, site) in settings.sites.iter().enumerate() {
            sites.push(Site::open(site, number + 1)?);
        }
        let script_sources = ScriptSources::of(settings)?;
        for directory in sites.iter_mut().flat_map(Site::directories_mut) {
            script_sources.withhold_from(directory);
            directory.withhold_files(&withheld);
        }
        let directories = sites.iter().flat_map(Site::directories).map(Directory::path);
        let notices = withheld::notices(&withheld, directories);
        let sites: Vec<_> = sites.into_iter().map(Arc::new).collect();
        if sites.is_empty() {
            return Err(OpenError::new("", "there is no site to serve"));
        }
        Ok(Config {
            sites,
            limits: settings.limits,
            proxies: settings.proxies.clone(),
            cache: settings.cache.as_ref().map(FileCache::new),
            notices,
            // Last, because a configuration that fails to open must leave the logs as they are.
            logs: log.open(settings).map_err(|text| OpenError::new("", text))?,
        })
    }

    /// The same configuration with an empty cache. `None` if it has no cache.
    pub(crate) fn with_empty_cache(&self) -> Option<Config> {
        Some(Config {
            sites: self.sites.clone(),
            limits: self.limits,
            proxies: self.proxies.clone(),
            cache: Some(self.cache.as_ref()?.empty_copy()),
            notices: Vec::new(),
            logs: self.logs.clone(),
        })
    }

    /// The site of a host.
    pub(crate) fn site(&self, host: &str) -> &Arc<Site> {
        self.choose_site(host).0
    }

    /// The site of a host, and how it was chosen.
    pub(crate) fn choose_site(&self, host: &str) -> (&Arc<Site>, HostMatch) {
        let exact = |site: &&Arc<Site>| site.hosts().iter().any(|name| name.eq_ignore_ascii_case(host));
        let wildcard = |site: &&Arc<Site>| site.hosts().iter().any(|name| is_below(host, name));
        let find = |how: HostMatch, fits: &dyn Fn(&&Arc<Site>) -> bool| Some((self.sites.iter().find(fits)?, how));
        find(HostMatch::Exact, &exact)
            .or_else(|| find(HostMatch::Wildcard, &wildcard))
            .or_else(|| find(HostMatch::AnyHost, &|site| site.hosts().is_empty()))
            .unwrap_or((&self.sites[0], HostMatch::Default))
    }

    pub(crate) fn sites(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.sites.iter()
    }
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

#[cfg(test)]
mod tests {
    use sluice_script::route::Map;
    use sluice_settings::SiteSettings;

    use super::*;
    use crate::dispatch::site::test_settings;

    fn config(sites: &[SiteSettings]) -> Config {
        Config {
            sites: sites
                .iter()
                .map(|site| Arc::new(Site::open(site, 0).unwrap()))
                .collect(),
            limits: Limits::default(),
            proxies: ProxySettings::default(),
            cache: None,
            notices: Vec::new(),
            logs: Box::default(),
        }
    }

    #[test]
    fn hosts_are_matched_exactly_then_by_wildcard_then_by_default() {
        let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let config = config(&[
            test_settings(&["one.example"], directories[0].path()),
            test_settings(&["*.example"], directories[1].path()),
            test_settings(&[], directories[2].path()),
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
}
