//! Connections of clients.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::action::Buttons;
use crate::html::{fact, facts, section, table};
use crate::text;
use crate::view::View;

/// The connections of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Open now.
    pub open: usize,
    /// The most that may be open.
    pub max: usize,
    /// Accepted since the start.
    pub accepted: u64,
    /// By what they do.
    pub states: Vec<Count>,
    /// By protocol: HTTP/1, HTTP/2; `opening` until it is known.
    pub protocols: Vec<Count>,
    /// By the version of TLS; `none` in clear text.
    pub tls: Vec<Count>,
    /// The ages of the oldest, the oldest first.
    pub oldest: Vec<Connection>,
    /// The addresses with most connections; the first 64 bits of an IPv6 address count as one.
    pub clients: Vec<Count>,
    /// Workers that did not answer in time; their connections are missing.
    pub silent_workers: usize,
}

/// How many there are of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The kind.
    pub name: String,
    /// How many.
    pub count: usize,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The client.
    pub client: String,
    /// Time since it was accepted, milliseconds.
    pub age_ms: u64,
    /// What it does.
    pub state: String,
    /// Its protocol.
    pub protocol: String,
    /// The version of TLS; `none` in clear text.
    pub tls: String,
    /// Requests so far.
    pub requests: u32,
}

impl View for Connections {
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
                html! { (text::uptime(connection.age_ms / 1000)) },
                html! { (connection.state) },
                html! { (connection.protocol) },
                html! { (connection.tls) },
                html! { (text::number(connection.requests.into())) },
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
