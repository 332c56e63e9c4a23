//! Changes that a route makes whatever answers: fields of the response, expiry, limits on the request body.
//!
//! Field changes parse themselves (`sluice_settings::rule`) and say what is wrong with a text; here the message gets its place.

use std::sync::Arc;

use sluice_settings::rule::{BodyBounds, Expiry, FieldChange};

use super::document::At;
use super::key::{ANY, Key, Section, set};
use super::limits::CLIENT_TIME;
use super::table::Written;
use sluice_settings::notation::parse_duration;

/// `[[site.route]].headers` while it is read. The lists are applied one after the other.
#[derive(Default)]
pub(super) struct Fields {
    remove: Vec<FieldChange>,
    set: Vec<FieldChange>,
    add: Vec<FieldChange>,
}

impl Fields {
    pub(super) fn finish(self) -> Vec<Arc<[FieldChange]>> {
        let changes: Arc<[FieldChange]> = [self.remove, self.set, self.add].into_iter().flatten().collect();
        if changes.is_empty() { Vec::new() } else { vec![changes] }
    }
}

pub(super) static HEADERS: Section<Fields> = Section {
    title: "[[site.route]].headers",
    keys: &[
        Key::pairs("set", |fields, pairs, written| {
            set(&mut fields.set, read_set(&pairs, written))
        }),
        Key::pairs("add", |fields, pairs, written| {
            for (name, value) in pairs {
                match FieldChange::add(&name, &value.value) {
                    Ok(change) => fields.add.push(change),
                    Err(message) => written.document().report(value.line, format!("add: {message}")),
                }
            }
            Ok(())
        }),
        Key::words("remove", |fields, names, _| {
            for name in names {
                fields.remove.push(FieldChange::remove(&name)?);
            }
            Ok(())
        }),
    ],
};

pub(super) static BODY_LIMITS: Section<BodyBounds> = Section {
    title: "[[site.route]].limits",
    keys: &[
        Key::size("body_size", ANY, |limits, size| limits.bytes_max = Some(size)),
        Key::duration("body_timeout", CLIENT_TIME, |limits, timeout| {
            limits.timeout = Some(timeout);
        }),
        Key::size("body_rate", ANY, |limits, rate| {
            limits.bytes_per_second_min = Some(rate);
        }),
    ],
};

/// Parses the key `expires`.
pub(super) fn parse_expiry(text: &str) -> Result<Expiry, String> {
    match text {
        "no-cache" => Ok(Expiry::NoCache),
        "no-store" => Ok(Expiry::NoStore),
        "immutable" => Ok(Expiry::Immutable),
        "off" => Ok(Expiry::Off),
        duration => parse_duration(duration).map(Expiry::Age).map_err(|_| {
            "must be a duration, as in \"1h\", or \"no-cache\", \"no-store\", \"immutable\" or \"off\"".to_owned()
        }),
    }
}

/// The fields that are set; a field that is set twice is reported.
fn read_set(pairs: &[(String, At<String>)], written: &Written<'_>) -> Vec<FieldChange> {
    let mut changes: Vec<FieldChange> = Vec::new();
    for (name, value) in pairs {
        let report = |message: String| written.document().report(value.line, format!("set: {message}"));
        match FieldChange::set(name, &value.value) {
            Ok(change) if changes.iter().any(|earlier| earlier.name() == change.name()) => {
                report(format!(
                    "\"{}\" is set twice, differing only in case: remove one",
                    change.name()
                ));
            }
            Ok(change) => changes.push(change),
            Err(message) => report(message),
        }
    }
    changes
}
