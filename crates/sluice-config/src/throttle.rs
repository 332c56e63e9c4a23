//! `[[site.route]].throttle`: how many requests are answered at once.

use std::time::Duration;

use sluice_settings::rule::{ThrottlePer, ThrottleSettings};

use super::key::{Key, Section, at_least, between};
use super::section::to_usize;
use super::table::Table;

/// The greatest number of requests.
const REQUESTS_MAX: u64 = 1_000_000;

/// The section while it is read; `origin` is filled in at its end.
pub(super) fn begin() -> ThrottleSettings {
    ThrottleSettings {
        origin: String::new(),
        at_once: 0,
        queue: 0,
        queue_timeout: Duration::from_secs(10),
        per: ThrottlePer::Route,
    }
}

/// Completes the section. `None` if `at_once` is absent or wrong.
pub(super) fn finish(mut throttle: ThrottleSettings, table: &Table<'_>) -> Option<ThrottleSettings> {
    throttle.origin = table.document.origin(table.line);
    (throttle.at_once > 0).then_some(throttle)
}

pub(super) static THROTTLE: Section<ThrottleSettings> = Section {
    title: "[[site.route]].throttle",
    keys: &[
        Key::required(Key::number(
            "at_once",
            "requests",
            between(1, REQUESTS_MAX, ""),
            |throttle, count| throttle.at_once = to_usize(count),
        )),
        Key::number("queue", "requests", between(0, REQUESTS_MAX, ""), |throttle, count| {
            throttle.queue = to_usize(count);
        }),
        Key::duration("queue_timeout", at_least(1, "nothing could wait"), |throttle, time| {
            throttle.queue_timeout = time;
        }),
        Key::choice(
            "per",
            &[
                ("route", |throttle| throttle.per = ThrottlePer::Route),
                ("client", |throttle| throttle.per = ThrottlePer::Client),
                ("user", |throttle| throttle.per = ThrottlePer::User),
            ],
        ),
    ],
};
