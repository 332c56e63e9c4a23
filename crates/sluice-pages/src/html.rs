//! Parts that several pages have: facts, tables, tiles. Not here: charts (`chart`, `columns`) and the frame of a page (`frame`).

use maud::{Markup, html};
use sluice_report::text;

/// A row of a table of facts.
pub(crate) struct Fact<'a> {
    /// The name.
    pub name: &'a str,
    /// The value.
    pub value: Markup,
}

/// A fact.
pub(crate) fn fact(name: &str, value: impl maud::Render) -> Fact<'_> {
    Fact {
        name,
        value: value.render(),
    }
}

/// A section of a page with a title, a fragment of its URL.
#[must_use]
pub(crate) fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (content) } }
}

/// A table of names and values.
#[must_use]
pub(crate) fn facts(facts: &[Fact<'_>]) -> Markup {
    html! { table.facts { @for fact in facts { tr { th scope="row" { (fact.name) } td { (fact.value) } } } } }
}

/// The most columns of a table that fit a phone.
const NARROW_COLUMNS: usize = 3;

/// A table with a title for each column. On a phone each row of many cells becomes a list, in which the cells are under each other, each
/// with its title.
#[must_use]
pub(crate) fn table(columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    let class = (columns.len() > NARROW_COLUMNS).then_some("cards");
    html! {
        div.wide tabindex="0" { table class=[class] {
            (titles(columns))
            tbody {
                @for row in rows {
                    tr { @for (column, cell) in columns.iter().zip(row) { td data-label=[class.and(Some(column))] { (cell) } } }
                }
                @if rows.is_empty() { tr { td colspan=(columns.len()) { "none" } } }
            }
        } }
    }
}

/// A table of many rows of figures, which scrolls by itself where the window is narrower.
#[must_use]
pub(crate) fn scrolling_table(columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            (titles(columns))
            tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
        } }
    }
}

fn titles(columns: &[&str]) -> Markup {
    html! { thead { tr { @for column in columns { th scope="col" { (column) } } } } }
}

/// A figure with its unit, on one line.
#[must_use]
pub(crate) fn unbroken(figure: impl maud::Render) -> Markup {
    html! { span.unbroken { (figure) } }
}

/// A figure in a cell of its own, at the right edge of its column.
#[must_use]
pub(crate) fn figure(figure: impl maud::Render) -> Markup {
    html! { span.number { (figure) } }
}

/// A figure that is to be noticed unless it is 0.
#[must_use]
pub(crate) fn trouble(count: u64) -> Markup {
    html! { span.trouble[count > 0] { (text::number(count)) } }
}

/// The look of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// All is well.
    Well,
    /// Something needs a look soon.
    Warning,
    /// Something has failed.
    Trouble,
}

impl Mark {
    /// Trouble if there is any.
    pub(crate) fn trouble_if_any(count: u64) -> Mark {
        if count > 0 { Mark::Trouble } else { Mark::Well }
    }

    /// A warning if nine tenths are in use.
    pub(crate) fn of_use(used: usize, max: usize) -> Mark {
        if max > 0 && used >= max - max / 10 {
            Mark::Warning
        } else {
            Mark::Well
        }
    }

    const fn class(self) -> Option<&'static str> {
        match self {
            Mark::Well => None,
            Mark::Warning => Some("warn"),
            Mark::Trouble => Some("bad"),
        }
    }
}

/// A figure that is seen at a glance: its name, the figure, and a line about it.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    name: &'static str,
    figure: String,
    about: String,
    mark: Mark,
}

impl Tile {
    /// The tile with another look.
    #[must_use]
    pub(crate) fn marked(self, mark: Mark) -> Tile {
        Tile { mark, ..self }
    }

    fn render(&self) -> Markup {
        // The colon and the dash are for text browsers; the style sheet hides them.
        html! {
            div class=(format!("tile {}", self.mark.class().unwrap_or_default()).trim_end()) {
                span.name { (self.name) } span.text { ": " } strong { (self.figure) } span.text { " – " } span.about { (self.about) }
            }
        }
    }
}

/// A tile on which all is well.
#[must_use]
pub(crate) fn tile(name: &'static str, figure: impl Into<String>, about: impl Into<String>) -> Tile {
    Tile {
        name,
        figure: figure.into(),
        about: about.into(),
        mark: Mark::Well,
    }
}

/// Tiles in rows of the same length.
#[must_use]
pub(crate) fn tiles(tiles: &[Tile]) -> Markup {
    let class = if tiles.len().is_multiple_of(4) {
        "tiles four"
    } else {
        "tiles three"
    };
    html! { div class=(class) { @for tile in tiles { (tile.render()) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_wide_tables_carry_the_title_of_their_column() {
        let row = |count: usize| vec![vec![html! { "x" }; count]];
        let narrow = table(&["a", "b", "c"], &row(3)).into_string();
        assert!(!narrow.contains("cards") && !narrow.contains("data-label"), "{narrow}");
        let wide = table(&["a", "b", "c", "d"], &row(4)).into_string();
        assert!(
            wide.contains("<table class=\"cards\">") && wide.contains("<td data-label=\"d\">x</td>"),
            "{wide}"
        );
        let empty = table(&["a", "b", "c", "d"], &[]).into_string();
        assert!(empty.contains("<td colspan=\"4\">none</td>"), "{empty}");
    }

    #[test]
    fn no_row_of_tiles_has_one_of_its_own() {
        for (count, class) in [(8, "four"), (4, "four"), (6, "three")] {
            let shown = tiles(&vec![tile("a", "1", "b"); count]).into_string();
            assert!(shown.starts_with(&format!("<div class=\"tiles {class}\">")), "{shown}");
        }
    }

    #[test]
    fn trouble_is_seen() {
        let tile = |count| {
            tile("server errors", "1", "")
                .marked(Mark::trouble_if_any(count))
                .render()
                .into_string()
        };
        assert!(tile(1).contains("class=\"tile bad\"") && tile(0).contains("class=\"tile\""));
        assert_eq!(
            [Mark::of_use(89, 100), Mark::of_use(90, 100)],
            [Mark::Well, Mark::Warning]
        );
        assert_eq!(Mark::of_use(0, 0), Mark::Well);
        assert_eq!(trouble(2).into_string(), "<span class=\"trouble\">2</span>");
    }
}
