//! `[[site.route]].when`: conditions on the request.
//!
//! The conditions parse themselves (`sluice_settings::rule`) and say what is wrong with a text; here the message gets its place.

use sluice_settings::rule::{Conditions, Scheme};

use super::key::{Key, Section};
use super::table::Table;

pub(super) static CONDITIONS: Section<Conditions> = Section {
    title: "[[site.route]].when",
    keys: &[
        Key::words("method", |when, words, _| when.on_method(words)),
        Key::words("host", |when, words, _| when.on_host(words)),
        Key::words("client", |when, words, _| when.on_client(words)),
        Key::choice(
            "scheme",
            &[
                ("http", |when| when.on_scheme(Scheme::Http)),
                ("https", |when| when.on_scheme(Scheme::Https)),
            ],
        ),
        Key::choice(
            "client_certificate",
            &[
                ("verified", Conditions::on_certificate),
                ("absent", Conditions::on_no_certificate),
            ],
        ),
        Key::pairs("header", |when, pairs, written| {
            for (name, value) in pairs {
                if let Err(message) = when.on_field(&name, &value.value) {
                    written.document().report(value.line, format!("header: {message}"));
                }
            }
            Ok(())
        }),
        Key::pairs("query", |when, pairs, _| {
            for (name, value) in pairs {
                when.on_parameter(&name, &value.value);
            }
            Ok(())
        }),
    ],
};

/// Reports an empty section.
pub(super) fn check(when: &Conditions, table: &Table<'_>) {
    if when.is_empty() && table.is_empty() {
        table.report("when = {}: always holds: remove it, or add a condition, as in when = { method = \"POST\" }");
    }
}
