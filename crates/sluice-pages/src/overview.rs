//! The first page: an operator's view at a glance.

use maud::{Markup, html};
use sluice_report::overview::{LastMinute, Overview};
use sluice_report::status::Status;
use sluice_report::text;

use crate::action::Buttons;
use crate::chart::Bars;
use crate::html::{fact, facts, section, table, tile};
use crate::view::View;

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
                (tile("requests a second", &text::rate(LastMinute::now(&minute.requests)), "average of 10 s"))
                (tile("in progress", &text::number(requests.in_progress), &format!("of {} in all", text::number(requests.total))))
                (tile("server errors", &text::number(errors), "statuses from 500 in the last minute"))
                (tile("sent", &format!("{}/s", text::bytes(whole(LastMinute::now(&minute.body_bytes)))), "bodies, average of 10 s"))
                (tile("connections", &text::number(connections.open), &format!("of {} at most", text::number(connections.max as u64))))
                (tile("script processes", &text::number(processes.running as u64), &format!("of {} at most", text::number(processes.max as u64))))
                @if let Some(cache) = cache {
                    (tile("cache hits", &text::share(cache.hits, cache.hits + cache.misses), &format!("{}, {}", text::counted(cache.files, "file", "files"), text::bytes(cache.bytes))))
                }
                (tile("up", &text::uptime(self.uptime_seconds), &format!("since {}", text::moment(self.status.started))))
            }
            @if !self.status.certificates.is_empty() {
                (section("certificates", "Certificates", &certificates(self)))
            }
            (section("minute", "Requests in the last minute", &chart(self)))
            div.columns {
                (section("responses", "Responses since the start", &responses(self)))
                (section("server", "Server", &server(self, buttons)))
            }
        }
    }
}

fn chart(overview: &Overview) -> Markup {
    let values = &overview.minute.requests;
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

fn responses(overview: &Overview) -> Markup {
    let requests = &overview.status.requests;
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

fn server(overview: &Overview, buttons: &Buttons<'_>) -> Markup {
    let status = &overview.status;
    html! {
        (facts(&[
            fact("process id", overview.pid),
            fact("workers", status.workers),
            fact("listening", html! { @for address in &status.addresses { (address) br; } }),
            fact("configuration", overview.configuration.as_deref().unwrap_or("the command line")),
        ]))
        (buttons.button("reload", "Reload the configuration"))
    }
}

/// The certificates, with those that expire soon in the colour of trouble.
fn certificates(overview: &Overview) -> Markup {
    let now = overview.status.started + overview.uptime_seconds;
    let rows: Vec<Vec<Markup>> = overview
        .status
        .certificates
        .iter()
        .map(|certificate| {
            let class = certificate.is_urgent(now).then_some("bad");
            vec![
                html! { (certificate.hosts.join(", ")) },
                html! { span class=[class] { (certificate.life(now)) } },
                html! { (text::moment(certificate.expires)) },
                html! { code { (certificate.file) } },
            ]
        })
        .collect();
    table(&["hosts", "life", "ends", "file"], &rows)
}

fn whole(value: f64) -> u64 {
    // Never negative, and far below 2^63.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = value.round() as u64;
    whole
}
