//! The page of the connections.

use maud::{Markup, html};
use sluice_report::connections::{Connection, ConnectionList, Count};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{fact, facts, figure, section, table};
use crate::view::View;

impl View for ConnectionList {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let counts = |counts: &[Count]| {
            let rows: Vec<_> = counts
                .iter()
                .map(|count| fact(&count.name, text::number(count.count as u64)))
                .collect();
            facts(&rows)
        };
        let old = |connection: &Connection| {
            vec![
                html! { (connection.client) },
                figure(text::uptime(connection.age_ms / 1000)),
                html! { (connection.state) },
                html! { (connection.protocol) },
                html! { (connection.tls) },
                figure(text::number(connection.requests.into())),
            ]
        };
        let oldest: Vec<_> = self.oldest.iter().map(old).collect();
        html! {
            p {
                (text::number(self.open as u64)) " of " (text::number(self.max as u64)) " are open; "
                (text::number(self.accepted)) " were accepted since the start."
            }
            @if self.silent_workers > 0 {
                p { (self.silent_workers) " workers did not answer in time: their connections are missing." }
            }
            div.columns {
                (section("states", "By state", &counts(&self.states)))
                (section("protocols", "By protocol", &counts(&self.protocols)))
                (section("tls", "By version of TLS", &counts(&self.tls)))
                (section("clients", "Clients with most connections", &counts(&self.clients)))
            }
            (section("oldest", "The oldest", &table(&["client", "age", "state", "protocol", "TLS", "requests"], &oldest)))
        }
    }
}
