//! `reports = true` of `[[site.route]]`: what such a route needs beside it.

use sluice_settings::Action;
use sluice_settings::rule::{AccessEntry, AccessRule, AccessUse, Adjustments, Pattern, Require};

use super::route::actions;
use super::table::Table;

/// Reports a route with reports whose paths or access rules do not fit, and one whose reports are off.
pub(super) fn check(action: Option<&Action>, pattern: Option<&Pattern>, changes: &Adjustments, table: &Table<'_>) {
    match action {
        Some(Action::Reports) => {}
        // Another action, or a mistake about several, is reported elsewhere.
        None if is_off(table) && is_alone(table) => {
            return table.refuse(
                "reports",
                "a route without an answer: remove it, or write reports = true",
            );
        }
        _ => return,
    }
    let is_prefix = |pattern: &Pattern| {
        let Pattern::Wildcard(path) = pattern else { return false };
        let path = path.to_string();
        path.ends_with("/*") && path.matches('*').count() == 1
    };
    if pattern.is_some_and(|pattern| !is_prefix(pattern)) {
        table.refuse(
            "reports",
            "every report has a name of its own: write path = \"/-/*\", or another path that ends with \"/*\"",
        );
    }
    if let Some(AccessUse::Limited(access)) = &changes.access.own
        && [&access.read, &access.write].into_iter().any(admits_everybody)
    {
        table.refuse(
            "reports",
            "\"all\" in access lets everybody who reaches this address read paths and users, watch requests, and end the server: name users, as in \
             access = { users = \"FILE\" }, or networks, as in access = { allow = [\"net:192.0.2.0/24\"] }",
        );
    }
    // A mistake in `access` itself is reported there.
    let is_limited = matches!(changes.access.own, Some(AccessUse::Limited(_)));
    let is_wrong = changes.access.own.is_none() && table.has("access");
    if !is_limited && !is_wrong {
        table.refuse(
            "reports",
            "the reports show paths, users and settings, so the same route must say who may have them: users, as in access = { users = \"FILE\" }, or \
             networks, as in access = { allow = [\"net:192.0.2.0/24\"] }",
        );
    }
}

/// Whether a rule grants without a user, a network or a certificate. An exclusion makes no difference: most are still let in.
fn admits_everybody(rule: &AccessRule) -> bool {
    let is_all = |entry: &AccessEntry| *entry == AccessEntry::All;
    match rule.require {
        Require::Any => rule.entries.iter().any(is_all),
        Require::All => rule.entries.iter().all(is_all),
    }
}

fn is_off(table: &Table<'_>) -> bool {
    let written = table.written("reports");
    written.is_some_and(|written| written.shown().value.ends_with("false"))
}

fn is_alone(table: &Table<'_>) -> bool {
    let mut others = actions().filter(|name| *name != "reports");
    !others.any(|name| table.has(name))
}
