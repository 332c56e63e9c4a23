//! The configuration as the page of the reports shows it. Values that may be secrets are left out.

use sluice_report::configuration::{Configuration, Route, Setting, Site};
use sluice_settings::rule::CertificateUse;
use sluice_settings::{Settings, SiteSettings, UnknownHosts};

use super::describe::{addresses, describe_log, describe_root, describe_route, describe_server_log};
use super::warnings::warnings;
use sluice_settings::notation::{format_duration, format_size};

/// The configuration in force.
pub fn report(settings: &Settings) -> Configuration {
    let files = settings.config_files.iter();
    Configuration {
        files: files.map(|file| file.display().to_string()).collect(),
        server: server(settings),
        sites: settings.sites.iter().map(site).collect(),
        warnings: warnings(settings),
    }
}

fn server(settings: &Settings) -> Vec<Setting> {
    let limits = &settings.limits;
    let unknown_hosts = match &settings.unknown_hosts {
        UnknownHosts::Serve => "the first site".to_owned(),
        UnknownHosts::Refuse => "refused (421)".to_owned(),
        UnknownHosts::RefuseOnLoopback(names) if names.is_empty() => "refused (421) on loopback addresses".to_owned(),
        UnknownHosts::RefuseOnLoopback(names) => {
            format!("refused (421) on loopback addresses, except {}", names.join(" "))
        }
    };
    let mut rows = vec![
        setting("listening on", addresses(settings)),
        setting("workers", settings.workers.to_string()),
        setting("unknown hosts", unknown_hosts),
        setting("access log", describe_log(&settings.access_log)),
        setting("server log", describe_server_log(&settings.server_log)),
        setting("connections", limits.connections_max.to_string()),
        setting(
            "connections of a client",
            match limits.client_connections_max {
                0 => "any number".to_owned(),
                most => most.to_string(),
            },
        ),
        setting("request body", format_size(limits.body_bytes_max)),
        setting("time for a head", format_duration(limits.head_timeout)),
        setting("time to drain", format_duration(limits.drain_timeout)),
    ];
    if !settings.proxies.trusted.is_empty() {
        rows.push(setting("trusted proxies", settings.proxies.trusted.to_string()));
    }
    rows.push(match &settings.cache {
        Some(cache) => setting(
            "file cache",
            format!(
                "{}, files up to {}",
                format_size(cache.bytes_max),
                format_size(cache.file_bytes_max)
            ),
        ),
        None => setting("file cache", "off".to_owned()),
    });
    rows
}

fn site(site: &SiteSettings) -> Site {
    let mut settings = Vec::new();
    if !site.listen.is_empty() {
        let addresses: Vec<String> = site.listen.iter().map(ToString::to_string).collect();
        settings.push(setting("only on", addresses.join("  ")));
    }
    if site.client_certificates == CertificateUse::Required {
        settings.push(setting("clients", "with a certificate".to_owned()));
    }
    if let Some(log) = &site.log {
        settings.push(setting("access log", describe_log(log)));
    }
    let routes = site.routes.iter().map(|route| {
        let [path, action, with] = describe_route(route, site, &route.when.without_secrets());
        Route { origin: route.origin.clone(), path, action, with }
    });
    let root =
        describe_root(site).map(|[path, action, with]| Route { origin: site.origin.clone(), path, action, with });
    Site {
        origin: site.origin.clone(),
        hosts: site.hosts.clone(),
        settings,
        routes: routes.chain(root).collect(),
    }
}

fn setting(name: &str, value: String) -> Setting {
    Setting { name: name.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    #[test]
    fn routes_have_their_places_and_no_secrets() {
        let settings = read(
            "[[site]]\nroot = 'htdocs'\n[[site.route]]\npath = '/a/*'\nwhen = { header = { X-Token = 'hunter2' } }\n\
             script = { directory = 'cgi-bin', environment = { PASSWORD = 'hunter2' } }",
        )
        .expect("a valid configuration");
        let report = report(&settings);
        let route = &report.sites[0].routes[0];
        assert_eq!(
            (route.origin.as_str(), route.path.as_str(), route.action.as_str()),
            ("sluice.toml:3", "/a/*", "cgi")
        );
        assert!(route.with.contains("header x-token …"), "{route:?}");
        assert!(!format!("{report:?}").contains("hunter2"), "{report:?}");
        assert_eq!(report.sites[0].routes[1].path, "/*");
    }
}
