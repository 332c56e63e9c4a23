//! The form of the page of WATCH: the items by the part of a request that they show, and the conditions on requests.
//!
//! Not here: what the script of the page does (`assets/watch.js`), and what an item shows (`sluice_watch`).

use maud::{Markup, html};

use crate::watch::{Asked, WatchGroup, WatchItem};

/// Items that belong together.
struct Part {
    title: &'static str,
    items: &'static [&'static str],
}

/// The parts of a request, in the order in which it meets them.
const PARTS: [Part; 5] = [
    Part {
        title: "Connection",
        items: &["connection", "tls", "http2", "octets"],
    },
    Part {
        title: "Request",
        items: &["request-head", "request-body", "mapping", "authorization"],
    },
    Part {
        title: "Script",
        items: &["process", "variables", "cgiplusin", "mailbox", "callouts", "buffer"],
    },
    Part {
        title: "Response",
        items: &["cache", "response-head", "response-body"],
    },
    Part {
        title: "In the end",
        items: &["log", "errors", "timing"],
    },
];

/// A field of the form.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    label: &'static str,
    example: &'static str,
}

/// Conditions on requests.
pub(crate) const FILTERS: [Field; 9] = [
    Field {
        name: "path",
        label: "path (* for anything)",
        example: "/cgi-bin/*",
    },
    Field {
        name: "client",
        label: "client",
        example: "192.0.2.7",
    },
    Field {
        name: "status",
        label: "status",
        example: "5xx",
    },
    Field {
        name: "slower-than",
        label: "slower than",
        example: "500ms",
    },
    Field {
        name: "site",
        label: "site",
        example: "example.org",
    },
    Field {
        name: "method",
        label: "method",
        example: "POST",
    },
    Field {
        name: "script",
        label: "script (its file)",
        example: "*/report.py",
    },
    Field {
        name: "user",
        label: "user",
        example: "ann",
    },
    Field {
        name: "id",
        label: "request id",
        example: "",
    },
];

/// Fields for the conditions under which a request is shown.
pub(crate) const TRIGGERS: [Field; 3] = [
    Field {
        name: "trigger-bytes",
        label: "these bytes are received or sent",
        example: "Error:",
    },
    Field {
        name: "trigger-status",
        label: "the status is at least",
        example: "500",
    },
    Field {
        name: "trigger-slower",
        label: "it takes longer than",
        example: "2s",
    },
];

/// The items to choose from, each with its description.
pub(crate) fn boxes(items: &[WatchItem], groups: &[WatchGroup]) -> Markup {
    let is_in_part = |item: &&WatchItem| PARTS.iter().any(|part| part.items.contains(&item.name));
    let others: Vec<&WatchItem> = items.iter().filter(|item| !is_in_part(item)).collect();
    html! {
        div.groups hidden data-script {
            "Choose "
            @for group in groups { button type="button" data-items=(group.items) { (group.name) } }
            button type="button" data-items="" { "none" }
        }
        div.parts {
            @for part in &PARTS {
                (part_html(part.title, part.items.iter().filter_map(|name| items.iter().find(|item| item.name == *name))))
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

/// Fields with these conditions.
pub(crate) fn fields(legend: &str, fields: &[Field], asked: &Asked) -> Markup {
    html! {
        fieldset {
            legend { (legend) }
            div.fields {
                @for field in fields {
                    label {
                        (field.label)
                        input type="text" name=(field.name) value=[asked.value(field.name)] placeholder=(field.example)
                            autocomplete="off" autocapitalize="none" spellcheck="false";
                    }
                }
            }
        }
    }
}
