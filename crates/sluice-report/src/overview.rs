//! The overview: what an operator wants to see at a glance.

use maud::{Markup, html};
use serde::Serialize;

use crate::action::Buttons;
use crate::chart::Bars;
use crate::html::{fact, facts, section, tile};
use crate::status::Status;
use crate::text;
use crate::view::View;

/// What is seen at a glance.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// The process id of the server.
    pub pid: u32,
    /// The configuration file; `None` if the command line says everything.
    pub configuration: Option<String>,
    /// The last minute.
    pub minute: Minute,
    /// The state of the server.
    #[serde(flatten)]
    pub status: Status,
}

/// What happened in each of the last seconds, at most 60, the oldest first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Minute {
    /// Requests whose head was read.
    pub requests: Vec<u64>,
    /// Responses with a status of 500 or more.
    pub server_errors: Vec<u64>,
    /// Bytes of the bodies of responses.
    pub body_bytes: Vec<u64>,
}

impl Minute {
    /// The average of the last seconds of a list, at most 10.
    #[must_use]
    pub fn now(values: &[u64]) -> f64 {
        const SECONDS: usize = 10;
        let last = &values[values.len().saturating_sub(SECONDS)..];
        // Exact below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let average = last.iter().sum::<u64>() as f64 / last.len().max(1) as f64;
        average
    }
}

impl View for Overview {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        let Status {
            connections,
            requests,
            processes,
            cache,
            ..
        } = &self.status;
        let minute = &self.minute;
        let errors: u64 = minute.server_errors.iter().sum();
        html! {
            div.tiles {
                (tile("requests a second", &text::rate(Minute::now(&minute.requests)), "average of 10 s"))
                (tile("in progress", &text::number(requests.in_progress), &format!("of {} in all", text::number(requests.total))))
                (tile("server errors", &text::number(errors), "statuses from 500 in the last minute"))
                (tile("sent", &format!("{}/s", text::bytes(whole(Minute::now(&minute.body_bytes)))), "bodies, average of 10 s"))
                (tile("connections", &text::number(connections.open), &format!("of {} at most", text::number(connections.max as u64))))
                (tile("script processes", &text::number(processes.running as u64), &format!("of {} at most", text::number(processes.max as u64))))
                @if let Some(cache) = cache {
                    (tile("cache hits", &text::share(cache.hits, cache.hits + cache.misses), &format!("{} files, {}", text::number(cache.files), text::bytes(cache.bytes))))
                }
                (tile("up", &text::uptime(self.uptime_seconds), &format!("since {}", text::moment(self.status.started))))
            }
            (section("minute", "Requests in the last minute", &self.chart()))
            div.columns {
                (section("responses", "Responses since the start", &self.responses()))
                (section("server", "Server", &self.server(buttons)))
            }
        }
    }
}

impl Overview {
    fn chart(&self) -> Markup {
        let values = &self.minute.requests;
        let greatest = values.iter().copied().max().unwrap_or(0);
        Bars {
            label: "requests in each second of the last minute",
            values,
            greatest: &format!("{} a second", text::number(greatest)),
            first: &format!("{} s ago", values.len()),
            last: "now",
        }
        .render()
    }

    fn responses(&self) -> Markup {
        let requests = &self.status.requests;
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        let mut rows: Vec<_> = classes
            .iter()
            .zip(requests.by_class)
            .filter(|(_, count)| *count > 0)
            .map(|(class, count)| fact(class, text::number(count)))
            .collect();
        for (name, count) in [
            ("client left before", requests.client_left),
            ("incomplete", requests.truncated),
        ] {
            rows.extend((count > 0).then(|| fact(name, text::number(count))));
        }
        rows.push(fact("bytes of bodies", text::bytes(requests.body_bytes)));
        facts(&rows)
    }

    fn server(&self, buttons: &Buttons<'_>) -> Markup {
        let status = &self.status;
        html! {
            (facts(&[
                fact("process id", self.pid),
                fact("workers", status.workers),
                fact("listening", html! { @for address in &status.addresses { (address) br; } }),
                fact("configuration", self.configuration.as_deref().unwrap_or("the command line")),
            ]))
            (buttons.button("reload", "Reload the configuration"))
        }
    }
}

fn whole(value: f64) -> u64 {
    // Never negative, and far below 2^63.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = value.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        for (values, expected) in [
            (&[][..], 0.0),
            (&[4, 6], 5.0),
            (&[1000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 1.0),
        ] {
            assert!((Minute::now(values) - expected).abs() < 1e-9, "{values:?}");
        }
    }
}
