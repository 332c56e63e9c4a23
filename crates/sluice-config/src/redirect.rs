//! `[[site.route]].redirect` and `[[site.route]].refuse`: answers that need neither a file nor a script.

use std::time::Duration;

use sluice_settings::rule::{Adjustments, Pattern, Replacement};
use sluice_settings::{Action, RefusalSettings};

use super::description::Fallback::{Required, Value, Words};
use super::key::{Bounds, Key, Kind, Section, at_least};
use super::table::Table;

/// `[[site.route]].redirect` while it is read.
pub(super) struct Draft {
    to: Option<String>,
    status: u16,
}

impl Default for Draft {
    fn default() -> Self {
        Draft { to: None, status: 302 }
    }
}

impl Draft {
    /// `None` if the target or the pattern is wrong.
    pub(super) fn finish(self, pattern: Option<&Pattern>, table: &Table<'_>) -> Option<Action> {
        match Replacement::redirect(&self.to?, pattern?) {
            Ok(to) => Some(Action::Redirect {
                to,
                status: self.status,
            }),
            Err(message) => {
                table.refuse("to", &message);
                None
            }
        }
    }
}

pub(super) static REDIRECT: Section<Draft> = Section {
    title: "[[site.route]].redirect",
    text: "Redirects the client.",
    keys: &[
        Key {
            name: "to",
            kind: Kind::Text(|redirect, to, _| {
                redirect.to = Some(to);
                Ok(())
            }),
            default: Required,
            text: "The new address: a path, or a URL that begins with `https://` or `http://`. `$1`, `$2` … are replaced by the text \
                   that the stars of the pattern or the groups of the regex matched, `${name}` by the group of that name, `*` like `$1`, and \
                   `${query}` by the query. If the new address has no `?`, the query is appended.",
            example: "\"https://example.org/$1\"",
        },
        Key {
            name: "status",
            kind: Kind::Code(&[301, 302, 303, 307, 308], |redirect, status| redirect.status = status),
            default: Value("302"),
            text: "301 and 308 are permanent, and browsers remember them; 302, 303 and 307 are temporary. 307 and 308 keep the method; \
                   303 changes it to GET.",
            example: "308",
        },
    ],
};

/// The refusal of a section without keys.
pub(super) fn default_refusal() -> RefusalSettings {
    RefusalSettings {
        status: 403,
        text: None,
        retry_after: None,
    }
}

pub(super) static REFUSE: Section<RefusalSettings> = Section {
    title: "[[site.route]].refuse",
    text: "Answers with an error: a page, JSON or text, as for every [request that fails](../guides/listings-and-error-pages.md#error-pages).",
    keys: &[
        Key {
            name: "status",
            kind: Kind::Number {
                unit: "a status",
                bounds: Bounds {
                    least: 400,
                    most: 599,
                    hint: "those are the statuses of errors; redirect has others",
                },
                // The bounds fit.
                set: |refusal, status| refusal.status = u16::try_from(status).unwrap_or(refusal.status),
            },
            default: Value("403"),
            text: "The status. 401, 405 and 407 also need a field (`WWW-Authenticate`, `Allow`, `Proxy-Authenticate`): set it \
                   with `headers`.",
            example: "503",
        },
        Key {
            name: "text",
            kind: Kind::Text(|refusal, text, _| {
                refusal.text = Some(text);
                Ok(())
            }),
            default: Words("a sentence about the status"),
            text: "The explanation on the page.",
            example: "\"We are back at noon.\"",
        },
        Key {
            name: "retry_after",
            kind: Kind::Duration(at_least(1000, "it is sent in whole seconds"), set_retry_after),
            default: Words("none"),
            text: "When the client should try again (`Retry-After`).",
            example: "\"1h\"",
        },
    ],
};

fn set_retry_after(refusal: &mut RefusalSettings, after: Duration) {
    refusal.retry_after = Some(after);
}

/// Statuses that require a field, and a value that it may have (RFC 9110 §15.5).
const REQUIRED_FIELDS: [(u16, &str, &str); 3] = [
    (401, "WWW-Authenticate", "Basic"),
    (405, "Allow", "GET, HEAD"),
    (407, "Proxy-Authenticate", "Basic"),
];

/// Reports a refusal whose status requires a field that the route does not set.
pub(super) fn check_refusal(action: Option<&Action>, changes: &Adjustments, route: &Table<'_>) {
    let Some(Action::Refuse(refusal)) = action else { return };
    let required = REQUIRED_FIELDS.iter().find(|(status, ..)| *status == refusal.status);
    if let Some((_, field, example)) = required
        && !changes.head.field_changes().any(|change| change.name() == field)
    {
        let message = format!(
            "a {} response must have the field {field}: write headers = {{ set = {{ {field} = \"{example}\" }} }} beside it, or another status",
            refusal.status
        );
        route.document.report(route.line_of("refuse"), message);
    }
}
