//! `[[site.route]].when`: conditions on the request.
//!
//! The conditions parse themselves (`sluice_settings::rule`) and say what is wrong with a text; here the message gets its place.

use sluice_settings::rule::{Conditions, Scheme};

use super::description::Fallback::Words;
use super::key::{Key, Kind, Section};
use super::table::Table;

pub(super) static CONDITIONS: Section<Conditions> = Section {
    title: "[[site.route]].when",
    text: "Conditions besides the path; all must hold. Of a list, one entry must match; an entry with `!` before it must not. `*` matches \
           any characters. See [Routes](../guides/routes.md).",
    keys: &[
        Key {
            name: "method",
            kind: Kind::Words(|when, words, _| when.on_method(words.iter().map(String::as_str))),
            default: Words("any"),
            text: "The method, in upper case.",
            example: "[\"GET\", \"HEAD\"]",
        },
        Key {
            name: "host",
            kind: Kind::Words(|when, words, _| when.on_host(words.iter().map(String::as_str))),
            default: Words("any"),
            text: "The requested host, without port and without a dot at its end.",
            example: "\"www.*\"",
        },
        Key {
            name: "client",
            kind: Kind::Words(|when, words, _| when.on_client(words.iter().map(String::as_str))),
            default: Words("any"),
            text: "The client's address: an address, or a network.",
            example: "[\"192.0.2.0/24\", \"!192.0.2.66\", \"::1\"]",
        },
        Key {
            name: "scheme",
            kind: Kind::Choice(&[
                ("http", |when| when.on_scheme(Scheme::Http)),
                ("https", |when| when.on_scheme(Scheme::Https)),
            ]),
            default: Words("any"),
            text: "Clear text or TLS.",
            example: "\"http\"",
        },
        Key {
            name: "client_certificate",
            kind: Kind::Choice(&[
                ("verified", Conditions::on_certificate),
                ("absent", Conditions::on_no_certificate),
            ]),
            default: Words("any"),
            text: "Whether the client has sent a certificate that the authorities of the site, or else of the address, have signed.",
            example: "\"verified\"",
        },
        Key {
            name: "header",
            kind: Kind::Pairs(|when, pairs, written| {
                for (name, value) in pairs {
                    if let Err(message) = when.on_field(&name, &value.value) {
                        written.document().report(value.line, format!("header: {message}"));
                    }
                }
                Ok(())
            }),
            default: Words("any"),
            text: "Request fields and their values. A value is compared with one whole field line, ignoring case; `*` matches if the field is \
                   present, `!*` if it is absent.",
            example: "{ User-Agent = \"*bot*\", Cookie = \"!*\" }",
        },
        Key {
            name: "query",
            kind: Kind::Pairs(|when, pairs, _| {
                for (name, value) in pairs {
                    when.on_parameter(&name, &value.value);
                }
                Ok(())
            }),
            default: Words("any"),
            text: "Query parameters and their decoded values, ignoring case; `*` matches if the parameter is present, `!*` if it is absent.",
            example: "{ debug = \"*\" }",
        },
    ],
};

/// Reports an empty section.
pub(super) fn check(when: &Conditions, table: &Table<'_>) {
    if when.is_empty() && table.is_empty() {
        table.report("when = {}: always holds: remove it, or add a condition, as in when = { method = \"POST\" }");
    }
}
