//! The page of the activity: periods to choose from, tiles, charts, starts and stops, and a table for those who do not see the charts.

use maud::{Markup, html};
use sluice_report::activity::{self, Activity, Bar, Period};
use sluice_report::text;

use crate::action::Buttons;
use crate::columns::{Column, Columns, Layer};
use crate::html::{Mark, figure, scrolling_table, section, table, tile, tiles, trouble};
use crate::view::View;

impl View for Activity {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        html! {
            (periods(self))
            (glance(self))
            (section("requests", "Requests", &requests(self)))
            (section("bytes", "Bytes", &bytes(self)))
            (section("most", "Requests in progress and connections, at most", &most(self)))
            (section("marks", "Starts and stops", &marks(self)))
            (section("table", "As a table", &as_table(self)))
            (kept(self))
        }
    }
}

fn periods(activity: &Activity) -> Markup {
    let length = activity.end() - activity.total.start;
    let last = activity.end() - 1;
    let is_present = activity.end() > activity.now;
    html! {
        p.periods {
            @for period in Period::ALL {
                @let is_current = (period == activity.shown).then_some("true");
                a href=(href(period, (!is_present).then_some(last))) aria-current=[is_current] { (period.title()) } " "
            }
        }
        p {
            (short(activity.total.start)) " to " (short(activity.end().min(activity.now))) " (UTC)"
            @if activity.shown != Period::All || !is_present {
                " · "
                a rel="prev" href=(href(activity.shown, Some(last.saturating_sub(length)))) { "earlier" } " "
            }
            @if !is_present {
                @let later = last + length;
                a rel="next" href=(href(activity.shown, (later < activity.now).then_some(later))) { "later" } " "
                a href=(href(activity.shown, None)) { "now" }
            }
        }
    }
}

fn glance(activity: &Activity) -> Markup {
    let total = &activity.total;
    // Exact below 2^53.
    #[allow(clippy::cast_precision_loss)]
    let rate = total.requests as f64 / total.measured_seconds.max(1) as f64;
    let whole = activity.end().min(activity.now).saturating_sub(total.start);
    let errors = total.by_class[4];
    html! {
        (tiles(&[
            tile("requests", text::number(total.requests), format!("{} a second while it ran", text::rate(rate))),
            tile("server errors", text::number(errors), format!("{} of all", text::share(errors, total.requests)))
                .marked(Mark::trouble_if_any(errors)),
            tile("sent", text::bytes(total.sent_bytes), format!("received {}", text::bytes(total.received_bytes))),
            tile("in progress", text::number(total.in_progress_max.into()), "requests at once, at most"),
            tile("connections", text::number(total.connections_max.into()), "at once, at most"),
            tile("running", text::share(total.measured_seconds.min(whole), whole), ends(activity))
                .marked(Mark::trouble_if_any(total.crashes.into())),
        ]))
    }
}

fn ends(activity: &Activity) -> String {
    let starts = text::counted(activity.total.starts.into(), "start", "starts");
    match activity.total.crashes {
        0 => starts,
        crashes => format!("{starts}, {}", text::counted(crashes.into(), "crash", "crashes")),
    }
}

fn requests(activity: &Activity) -> Markup {
    let label = "requests, and in red those with a status of 500 or more";
    let layers = [
        Layer::new("bar", "requests", |bar| bar.requests),
        Layer::new("bad", "server errors", |bar| bar.by_class[4]),
    ];
    chart(activity, label, text::number, &layers)
}

fn bytes(activity: &Activity) -> Markup {
    let label = "bytes sent, and in another colour those received";
    let layers = [
        Layer::new("bar", "sent", |bar| bar.sent_bytes),
        Layer::new("second", "received", |bar| bar.received_bytes),
    ];
    chart(activity, label, text::bytes, &layers)
}

fn most(activity: &Activity) -> Markup {
    let label = "connections, and in another colour requests in progress";
    let layers = [
        Layer::new("bar", "connections", |bar| bar.connections_max.into()),
        Layer::new("second", "in progress", |bar| bar.in_progress_max.into()),
    ];
    chart(activity, label, text::number, &layers)
}

fn chart(activity: &Activity, label: &str, shown: fn(u64) -> String, layers: &[Layer]) -> Markup {
    let columns: Vec<Column<'_>> = activity
        .buckets
        .iter()
        .map(|bucket| Column {
            bucket,
            title: format!("{} {}", short(bucket.start), title(bucket, shown, layers)),
            is_gap: !bucket.has_run() && bucket.start < activity.now,
            href: finer(activity, bucket),
        })
        .collect();
    let quarters = (0..=4).map(|quarter| activity.total.start + quarter * (activity.end() - activity.total.start) / 4);
    let times: Vec<String> = quarters.map(|time| axis(activity, time)).collect();
    Columns {
        label: &format!("{label}, for each {}", activity.shown.bucket_text()),
        columns: &columns,
        layers,
        shown,
        times: &times,
    }
    .render()
}

