//! The page of the configuration.

use maud::{Markup, Render, html};
use sluice_report::configuration::{Configuration, Route, Setting, Site};

use crate::action::Buttons;
use crate::html::{fact, facts, section, table};
use crate::view::View;

impl View for Configuration {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            @for warning in &self.warnings { p.warning { (warning) } }
            (section("server", "Server", &settings(&self.server)))
            @if self.files.is_empty() { p { "The command line says everything; there is no configuration file." } }
            @else { p { "Read from " @for (number, file) in self.files.iter().enumerate() { @if number > 0 { ", " } code { (file) } } "." } }
            @for (number, site) in self.sites.iter().enumerate() {
                @let hosts = if site.hosts.is_empty() { "any host".to_owned() } else { site.hosts.join(" ") };
                (section(&format!("site-{number}"), &format!("Site {hosts}"), &site_html(site)))
            }
            (buttons.button("reload", "Reload the configuration"))
        }
    }
}

fn site_html(site: &Site) -> Markup {
    let row = |route: &Route| {
        [
            html! { code { (route.path) } },
            route.action.render(),
            route.with.render(),
            html! { span.faint { (route.origin) } },
        ]
    };
    html! {
        p.faint { (site.origin) }
        @if !site.settings.is_empty() { (settings(&site.settings)) br; }
        (table(["path", "action", "with", "place"], site.routes.iter().map(row)))
    }
}

fn settings(settings: &[Setting]) -> Markup {
    facts(settings.iter().map(|setting| fact(&setting.name, &setting.value)))
}
