//! The form of the page of WATCH: the items by the part of a request that they show, and the conditions on requests.

use maud::{Markup, html};

use crate::watch::{Asked, WatchGroup, WatchItem};

/// The parts of a request, in the order in which it meets them, each with its items.
const PARTS: [(&str, &[&str]); 5] = [
    ("Connection", &["connection", "tls", "http2", "octets"]),
    ("Request", &["request-head", "request-body", "mapping", "authorization"]),
    (
        "Script",
        &["process", "variables", "cgiplusin", "mailbox", "callouts", "buffer"],
    ),
    ("Response", &["cache", "response-head", "response-body"]),
    ("In the end", &["log", "errors", "timing"]),
];

/// A field of the form: its name, its label and an example.
pub(crate) type Field = (&'static str, &'static str, &'static str);

pub(crate) const FILTERS: [Field; 9] = [
    ("path", "path (* for anything)", "/cgi-bin/*"),
    ("client", "client", "192.0.2.7"),
    ("status", "status", "5xx"),
    ("slower-than", "slower than", "500ms"),
    ("site", "site", "example.org"),
    ("method", "method", "POST"),
    ("script", "script (its file)", "*/report.py"),
    ("user", "user", "ann"),
    ("id", "request id", ""),
];

/// Fields for the conditions under which a request is shown.
pub(crate) const TRIGGERS: [Field; 3] = [
    ("trigger-bytes", "these bytes are received or sent", "Error:"),
    ("trigger-status", "the status is at least", "500"),
    ("trigger-slower", "it takes longer than", "2s"),
];

/// The items to choose from, each with its description.
pub(crate) fn boxes(items: &[WatchItem], groups: &[WatchGroup]) -> Markup {
    let is_in_part = |item: &&WatchItem| PARTS.iter().any(|(_, names)| names.contains(&item.name));
    let others: Vec<&WatchItem> = items.iter().filter(|item| !is_in_part(item)).collect();
    html! {
        div.groups hidden data-script {
            "Choose "
            @for group in groups { button type="button" data-items=(group.items) { (group.name) } }
            button type="button" data-items="" { "none" }
        }
        div.parts {
            @for (title, names) in &PARTS {
                (part_html(title, names.iter().filter_map(|name| items.iter().find(|item| item.name == *name))))
            }
            @if !others.is_empty() { (part_html("Further", others.into_iter())) }
        }
    }
}

fn part_html<'a>(title: &str, items: impl Iterator<Item = &'a WatchItem>) -> Markup {
    html! {
        fieldset.boxes {
            legend { (title) }
            @for item in items {
                label {
                    input type="checkbox" name="items" value=(item.name) checked[item.is_asked];
                    span { (item.name) small { (item.about) } }
                }
            }
        }
    }
}

pub(crate) fn fields(legend: &str, fields: &[Field], asked: &Asked) -> Markup {
    html! {
        fieldset {
            legend { (legend) }
            div.fields {
                @for (name, label, example) in fields {
                    label {
                        (label)
                        input type="text" name=(name) value=[asked.value(name)] placeholder=(example)
                            autocomplete="off" autocapitalize="none" spellcheck="false";
                    }
                }
            }
        }
    }
}
