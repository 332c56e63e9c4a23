//! The page of WATCH: what can be watched, and the frame for the events that its script shows.
//!
//! With the script, the form stays and the events come as server-sent events. Without it, the form leads to a page of plain text.

use maud::{Markup, html};
use serde::Serialize;

use crate::action::Buttons;
use crate::view::View;
use crate::watch_form::{FILTERS, TRIGGERS, boxes, fields};

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
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

impl View for WatchPage {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let mut conditions = FILTERS.iter().chain(&TRIGGERS);
        let has_filter = conditions.any(|(name, _, _)| self.asked.value(name).is_some());
        html! {
            link rel="stylesheet" href="watch.css";
            details #asked open {
                summary { "What is watched" }
                form #watch method="get" action="watch-text" data-start[self.asked.is_start] {
                    (boxes(&self.items, &self.groups))
                    details open[has_filter] {
                        summary { "Only some requests" }
                        (fields("Requests with", &FILTERS, &self.asked))
                        (fields("Requests to which this happens (shown with what came before)", &TRIGGERS, &self.asked))
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
                @if !self.watches.is_empty() {
                    p.faint { "Watched now, by " (self.watches.len()) " of " (self.watches_max) " watches:" }
                    ul.faint { @for watch in &self.watches { li { (watch) } } }
                }
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
            p #hint.faint hidden data-script {
                "Press Start, and then send a request: its events appear here while it is answered. "
                "A click on a number shows one request and where its time went, or one connection with its requests."
            }
            script src="watch.js" defer {}
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
            items: vec![WatchItem { name: "mapping", about: "routes", is_asked: true }],
            groups: vec![WatchGroup { name: "usual", items: "mapping".into() }],
            watches: vec!["<all>".into()],
            watches_max: 16,
            asked: Asked {
                fields: vec![("path".into(), "/\"><script>".into()), ("user".into(), String::new())],
                is_start: true,
            },
        };
        let buttons = Buttons { token: "", page: "watch" };
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
