//! The first page: an operator's view at a glance.

use maud::{Markup, Render, html};
use sluice_report::overview::{LastMinute, Overview};
use sluice_report::status::{CertificateStatus, Status};
use sluice_report::text;

use crate::action::Buttons;
use crate::chart::Bars;
use crate::html::{Mark, fact, facts, section, table, tile, tiles, trouble};
use crate::view::View;

impl View for Overview {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            (glance(self))
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

fn glance(overview: &Overview) -> Markup {
    let Status { connections, requests, processes, cache, .. } = &overview.status;
    let minute = &overview.minute;
    let errors: u64 = minute.server_errors.iter().sum();
    let sent = text::bytes(whole(LastMinute::now(&minute.body_bytes)));
    let at_most = |max: usize| format!("of {} at most", text::number(max as u64));
    let open = usize::try_from(connections.open).unwrap_or(usize::MAX);
    let cache = match cache {
        Some(cache) => {
            let files = text::counted(cache.files, "file", "files");
            let about = format!("{files}, {}", text::bytes(cache.bytes));
            tile("cache hits", text::share(cache.hits, cache.hits + cache.misses), about)
        }
        None => tile("cache hits", "–", "the file cache is off"),
    };
    html! {
        (tiles(&[
            tile("requests a second", text::rate(LastMinute::now(&minute.requests)), "average of 10\u{a0}s"),
            tile("in progress", text::number(requests.in_progress), format!("of {} in all", text::number(requests.total))),
            tile("server errors", text::number(errors), "statuses from 500 in the last minute").marked(Mark::trouble_if_any(errors)),
            tile("sent", format!("{sent}/s"), "bodies, average of 10\u{a0}s"),
            tile("connections", text::number(connections.open), at_most(connections.max))
                .marked(Mark::of_use(open, connections.max)),
            tile("script processes", text::number(processes.running as u64), at_most(processes.max))
                .marked(Mark::of_use(processes.running, processes.max)),
            cache,
            tile("up", text::uptime(overview.uptime_seconds), format!("since {}", text::moment(overview.status.started))),
        ]))
    }
}

/// Seconds of the chart; those before the start of the server are empty.
const SECONDS: usize = 60;

fn chart(overview: &Overview) -> Markup {
    let whole_minute = |values: &[u64]| {
        let before = SECONDS.saturating_sub(values.len());
        let shown = values.iter().skip(values.len().saturating_sub(SECONDS));
        std::iter::repeat_n(0, before)
            .chain(shown.copied())
            .collect::<Vec<u64>>()
    };
    let ago = |quarter: usize| match SECONDS - quarter * SECONDS / 4 {
        0 => "now".to_owned(),
        seconds => format!("{seconds}\u{a0}s ago"),
    };
    Bars {
        label: "requests in each second of the last minute, and in red those with a status of 500 or more",
        values: &whole_minute(&overview.minute.requests),
        bad: &whole_minute(&overview.minute.server_errors),
        shown: &|value| format!("{} a second", text::number(value)),
        marks: &[0, 1, 2, 3, 4].map(ago),
    }
    .render()
}

fn responses(overview: &Overview) -> Markup {
    let requests = &overview.status.requests;
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(requests.by_class);
    let shown = classes.filter(|(_, count)| *count > 0);
    let mut rows: Vec<_> = shown
        .map(|(class, count)| match class {
            "5xx" => fact(class, trouble(count)),
            class => fact(class, text::number(count)),
        })
        .collect();
    let left = requests.client_left;
    rows.extend((left > 0).then(|| fact("client left before", text::number(left))));
    rows.extend((requests.truncated > 0).then(|| fact("incomplete", trouble(requests.truncated))));
    rows.push(fact("bytes of bodies", text::bytes(requests.body_bytes)));
    facts(rows)
}

fn server(overview: &Overview, buttons: &Buttons<'_>) -> Markup {
    let status = &overview.status;
    html! {
        (facts([
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
    let row = |certificate: &CertificateStatus| {
        let class = certificate.is_urgent(now).then_some("bad");
        [
            certificate.hosts.join(", ").render(),
            html! { span class=[class] { (certificate.life(now)) } },
            text::moment(certificate.expires).render(),
            html! { code { (certificate.file) } },
        ]
    };
    let certificates = overview.status.certificates.iter();
    table(["hosts", "life", "ends", "file"], certificates.map(row))
}

fn whole(value: f64) -> u64 {
    // Never negative, and far below 2^63.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = value.round() as u64;
    whole
}
