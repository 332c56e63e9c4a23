//! `[[site.route]].throttle`: how many requests are answered at once.

use std::time::Duration;

use sluice_settings::rule::{ThrottlePer, ThrottleSettings};

use super::description::Fallback::{Required, Value};
use super::key::{Bounds, Key, Kind, Section, at_least};
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
    text: "How many requests are answered at once, from the request to the end of its response; further ones wait, and when the queue is \
           full they get 503. See [Access control](../guides/access.md#limits-on-requests).",
    keys: &[
        Key {
            name: "at_once",
            kind: Kind::Number {
                unit: "requests",
                bounds: Bounds {
                    least: 1,
                    most: REQUESTS_MAX,
                    hint: "",
                },
                set: |throttle, count| throttle.at_once = to_usize(count),
            },
            default: Required,
            text: "Requests that are answered at once.",
            example: "10",
        },
        Key {
            name: "queue",
            kind: Kind::Number {
                unit: "requests",
                bounds: Bounds {
                    least: 0,
                    most: REQUESTS_MAX,
                    hint: "",
                },
                set: |throttle, count| throttle.queue = to_usize(count),
            },
            default: Value("0"),
            text: "Further requests that wait. Beyond that: 503 with Retry-After.",
            example: "50",
        },
        Key {
            name: "queue_timeout",
            kind: Kind::Duration(at_least(1, "nothing could wait"), |throttle, time| {
                throttle.queue_timeout = time;
            }),
            default: Value("\"10s\""),
            text: "How long a request waits at most; then it gets 503.",
            example: "\"1m\"",
        },
        Key {
            name: "per",
            kind: Kind::Choice(&[
                ("route", |throttle| throttle.per = ThrottlePer::Route),
                ("client", |throttle| throttle.per = ThrottlePer::Client),
                ("user", |throttle| throttle.per = ThrottlePer::User),
            ]),
            default: Value("\"route\""),
            text: "Whether all requests of the route are counted together, or those of each client address (IPv6: each network of 64 \
                   bits), or those of each user; without a user, of each address.",
            example: "\"client\"",
        },
    ],
};
