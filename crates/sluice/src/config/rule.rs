//! The keys of a route that say for whom it is and what it changes: from its section to the server's values.
//!
//! The values read themselves (`sluice_settings::rule`), and say what is wrong with a text; here it is said where. Not here: what
//! answers (`route`), what routes mean together (`reach`).

use std::sync::Arc;

use sluice_settings::rule::{BodyBounds, Changes, Conditions, Expiry, FieldChange, Scheme};
use sluice_settings::{Action, CacheUse};

use super::section::Section;
use super::value::parse_duration;

/// What must hold beside the path.
pub(super) fn read_when(route: &Section<'_>) -> Conditions {
    let mut when = Conditions::default();
    let Some(section) = route.table("when") else {
        return when;
    };
    let read = |name: &'static str, put: &mut dyn FnMut(&mut dyn Iterator<Item = &str>) -> Result<(), String>| {
        if let Some(words) = section.words(name)
            && let Err(message) = put(&mut words.iter().map(String::as_str))
        {
            section.refuse(name, &message);
        }
    };
    read("method", &mut |words| when.on_method(words));
    read("host", &mut |words| when.on_host(words));
    read("client", &mut |words| when.on_client(words));
    match section.choice("scheme").map(|scheme| scheme.value) {
        Some("http") => when.on_scheme(Scheme::Http),
        Some(_) => when.on_scheme(Scheme::Https),
        None => {}
    }
    for (name, value) in section.pairs("header").unwrap_or_default() {
        if let Err(message) = when.on_field(&name, &value.value) {
            section.document.complain(value.line, format!("header: {message}"));
        }
    }
    for (name, value) in section.pairs("query").unwrap_or_default() {
        when.on_parameter(&name, &value.value);
    }
    if when.is_empty() && !section.has_any() {
        let message = "when = {}: holds always: remove it, or say what must hold, as in when = { method = \"POST\" }";
        section.document.complain(section.line, message);
    }
    when
}

/// What changes for whatever answers; what is compressed or kept in the cache has been read elsewhere (`compression`, `pages`).
pub(super) fn read_changes(route: &Section<'_>, compress: Option<bool>, cache: Option<CacheUse>) -> Changes {
    Changes {
        is_logged: route.flag("log").map(|log| log.value),
        body: read_bounds(route),
        compress,
        cache,
        expiry: read_expiry(route),
        fields: read_fields(route),
    }
}

fn read_bounds(route: &Section<'_>) -> BodyBounds {
    let Some(section) = route.table("limits") else {
        return BodyBounds::default();
    };
    BodyBounds {
        bytes_max: section.size("body_size").map(|size| size.value),
        timeout: section.duration("body_timeout").map(|timeout| timeout.value),
        bytes_per_second_min: section.size("body_rate").map(|rate| rate.value),
    }
}

fn read_expiry(route: &Section<'_>) -> Option<Expiry> {
    let text = route.text("expires")?.value;
    Some(match text.as_str() {
        "no-cache" => Expiry::NoCache,
        "no-store" => Expiry::NoStore,
        "immutable" => Expiry::Immutable,
        "off" => Expiry::Off,
        duration => match parse_duration(duration) {
            Ok(age) => Expiry::Age(age),
            Err(_) => {
                route.refuse(
                    "expires",
                    "must be a duration, as in \"1h\", or \"no-cache\", \"no-store\", \"immutable\" or \"off\"",
                );
                return None;
            }
        },
    })
}

fn read_fields(route: &Section<'_>) -> Arc<[FieldChange]> {
    let Some(section) = route.table("headers") else {
        return Arc::default();
    };
    let mut changes = Vec::new();
    for name in section.words("remove").unwrap_or_default() {
        match FieldChange::remove(&name) {
            Ok(change) => changes.push(change),
            Err(message) => section.refuse("remove", &message),
        }
    }
    for (key, make) in [
        ("set", FieldChange::set as fn(&str, &str) -> _),
        ("add", FieldChange::add),
    ] {
        for (name, value) in section.pairs(key).unwrap_or_default() {
            let is_again = |own: &FieldChange| matches!(own, FieldChange::Set(own, _) if *own == name.as_str());
            match make(&name, &value.value) {
                Ok(FieldChange::Set(field, _)) if changes.iter().any(is_again) => {
                    let message = format!("set: \"{field}\" stands there twice, in other letters: remove one");
                    section.document.complain(value.line, message);
                }
                Ok(change) => changes.push(change),
                Err(message) => section.document.complain(value.line, format!("{key}: {message}")),
            }
        }
    }
    changes.into()
}

/// Statuses that mean nothing without a field, and a value that it may have (RFC 9110 §15.5).
const NEEDED: [(u16, &str, &str); 3] = [
    (401, "WWW-Authenticate", "Basic"),
    (405, "Allow", "GET, HEAD"),
    (407, "Proxy-Authenticate", "Basic"),
];

/// Notes a refusal whose status must come with a field that the route does not set.
pub(super) fn check_refusal(route: &Section<'_>, action: Option<&Action>, changes: &Changes) {
    let Some(Action::Refuse(refusal)) = action else { return };
    let needed = NEEDED.iter().find(|(status, ..)| *status == refusal.status);
    if let Some((_, field, example)) = needed
        && !changes.fields.iter().any(|change| change.name() == field)
    {
        let message = format!(
            "a {} must tell {field}, or clients cannot make anything of it: write headers = {{ set = {{ {field} = \"{example}\" }} }} beside it, or another status",
            refusal.status
        );
        route.document.complain(route.line_of("refuse"), message);
    }
}
