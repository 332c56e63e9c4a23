//! The page of the connections.

use maud::{Markup, Render, html};
use sluice_report::connections::{Connection, ConnectionList, Count};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{fact, facts, figure, section, table};
use crate::view::View;

impl View for ConnectionList {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let count = |count: &Count| fact(count.name.clone(), text::number(count.count as u64));
        let counts = |counts: &[Count]| facts(counts.iter().map(count));
        let old = |connection: &Connection| {
            [
                connection.client.render(),
                figure(text::uptime(connection.age_ms / 1000)),
                connection.state.render(),
                connection.protocol.render(),
                connection.tls.render(),
                figure(text::number(connection.requests.into())),
            ]
        };
        let oldest = self.oldest.iter().map(old);
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
            (section("oldest", "The oldest", &table(["client", "age", "state", "protocol", "TLS", "requests"], oldest)))
        }
    }
}