fn title(bucket: &Bar, shown: fn(u64) -> String, layers: &[Layer]) -> String {
    if !bucket.has_run() {
        return "the server did not run".to_owned();
    }
    let values = layers
        .iter()
        .map(|layer| format!("{} {}", layer.name, shown((layer.value)(bucket))));
    let mut parts: Vec<String> = values.collect();
    for (name, count) in [
        ("starts", bucket.starts),
        ("stops", bucket.stops),
        ("crashes", bucket.crashes),
    ] {
        parts.extend((count > 0).then(|| format!("{name} {count}")));
    }
    parts.join(", ")
}

/// The address of the page that divides a bar into more bars; `None` for the finest page.
fn finer(activity: &Activity, bucket: &Bar) -> Option<String> {
    let last = bucket.start + activity.bucket_seconds - 1;
    let finer = activity.shown.finer()?;
    Some(href(finer, (last < activity.now).then_some(last)))
}

/// A time below the charts: hours, or days.
fn axis(activity: &Activity, time: u64) -> String {
    let short = short(time);
    let (day, clock) = short.split_once(' ').unwrap_or((&short, ""));
    match activity.shown {
        Period::Hour | Period::Day => clock,
        Period::Week | Period::All => day,
    }
    .to_owned()
}

fn marks(activity: &Activity) -> Markup {
    let row = |mark: &activity::Mark| {
        let text = match mark.what {
            "start" => "started",
            "stop" => "stopped",
            _ => "ended without a stop: a crash, SIGKILL, or a power failure",
        };
        [
            html! { a.time href=(href(Period::Hour, Some((mark.time + 1800).min(activity.now)))) { (short(mark.time)) } },
            html! { span.(mark.what) { (text) } @if mark.count > 1 { " " (mark.count) " times" } },
        ]
    };
    table(["minute", ""], activity.marks.iter().map(row))
}

fn as_table(activity: &Activity) -> Markup {
    let number = |value: u64| figure(text::number(value));
    let row = |bucket: &Bar| {
        let [_, success, redirects, client, server] = bucket.by_class;
        [
            html! {
                @if let Some(href) = finer(activity, bucket) { a.time href=(href) { (short(bucket.start)) } } @else { span.time { (short(bucket.start)) } }
            },
            number(bucket.requests),
            number(success),
            number(redirects),
            number(client),
            figure(trouble(server)),
            figure(text::bytes(bucket.sent_bytes)),
            figure(text::bytes(bucket.received_bytes)),
            number(bucket.in_progress_max.into()),
            number(bucket.connections_max.into()),
        ]
    };
    let ran = activity.buckets.iter().rev().filter(|bucket| bucket.has_run());
    html! {
        details {
            summary { "A row for each " (activity.shown.bucket_text()) " in which the server ran, the newest first" }
            (scrolling_table(
                ["from (UTC)", "requests", "2xx", "3xx", "4xx", "5xx", "sent", "received", "in progress", "connections"], ran.map(row)))
        }
    }
}

fn kept(activity: &Activity) -> Markup {
    html! {
        @if let Some(problem) = &activity.kept.problem {
            p.warning { "Not kept at present: " (problem) ". The server tries again each minute." }
        }
        p.faint {
            @match &activity.kept.file {
                Some(file) => { "Kept for 28 days in " code { (file) } ", which is written once a minute." }
                None => { "Kept in memory, since the start of the server; a server with a configuration keeps it in a file (" code { "state_directory" } ")." }
            }
            " A response counts in the minute in which it ends."
        }
    }
}

/// The page of a period, up to a second since 1970, or up to now.
fn href(period: Period, end: Option<u64>) -> String {
    match end {
        Some(end) => format!("activity?view={}&end={end}", period.name()),
        None => format!("activity?view={}", period.name()),
    }
}

/// A time without year and seconds: `11-22 14:05`.
fn short(time: u64) -> String {
    text::moment(time).get(5..16).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use sluice_report::activity::{Minute, Storage};

    use super::*;

    const NOW: u64 = 1_795_330_085;
    const MINUTE: u32 = 29_922_168;

    #[test]
    fn the_page_has_charts_and_a_table_without_anything_inline() {
        let minute = Minute {
            requests: 1234,
            by_class: [0, 1234, 0, 0, 1],
            seconds: 60,
            ..Minute::new(MINUTE)
        };
        for period in Period::ALL {
            let page = View::html(
                &Activity::new(period, MINUTE, &[minute], NOW, Storage::default()),
                &Buttons { token: "", page: "activity" },
            )
            .into_string();
            for expected in ["<svg", "1,234", "aria-current=\"true\"", "<details>", "did not run"] {
                assert!(page.contains(expected), "{period:?}: no {expected}");
            }
            assert!(!page.contains("style="), "{period:?}");
        }
    }
}
