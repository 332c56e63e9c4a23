//! The page of the configuration as the server understands it: addresses, sites and routes, each with its place in the files.

use maud::{Markup, html};
use serde::Serialize;

use crate::action::Buttons;
use crate::html::{fact, facts, section, table};
use crate::view::View;

/// The configuration in force. Values that may be secret are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Configuration {
    /// The files, the main one first; none if the command line says everything.
    pub files: Vec<String>,
    /// What holds for the whole server.
    pub server: Vec<Setting>,
    /// The sites in their order.
    pub sites: Vec<Site>,
    /// What it probably does not mean, as `sluice check` says it.
    pub warnings: Vec<String>,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Its place in the files: `sluice.toml:12`.
    pub origin: String,
    /// Its host names; none for any host.
    pub hosts: Vec<String>,
    /// What holds for the whole site.
    pub settings: Vec<Setting>,
    /// Its routes in their order, and the files for paths that no route matches.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Its place in the files.
    pub origin: String,
    /// The pattern of its paths.
    pub path: String,
    /// What it does.
    pub action: String,
    /// With what, and what it changes.
    pub with: String,
}

impl View for Configuration {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            @for warning in &self.warnings { p.warning { (warning) } }
            (section("server", "Server", &settings(&self.server)))
            @if self.files.is_empty() { p { "The command line says everything; there is no configuration file." } }
            @else { p { "Read from " @for (number, file) in self.files.iter().enumerate() { @if number > 0 { ", " } code { (file) } } "." } }
            @for (number, site) in self.sites.iter().enumerate() {
                @let hosts = if site.hosts.is_empty() { "any host".to_owned() } else { site.hosts.join(" ") };
                (section(&format!("site-{number}"), &format!("Site {hosts}"), &site.html()))
            }
            (buttons.button("reload", "Reload the configuration"))
        }
    }
}

impl Site {
    fn html(&self) -> Markup {
        let rows: Vec<Vec<Markup>> = self
            .routes
            .iter()
            .map(|route| {
                vec![
                    html! { code { (route.path) } },
                    html! { (route.action) },
                    html! { (route.with) },
                    html! { span.faint { (route.origin) } },
                ]
            })
            .collect();
        html! {
            p.faint { (self.origin) }
            @if !self.settings.is_empty() { (settings(&self.settings)) br; }
            (table(&["path", "action", "with", "place"], &rows))
        }
    }
}

fn settings(settings: &[Setting]) -> Markup {
    let rows: Vec<_> = settings
        .iter()
        .map(|setting| fact(&setting.name, &setting.value))
        .collect();
    facts(&rows)
}
