//! The configuration of a running server, opened, and the site that serves a request for a host.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use http::uri::Scheme;
use sluice_access::store::UserStore;
use sluice_files::cache::FileCache;
use sluice_files::withheld::WithheldFiles;
use sluice_http::fault::Misdirected;
use sluice_http::host;
use sluice_log::{Log, SiteLog};
use sluice_script::route::ScriptRoute;
use sluice_settings::limits::Limits;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::UserSource;
use sluice_settings::site_choice::{HostMatch, SiteNames};
use sluice_settings::{ListenAddress, ProxySettings, Settings, UnknownHosts};

use crate::dispatch::limit_tables::LimitTables;
use crate::dispatch::own_agents::OwnAgents;
use crate::dispatch::script_sources::ScriptSources;
use crate::dispatch::site::Site;
use crate::dispatch::withheld::{self, withheld_files};

/// The sites, limits and logs of a running server; replaced as a whole on reload.
#[derive(Clone)]
pub(crate) struct Config {
    pub(super) sites: Vec<Arc<Site>>,
    names: SiteNames,
    addresses: Vec<ListenAddress>,
    unknown_hosts: UnknownHosts,
    pub limits: Limits,
    pub proxies: ProxySettings,
    pub cache: Option<Arc<FileCache>>,
    pub limit_tables: Arc<LimitTables>,
    users: Vec<Arc<UserStore>>,
    pub agents: OwnAgents,
    /// Lines for the log about files that are not sent although they lie below a served directory.
    pub notices: Vec<String>,
    /// The server's own, then those of the sites.
    pub logs: Box<[SiteLog]>,
}

impl Config {
    /// Opens everything that the settings name except the logs, for listeners on these addresses. An error is the administrator's.
    ///
    /// With the configuration before it, what that one has counted goes on.
    pub(crate) fn open(
        settings: &Settings,
        addresses: &[ListenAddress],
        before: Option<&Config>,
    ) -> Result<Config, OpenError> {
        let mut config = Config::open_withholding(settings, addresses, withheld_files(settings))?;
        if let Some(before) = before {
            config.limit_tables = Arc::new(LimitTables::new(settings, Some(&before.limit_tables)));
        }
        Ok(config)
    }

    /// Puts the users that were read into the stores of the configuration before it, which are in use: nothing may fail any more.
    pub(crate) fn take_users_over(&mut self, before: &Config) {
        for store in &mut self.users {
            if let Some(kept) = before.users.iter().find_map(|before| before.take_over(store)) {
                *store = kept;
            }
        }
    }

    pub(crate) fn open_withholding(
        settings: &Settings,
        addresses: &[ListenAddress],
        withheld: WithheldFiles,
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
        let directories = sites.iter().flat_map(Site::directories);
        let notices = withheld::notices(&withheld, directories);
        let sites: Vec<_> = sites.into_iter().map(Arc::new).collect();
        if sites.is_empty() {
            return Err(OpenError::new("", "there is no site to serve"));
        }
        Ok(Config {
            sites,
            names: SiteNames::new(&settings.sites, addresses),
            addresses: addresses.to_vec(),
            unknown_hosts: settings.unknown_hosts.clone(),
            limits: settings.limits,
            proxies: settings.proxies.clone(),
            cache: settings.cache.as_ref().map(FileCache::new).map(Arc::new),
            limit_tables: Arc::new(LimitTables::new(settings, None)),
            users: open_users(settings)?,
            agents: OwnAgents::open(settings)?,
            notices,
            logs: Box::default(),
        })
    }

    /// Opens the logs, after all else that may fail: an unused configuration must not touch them. Errors of the administrator: a log cannot be opened.
    pub(crate) fn open_logs(&mut self, settings: &Settings, log: &Log) -> Result<(), OpenError> {
        self.logs = log.open(settings).map_err(|text| OpenError::new("", text))?;
        Ok(())
    }

    pub(crate) fn with_empty_cache(&self) -> Option<Config> {
        let cache = self.cache.as_ref()?;
        Some(Config {
            cache: Some(Arc::new(cache.continuing(cache))),
            notices: Vec::new(),
            ..self.clone()
        })
    }

    pub(crate) fn continue_counters(&mut self, replaced: &Config) {
        if let (Some(cache), Some(replaced)) = (&self.cache, &replaced.cache) {
            self.cache = Some(Arc::new(cache.continuing(replaced)));
        }
    }

    pub(crate) fn user_store(&self, source: &Arc<UserSource>) -> Option<&Arc<UserStore>> {
        let is_same = |store: &&Arc<UserStore>| Arc::ptr_eq(store.source(), source);
        let is_equal = |store: &&Arc<UserStore>| store.source() == source;
        let mut users = self.users.iter();
        users.find(is_same).or_else(|| self.users.iter().find(is_equal))
    }

    pub(crate) fn weak_hashes(&self) -> BTreeSet<String> {
        // Several realms may have the same file.
        self.users.iter().flat_map(|store| store.weak_hashes()).collect()
    }

