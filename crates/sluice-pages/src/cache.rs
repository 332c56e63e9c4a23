//! The page of the file cache.

use maud::{Markup, html};
use sluice_report::cache::{Entry, FileCache};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{figure, section, table, tile, tiles, unbroken};
use crate::view::View;

impl View for FileCache {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        if !self.is_on {
            return html! { p { "There is no file cache: the configuration turns it off." } };
        }
        let from_memory = self.hits + self.unchanged;
        let lookups = from_memory + self.misses + self.changed + self.too_large + self.just_changed;
        html! {
            (tiles(&[
                tile("from memory", text::share(from_memory, lookups), format!("of {}", text::counted(lookups, "lookup", "lookups"))),
                tile("without a check", text::share(self.hits, lookups), text::number(self.hits)),
                tile("checked, unchanged", text::share(self.unchanged, lookups), text::number(self.unchanged)),
                tile("not in memory", text::share(self.misses, lookups), text::number(self.misses)),
                tile("changed", text::number(self.changed), "or gone"),
                tile("too large", text::number(self.too_large), format!("{} just changed", text::number(self.just_changed))),
                tile("files", text::number(self.files), text::bytes(self.bytes)),
                tile("evicted", text::number(self.evicted), "to make room"),
            ]))
            (buttons.button("purge", "Empty the file cache"))
            (section("most-used", "Sent most often", &entries(&self.most_used)))
            (section("largest", "Largest", &entries(&self.largest)))
        }
    }
}

fn entries(entries: &[Entry]) -> Markup {
    let row = |entry: &Entry| {
        [
            html! { span.long { (entry.path) } @if let Some(coding) = entry.coding { " (" (coding) ")" } },
            figure(text::bytes(entry.bytes)),
            figure(format!("≈ {}", text::number(entry.hits))),
            unbroken(format!("{} ago", text::uptime(entry.checked_seconds_ago))),
        ]
    };
    table(["file", "size", "hits", "checked"], entries.iter().map(row))
}
