//! The page of the statistics.

use std::time::Duration;

use maud::{Markup, html};
use sluice_report::histogram::Times;
use sluice_report::statistics::Statistics;
use sluice_report::text;
use sluice_report::traffic::Counts;

use crate::action::Buttons;
use crate::chart::Bars;
use crate::html::{Mark, fact, facts, figure, section, table, tile, tiles};
use crate::view::View;

impl View for Statistics {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        let traffic = &self.traffic;
        let seconds = self.now.saturating_sub(traffic.since).max(1);
        // Exact below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let rate = traffic.exchanges as f64 / seconds as f64;
        html! {
            p { "Exchanges that have ended since " (text::moment(traffic.since)) "." }
            (tiles(&[
                tile("exchanges", text::number(traffic.exchanges), format!("{} a second on average", text::rate(rate))),
                tile("received", text::bytes(traffic.received_bytes), "bodies of requests"),
                tile("sent", text::bytes(traffic.sent_bytes), "bodies of responses"),
                tile("incomplete", text::number(traffic.truncated), "responses that were broken off")
                    .marked(Mark::trouble_if_any(traffic.truncated)),
            ]))
            div.row {
                (counts("answers", "Answered by", &traffic.answers))
                (counts("statuses", "Statuses", &traffic.statuses))
                (counts("methods", "Methods", &traffic.methods))
                (counts("versions", "Protocols", &traffic.versions))
                (counts("encryption", "Encryption", &traffic.encryption))
            }
            (times("first-byte", "Time to the first byte", &traffic.first_byte))
            (times("whole", "Time to the last byte", &traffic.whole))
            p.faint { "Times begin when the head of the request has been read, and end when the bytes are handed to the connection. Percentiles are exact to 6 %." }
            (buttons.button("reset-statistics", "Begin to count again"))
        }
    }
}

/// A table of counts, the greatest first, with their shares.
fn counts(id: &str, title: &str, counts: &Counts) -> Markup {
    let whole: u64 = counts.values().sum();
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let rows = sorted.into_iter().map(|(name, count)| {
        let is_error = id == "statuses" && name.starts_with('5');
        [
            html! { span.trouble[is_error] { (name) } },
            figure(text::number(*count)),
            figure(text::share(*count, whole)),
        ]
    });
    section(id, title, &table(["", "count", "share"], rows))
}

fn times(id: &str, title: &str, times: &Times) -> Markup {
    let classes = times.doublings();
    let shown = |seconds: f64| text::time(Duration::from_secs_f64(seconds.max(0.0)));
    let percentiles = times.percentiles.iter();
    let percentiles = percentiles.map(|part| fact(format!("{} %", part.percent), shown(part.seconds)));
    let average = fact("average".to_owned(), shown(times.average()));
    let bars: Vec<u64> = classes.iter().map(|class| class.count).collect();
    let least = classes.first().map_or(0.0, |class| class.below_seconds / 2.0);
    let most = classes.last().map_or(0.0, |class| class.below_seconds);
    // The classes double, so that equal distances are equal factors.
    let marks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| shown(least * (most / least).powf(part)));
    let chart = Bars {
        label: &format!("{title}: exchanges in classes of times that double"),
        values: &bars,
        bad: &[],
        shown: &|value| text::counted(value, "exchange", "exchanges"),
        marks: &marks,
    };
    section(
        id,
        title,
        &html! {
            @if classes.is_empty() { p { "none yet" } }
            @else {
                p.faint { "The scale is logarithmic: each column reaches twice as far as the one before it." }
                div.beside { (chart.render()) (facts(percentiles.chain([average]))) }
            }
        },
    )
}