    /// A line about each source of users that could not be read when the server started, and cannot be yet.
    pub(crate) fn unreadable_users(&self) -> Vec<String> {
        self.users.iter().filter_map(UserStore::last_fault).collect()
    }

    pub(crate) fn site(&self, number: usize) -> &Arc<Site> {
        &self.sites[number]
    }

    /// The names of a site for watches: its hosts, and `default` if it serves the hosts that no site names. `listener` is the number of the address.
    pub(crate) fn watched_names(&self, site: usize, listener: usize) -> Vec<String> {
        let mut names = self.site(site).hosts.clone();
        let of_unknown = self.names.choose("", Some(listener));
        if of_unknown.is_some_and(|(number, _)| number == site) && self.unknown_hosts != UnknownHosts::Refuse {
            names.push("default".to_owned());
        }
        names
    }

    /// The number of the site for a host, and how it was chosen, for a question that may name no address. Errors: the same as for `site_of_request`.
    pub(crate) fn site_of_question(
        &self,
        host: &str,
        listener: Option<usize>,
    ) -> Result<(usize, HostMatch), Misdirected> {
        if let Some(listener) = listener {
            return self.site_of_request(host, listener);
        }
        match self.names.choose(host, None).unwrap_or((0, HostMatch::Default)) {
            (_, HostMatch::Default) if self.unknown_hosts == UnknownHosts::Refuse => {
                Err(Misdirected::UnknownHost(host.into()))
            }
            chosen => Ok(chosen),
        }
    }

    pub(crate) fn is_served_on(&self, host: &str, listener: usize) -> bool {
        let chosen = self.names.choose(host, Some(listener));
        chosen.is_some_and(|(number, _)| self.names.is_on(number, listener))
    }

    /// The number of the site that serves a request for a host, and how it was chosen. `listener` is the number of the address.
    /// Errors: the client's (421): the site is not served on this address, or the host is unknown and such hosts are refused.
    pub(crate) fn site_of_request(&self, host: &str, listener: usize) -> Result<(usize, HostMatch), Misdirected> {
        let chosen = self.names.choose(host, Some(listener));
        match chosen.filter(|(number, _)| self.names.is_on(*number, listener)) {
            Some((number, how)) => self.check_host(host, how, listener).map(|()| (number, how)),
            None => Err(Misdirected::OtherAddress(host.into())),
        }
    }

    /// The number of the site that a redirect to https leads to. It may be served on other addresses than the one with the redirect, which shows nothing of
    /// it. Errors: the client's (421): the host is unknown, and such hosts are refused.
    pub(crate) fn site_of_redirect(&self, host: &str, listener: usize) -> Result<usize, Misdirected> {
        let (number, how) = self.names.choose(host, None).unwrap_or((0, HostMatch::Default));
        self.check_host(host, how, listener).map(|()| number)
    }

