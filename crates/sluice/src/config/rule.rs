//! The keys of a route that say for whom it is and what it changes: from its section to the server's values.
//!
//! The values read themselves (`sluice_server::rule`), and say what is wrong with a text; here it is said where. Not here: what
//! answers (`route`), what routes mean together (`reach`).

use std::sync::Arc;

use sluice_server::rule::{BodyBounds, Changes, Conditions, Expiry, FieldChange, Scheme};
use sluice_server::settings::CacheUse;

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
            match make(&name, &value.value) {
                Ok(change) => changes.push(change),
                Err(message) => section.document.complain(value.line, format!("{key}: {message}")),
            }
        }
    }
    changes.into()
}
