//! The page of the file cache: how often it has the answer, and the files in it.

use maud::{Markup, html};
use serde::Serialize;

use crate::action::Buttons;
use crate::html::{section, table, tile};
use crate::text;
use crate::view::View;

/// The file cache.
#[derive(Clone, Debug, Serialize)]
pub struct FileCache {
    /// Whether there is one.
    pub is_on: bool,
    /// Requests answered from memory without checking the file.
    pub hits: u64,
    /// Requests answered from memory after the file was found unchanged.
    pub unchanged: u64,
    /// Requests for names that were not in memory.
    pub misses: u64,
    /// Files that had changed or were gone.
    pub changed: u64,
    /// Requests for files that are too large to keep.
    pub too_large: u64,
    /// Requests for files that had just changed.
    pub just_changed: u64,
    /// Files that were removed to make room.
    pub evicted: u64,
    /// Files in memory.
    pub files: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// The largest files.
    pub largest: Vec<Entry>,
    /// The files that were sent most often.
    pub most_used: Vec<Entry>,
}

/// A file in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its path.
    pub path: String,
    /// Its content coding, if it is a compressed variant.
    pub coding: Option<&'static str>,
    /// The size of its content.
    pub bytes: u64,
    /// About how often it was sent without checking the file; a multiple of 17.
    pub hits: u64,
    /// Seconds since it was last compared with the file.
    pub checked_seconds_ago: u64,
}

impl View for FileCache {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        if !self.is_on {
            return html! { p { "There is no file cache: the configuration turns it off." } };
        }
        let from_memory = self.hits + self.unchanged;
        let lookups = from_memory + self.misses + self.changed + self.too_large + self.just_changed;
        html! {
            div.tiles {
                (tile("from memory", &text::share(from_memory, lookups), &format!("of {} lookups", text::number(lookups))))
                (tile("without a check", &text::share(self.hits, lookups), &text::number(self.hits)))
                (tile("checked, unchanged", &text::share(self.unchanged, lookups), &text::number(self.unchanged)))
                (tile("not in memory", &text::share(self.misses, lookups), &text::number(self.misses)))
                (tile("changed", &text::number(self.changed), "or gone"))
                (tile("too large", &text::number(self.too_large), &format!("{} just changed", text::number(self.just_changed))))
                (tile("files", &text::number(self.files), &text::bytes(self.bytes)))
                (tile("evicted", &text::number(self.evicted), "to make room"))
            }
            (buttons.button("purge", "Empty the file cache"))
            (section("most-used", "Sent most often", &entries(&self.most_used)))
            (section("largest", "Largest", &entries(&self.largest)))
        }
    }
}

fn entries(entries: &[Entry]) -> Markup {
    let rows: Vec<Vec<Markup>> = entries
        .iter()
        .map(|entry| {
            vec![
                html! { (entry.path) @if let Some(coding) = entry.coding { " (" (coding) ")" } },
                html! { span.number { (text::bytes(entry.bytes)) } },
                html! { span.number { "≈ " (text::number(entry.hits)) } },
                html! { (text::uptime(entry.checked_seconds_ago)) " ago" },
            ]
        })
        .collect();
    table(&["file", "size", "hits", "checked"], &rows)
}