    fn check_host(&self, host: &str, how: HostMatch, listener: usize) -> Result<(), Misdirected> {
        match &self.unknown_hosts {
            UnknownHosts::Refuse if how == HostMatch::Default => Err(Misdirected::UnknownHost(host.into())),
            UnknownHosts::RefuseOnLoopback(_) if self.is_loopback(listener) && !self.is_local(host) => {
                Err(Misdirected::NotLocal(host.into()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that an absolute form is for this server, which is no proxy: the host is a name of a site, or of this machine, or its address. A site for any
    /// host does not count, because such requests are made to proxies, and those for other hosts by clients that look for an open one. `server` is the
    /// address of the server on this connection. Errors: the client's (421): the host is another server's, or the scheme is not that of the web.
    pub(crate) fn check_absolute_form(&self, scheme: &Scheme, host: &str, server: IpAddr) -> Result<(), Misdirected> {
        if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
            return Err(Misdirected::OtherScheme(scheme.as_str().into()));
        }
        let is_named = || {
            let chosen = self.names.choose(host, None);
            matches!(chosen, Some((_, HostMatch::Exact | HostMatch::Wildcard)))
        };
        match self.is_local(host) || is_address(host, server) || is_named() {
            true => Ok(()),
            false => Err(Misdirected::OtherServer(host.into())),
        }
    }

    /// The name of the server for scripts (SERVER_NAME): the requested host if it is one of the site's names, otherwise the first of those. A site without
    /// names has that of this machine, if the host is one. `None` for the server's address: what any client can choose must not get into URLs of scripts.
    pub(crate) fn server_name<'a>(&'a self, site: &'a Site, host: &'a str, server: IpAddr) -> Option<&'a str> {
        if site.has_name(host) {
            return Some(host);
        }
        match &*site.hosts {
            [] => (self.is_local(host) || is_address(host, server))
                .then_some(host)
                .filter(|host| !host.is_empty()),
            names => names.iter().map(String::as_str).find(|name| !name.starts_with('*')),
        }
    }

    /// Whether a host is a name of a site, of this machine, or the address of the server, so that no page of another site can have it (DNS rebinding).
    pub(crate) fn is_own_name(&self, site: &Site, host: &str, server: IpAddr) -> bool {
        site.has_name(host) || self.is_local(host) || is_address(host, server)
    }

    /// Whether a host is a name of this machine, or one that was declared as such. A request without a host is no browser's.
    fn is_local(&self, host: &str) -> bool {
        let is_declared = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(host));
        host.is_empty()
            || host::is_local(host)
            || matches!(&self.unknown_hosts, UnknownHosts::RefuseOnLoopback(names) if is_declared(names))
    }

    fn is_loopback(&self, listener: usize) -> bool {
        let ip = self.addresses.get(listener).and_then(ListenAddress::ip);
        ip.is_some_and(|ip| ip.to_canonical().is_loopback())
    }

    /// The routes that run scripts, of all sites, and those of the agents that come with the server.
    pub(crate) fn script_routes(&self) -> impl Iterator<Item = &Arc<ScriptRoute>> {
        let of_sites = self.sites.iter().flat_map(|site| site.script_routes());
        of_sites.chain(self.agents.routes())
    }

    /// The script routes that keep processes, each with its site; agents belong to the first one.
    pub(crate) fn kept_script_routes(&self) -> impl Iterator<Item = (&Arc<Site>, &Arc<ScriptRoute>)> {
        let of_sites = self.sites.iter();
        let of_sites = of_sites.flat_map(|site| site.script_routes().map(move |route| (site, route)));
        let of_agents = self.sites.iter().take(1);
        let of_agents = of_agents.flat_map(|site| self.agents.routes().map(move |route| (site, route)));
        let all = of_sites.chain(of_agents);
        all.filter(|(_, route)| route.settings.mode.keeps_process())
    }

    pub(crate) fn sites(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.sites.iter()
    }
}

fn is_address(host: &str, server: IpAddr) -> bool {
    host::address(host).is_some_and(|address| address == server.to_canonical())
}

/// Opens the users of all routes; routes with the same files share them.
fn open_users(settings: &Settings) -> Result<Vec<Arc<UserStore>>, OpenError> {
    let mut stores: Vec<Arc<UserStore>> = Vec::new();
    for route in settings.routes() {
        for access in route.changes.access.limits() {
            if !stores.iter().any(|store| *store.source() == access.source) {
                let files: Vec<_> = access.source.secret_files().collect();
                let store = match settings.source.tolerates(&files) {
                    true => UserStore::open_or_await(&access.source, &access.origin),
                    false => UserStore::open(&access.source).map_err(|text| OpenError::new(&access.origin, text))?,
                };
                stores.push(Arc::new(store));
            }
        }
    }
    Ok(stores)
}

#[cfg(test)]
mod tests {
    use sluice_settings::SiteSettings;

    use super::*;
    use crate::dispatch::site::test_settings;

    fn config(sites: &[SiteSettings], unknown_hosts: UnknownHosts) -> Config {
        Config {
            names: SiteNames::new(sites, &[]),
            sites: sites
                .iter()
                .map(|site| Arc::new(Site::open(site, 0).unwrap()))
                .collect(),
            addresses: Vec::new(),
            unknown_hosts,
            limits: Limits::default(),
            proxies: ProxySettings::default(),
            limit_tables: Arc::default(),
            users: Vec::new(),
            agents: OwnAgents::default(),
            cache: None,
            notices: Vec::new(),
            logs: Box::default(),
        }
    }

    #[test]
    fn what_a_client_chooses_becomes_the_name_of_the_server_only_if_it_is_known() {
        let root = tempfile::tempdir().unwrap();
        let local = UnknownHosts::RefuseOnLoopback(vec!["devbox".into()]);
        for (hosts, unknown_hosts, host, expected) in [
            (
                &["*.a.test", "a.test"][..],
                UnknownHosts::Serve,
                "a.test",
                Some("a.test"),
            ),
            (
                &["*.a.test", "a.test"],
                UnknownHosts::Serve,
                "x.a.test",
                Some("x.a.test"),
            ),
            (
                &["*.a.test", "a.test"],
                UnknownHosts::Serve,
                "evil.test",
                Some("a.test"),
            ),
            (&["*.a.test"], UnknownHosts::Serve, "evil.test", None),
            (&["a.test"], UnknownHosts::Serve, "", Some("a.test")),
            (&[], UnknownHosts::Serve, "evil.test", None),
            (&[], UnknownHosts::Serve, "", None),
            (&[], UnknownHosts::Serve, "localhost", Some("localhost")),
            (&[], UnknownHosts::Serve, "App.Localhost", Some("App.Localhost")),
            (&[], UnknownHosts::Serve, "localhost.evil.test", None),
            (&[], UnknownHosts::Serve, "192.0.2.1", Some("192.0.2.1")),
            (&[], UnknownHosts::Serve, "192.0.2.2", None),
            (&[], UnknownHosts::Serve, "devbox", None),
            (&[], local.clone(), "devbox", Some("devbox")),
            (&[], local, "evil.test", None),
        ] {
            let config = config(&[test_settings(hosts, root.path())], unknown_hosts);
            let name = config.server_name(config.site(0), host, "192.0.2.1".parse().unwrap());
            assert_eq!(name, expected, "{hosts:?} {host}");
        }
    }
}
