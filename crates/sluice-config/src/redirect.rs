//! `[[site.route]].redirect` and `[[site.route]].refuse`: answers that need neither a file nor a script.

use std::time::Duration;

use sluice_settings::rule::{Adjustments, Pattern, Replacement};
use sluice_settings::{Action, RefusalSettings};

use super::key::{Key, Section, at_least, between, set};
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
            Ok(to) => Some(Action::Redirect { to, status: self.status }),
            Err(message) => {
                table.refuse("to", &message);
                None
            }
        }
    }
}

pub(super) static REDIRECT: Section<Draft> = Section {
    title: "[[site.route]].redirect",
    keys: &[
        Key::required(Key::text("to", |redirect, to, _| set(&mut redirect.to, to))),
        Key::code("status", &[301, 302, 303, 307, 308], |redirect, status| {
            redirect.status = status;
        }),
    ],
};

/// The refusal of a section without keys.
pub(super) fn default_refusal() -> RefusalSettings {
    RefusalSettings { status: 403, text: None, retry_after: None }
}

pub(super) static REFUSE: Section<RefusalSettings> = Section {
    title: "[[site.route]].refuse",
    keys: &[
        Key::number(
            "status",
            "a status",
            between(400, 599, "those are the statuses of errors; redirect has others"),
            |refusal, status| refusal.status = u16::try_from(status).unwrap_or(refusal.status),
        ),
        Key::text("text", |refusal, text, _| set(&mut refusal.text, text)),
        Key::duration(
            "retry_after",
            at_least(1000, "it is sent in whole seconds"),
            set_retry_after,
        ),
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
