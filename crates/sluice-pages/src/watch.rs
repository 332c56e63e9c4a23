//! The page of WATCH: what can be watched, as a form, and the frame for the events that its script shows.
//!
//! With the script, the form stays and the events come as server-sent events. Without it, the form leads to a page of plain text.

use maud::{Markup, html};
use serde::Serialize;

use crate::action::Buttons;
use crate::view::View;

/// The style sheet of the page.
pub const STYLE: &str = include_str!("assets/watch.css");
/// The script of the page.
pub const SCRIPT: &str = include_str!("assets/watch.js");

/// The items that can be watched, and the watches in progress.
#[derive(Clone, Debug, Serialize)]
pub struct WatchPage {
    /// The items, in the order in which a request meets them.
    pub items: Vec<WatchItem>,
    /// Names of several items.
    pub groups: Vec<WatchGroup>,
    /// The watches in progress, in words.
    pub watches: Vec<String>,
    /// Watches at once at most.
    pub watches_max: usize,
    /// The values of the form: those of the query.
    #[serde(skip)]
    pub asked: Asked,
}

/// An item.
#[derive(Clone, Debug, Serialize)]
pub struct WatchItem {
    /// The name.
    pub name: &'static str,
    /// A description of the events that it shows.
    pub about: &'static str,
    /// Whether its box is checked.
    #[serde(skip)]
    pub is_asked: bool,
}

/// A group of items.
#[derive(Clone, Debug, Serialize)]
pub struct WatchGroup {
    /// The name.
    pub name: &'static str,
    /// The items, separated by commas.
    pub items: String,
}

/// The values of the form.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The values of fields, each with its name.
    pub fields: Vec<(String, String)>,
    /// Whether the script begins at once.
    pub is_start: bool,
}

impl Asked {
    fn value(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// A field of the form.
struct Field {
    name: &'static str,
    label: &'static str,
    example: &'static str,
}

/// Conditions on requests.
const FILTERS: [Field; 9] = [
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
const TRIGGERS: [Field; 3] = [
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

impl View for WatchPage {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let has_filter = FILTERS
            .iter()
            .chain(&TRIGGERS)
            .any(|field| self.asked.value(field.name).is_some());
        html! {
            link rel="stylesheet" href="watch.css";
            details #asked open {
                summary { "What is watched" }
                form #watch method="get" action="watch-text" data-start[self.asked.is_start] {
                    (self.boxes())
                    details open[has_filter] {
                        summary { "Only some requests" }
                        (self.fields("Requests with", &FILTERS))
                        (self.fields("Requests to which this happens (shown with what came before)", &TRIGGERS))
                    }
                    div.go {
                        button type="submit" data-plain { "Start" }
                        label {
                            input type="checkbox" name="once" value="on" checked data-asked[self.asked.value("once").is_some()];
                            " only the first request"
                        }
                        label { "bytes of each at most " input type="text" name="octets-max" size="6" value=[self.asked.value("octets-max")] placeholder="64k"; }
                    }
                    noscript { p.faint { "Without JavaScript the events are shown as plain text, when the request has ended." } }
                }
                (self.active())
            }
            div #bar hidden role="toolbar" aria-label="Events" {
                button #start type="submit" form="watch" title="s" { "Start" }
                button #pause type="button" title="p" aria-pressed="false" { "Pause" }
                button #clear type="button" { "Clear" }
                input #search type="search" placeholder="Search (/)" aria-label="Search in the events";
                button #all type="button" title="Escape" hidden { "All requests" }
                button #save type="button" { "Save" }
                button #save-json type="button" { "Save JSON" }
                div #state role="status" {}
            }
            div #waterfall {}
            div #lines hidden role="log" aria-label="Events" aria-live="off" {}
            script src="watch.js" defer {}
        }
    }
}

impl WatchPage {
    fn boxes(&self) -> Markup {
        html! {
            fieldset {
                legend { "Show" }
                div.groups hidden data-script {
                    @for group in &self.groups { button type="button" data-items=(group.items) { (group.name) } }
                    button type="button" data-items="" { "none" }
                }
                div.boxes {
                    @for item in &self.items {
                        label title=(item.about) {
                            input type="checkbox" name="items" value=(item.name) checked[item.is_asked];
                            (item.name)
                        }
                    }
                }
            }
        }
    }

    fn fields(&self, legend: &str, fields: &[Field]) -> Markup {
        html! {
            fieldset {
                legend { (legend) }
                div.fields {
                    @for field in fields {
                        label {
                            (field.label)
                            input type="text" name=(field.name) value=[self.asked.value(field.name)] placeholder=(field.example)
                                autocomplete="off" autocapitalize="none" spellcheck="false";
                        }
                    }
                }
            }
        }
    }

    fn active(&self) -> Markup {
        html! {
            @if !self.watches.is_empty() {
                p.faint { "Watched now, by " (self.watches.len()) " of " (self.watches_max) " watches:" }
                ul.faint { @for watch in &self.watches { li { (watch) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row has its item as a class, so that `watch.css` can colour it.
    #[test]
    fn no_style_of_the_other_pages_meets_the_rows_of_an_item() {
        for item in sluice_watch::Item::ALL {
            let class = format!(".{}", item.name());
            let goes_on =
                |rest: &str| rest.starts_with(|next: char| next.is_ascii_alphanumeric() || "-_".contains(next));
            let mut after = crate::frame::STYLE
                .match_indices(&class)
                .map(|(at, _)| &crate::frame::STYLE[at + class.len()..]);
            assert!(after.all(goes_on), "report.css has a rule for {class}");
        }
    }

    #[test]
    fn the_form_has_the_values_of_the_query() {
        let page = WatchPage {
            items: vec![WatchItem {
                name: "mapping",
                about: "routes",
                is_asked: true,
            }],
            groups: vec![WatchGroup {
                name: "usual",
                items: "mapping".into(),
            }],
            watches: vec!["<all>".into()],
            watches_max: 16,
            asked: Asked {
                fields: vec![("path".into(), "/\"><script>".into()), ("user".into(), String::new())],
                is_start: true,
            },
        };
        let buttons = Buttons {
            token: "",
            page: "watch",
        };
        let text = View::html(&page, &buttons).into_string();
        for expected in [
            "value=\"mapping\" checked",
            "name=\"path\" value=\"/&quot;&gt;&lt;script&gt;\"",
            "name=\"user\" placeholder",
            "data-start",
            "&lt;all&gt;",
        ] {
            assert!(text.contains(expected), "no {expected} in {text}");
        }
        for refused in ["style=", "<style", "onclick", "<script>"] {
            assert!(!text.contains(refused), "{refused} in {text}");
        }
        let json = serde_json::to_string(&page).unwrap();
        assert!(
            json.contains("\"items\":\"mapping\"") && !json.contains("asked"),
            "{json}"
        );
    }
}
