//! The sites of all files together: which of them a host belongs to, the routes that included files add, and what two sites must not share.

use sluice_settings::rule::covers;
use sluice_settings::{ListenAddress, ListenSettings, SiteSettings};

use super::client_certificates;
use super::document::{At, Document};
use super::log::SharedLogs;
use super::route;
use super::route_lint::{self, SiteRoot};
use super::site::Draft;
use super::table::Table;

/// The sites so far, and what two of them must not share.
#[derive(Default)]
pub(super) struct Sites {
    /// Each with its line. Included files may still add routes.
    sites: Vec<At<Draft>>,
    claimed: Vec<At<String>>,
    /// The sites for any host: their lines and addresses.
    any_host: Vec<At<Vec<ListenAddress>>>,
    logs: SharedLogs,
    /// The hosts of sites that are switched off.
    disabled_hosts: Vec<String>,
}

impl Sites {
    /// Adds a site, and reports what it claims of an earlier one.
    pub(super) fn add(&mut self, mut site: Draft, table: &Table<'_>) {
        let document = table.document;
        if !site.is_enabled {
            document.forget_lacks_after(site.lacks_before);
            let hosts = site.hosts.into_iter().flatten();
            self.disabled_hosts.extend(hosts.map(|host| host.value));
            return;
        }
        match &site.hosts {
            Some(hosts) => self.claim(hosts, document),
            None if table.has("hosts") => {}
            None => self.claim_any_host(&site.listen, table),
        }
        self.logs.check(site.settings.log.as_ref(), table);
        let hosts = site.hosts.take().unwrap_or_default();
        site.settings.hosts = hosts.into_iter().map(|host| host.value).collect();
        site.settings.listen = site.listen.iter().map(|address| address.value.clone()).collect();
        site.settings.client_authorities = std::mem::take(&mut site.authorities).finish(table);
        self.sites.push(At::new(site, table.line));
    }

    /// Whether the site of a host is switched off.
    pub(super) fn is_disabled(&self, host: &str) -> bool {
        self.disabled_hosts.iter().any(|own| own == host || covers(own, host))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// The line of a site for any host; `None` without one.
    pub(super) fn any_host_line(&self) -> Option<usize> {
        self.any_host.first().map(|site| site.line)
    }

    /// The number of the site to which an included file adds routes: that of a host, else the site for any host, else the first. `None` without a site.
    pub(super) fn number_of(&self, host: Option<&str>) -> Option<usize> {
        let find =
            |is_it: &dyn Fn(&SiteSettings) -> bool| self.sites.iter().position(|site| is_it(&site.value.settings));
        match host {
            Some(host) => find(&|site| site.hosts.iter().any(|own| own == host))
                .or_else(|| find(&|site| site.hosts.iter().any(|own| covers(own, host)))),
            None => find(&|site| site.hosts.is_empty()).or_else(|| (!self.sites.is_empty()).then_some(0)),
        }
    }

    /// A site by its number.
    pub(super) fn site(&self, number: usize) -> &Draft {
        &self.sites[number].value
    }

    /// Adds a route of an included file after those of its site.
    pub(super) fn add_route(&mut self, number: usize, route: route::Draft, table: &Table<'_>) {
        self.sites[number].value.add_route(route, table);
    }

    /// The sites, after checks of their routes, and that they go with the addresses.
    pub(super) fn finish(self, listen: &[ListenSettings], document: &Document<'_>) -> Vec<SiteSettings> {
        let is_listened_on = |address: &At<ListenAddress>| listen.iter().any(|listen| listen.address == address.value);
        for At { value: site, line } in &self.sites {
            route_lint::check(document, &site.parsed_routes, site.root);
            if site.root == SiteRoot::Absent && site.parsed_routes.is_empty() {
                let message = "[[site]] serves nothing: add files, root = \"htdocs\", or a [[site.route]]";
                document.report(*line, message);
            }
            for address in site.listen.iter().filter(|address| !is_listened_on(address)) {
                let all: Vec<String> = listen.iter().map(|listen| format!("\"{}\"", listen.address)).collect();
                let message = format!(
                    "listen \"{}\": no [[listen]] has this address: write one of {}, or add it",
                    address.value,
                    all.join(", ")
                );
                document.report(address.line, message);
            }
            if site.listen.iter().all(is_listened_on) {
                client_certificates::check_site(&site.settings, *line, listen, document);
            }
        }
        self.sites.into_iter().map(|site| site.value.settings).collect()
    }

    /// Reports a second site for any host, unless they have no address in common.
    fn claim_any_host(&mut self, listen: &[At<ListenAddress>], table: &Table<'_>) {
        let own: Vec<ListenAddress> = listen.iter().map(|address| address.value.clone()).collect();
        let shares = |other: &&At<Vec<ListenAddress>>| {
            own.is_empty() || other.value.is_empty() || other.value.iter().any(|address| own.contains(address))
        };
        match self.any_host.iter().find(shares) {
            Some(At { line, .. }) => table.report(&format!(
                "[[site]] without hosts matches any host, as the one on {} does: give it hosts = [\"example.org\"]",
                table.document.shown_line(*line)
            )),
            None => self.any_host.push(At::new(own, table.line)),
        }
    }

    fn claim(&mut self, hosts: &[At<String>], document: &Document<'_>) {
        report_unreachable(document, &self.claimed, hosts);
        for host in hosts {
            match self.claimed.iter().find(|earlier| earlier.value == host.value) {
                Some(earlier) if earlier.line == host.line => {
                    document.report(
                        host.line,
                        format!("host \"{}\" is listed twice: remove one", host.value),
                    );
                }
                Some(earlier) => document.report(
                    host.line,
                    format!(
                        "host \"{}\" is already listed on {}: a host belongs to one site",
                        host.value,
                        document.shown_line(earlier.line)
                    ),
                ),
                None => self.claimed.push(host.clone()),
            }
        }
    }
}

/// Reports names with a star that a star of an earlier site covers: the first match decides.
fn report_unreachable(document: &Document<'_>, claimed: &[At<String>], hosts: &[At<String>]) {
    for host in hosts.iter().filter(|host| host.value.starts_with('*')) {
        let is_covering = |earlier: &&At<String>| earlier.value != host.value && covers(&earlier.value, &host.value);
        if let Some(earlier) = claimed.iter().find(is_covering) {
            let message = format!(
                "host \"{}\": is never reached, because \"{}\" on {} comes first: put this site above that one",
                host.value,
                earlier.value,
                document.shown_line(earlier.line)
            );
            document.report(host.line, message);
        }
    }
}
