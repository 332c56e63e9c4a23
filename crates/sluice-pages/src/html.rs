//! Parts that several pages have: facts, tables, tiles.

use maud::{Markup, Render, html};
use sluice_report::text;

/// A row of a table of facts: a name and a value.
pub(crate) fn fact<N>(name: N, value: impl Render) -> (N, Markup) {
    (name, value.render())
}

pub(crate) fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (content) } }
}

pub(crate) fn facts<N: Render>(facts: impl IntoIterator<Item = (N, Markup)>) -> Markup {
    html! { table.facts { @for (name, value) in facts { tr { th scope="row" { (name) } td { (value) } } } } }
}

/// The most columns of a table that fit a phone.
const NARROW_COLUMNS: usize = 3;

/// A table with a title for each column. On a phone each row of many cells becomes a list of cells, each with its title.
pub(crate) fn table<const N: usize>(columns: [&str; N], rows: impl IntoIterator<Item = [Markup; N]>) -> Markup {
    let mut rows = rows.into_iter().peekable();
    let class = (N > NARROW_COLUMNS).then_some("cards");
    html! {
        div.wide tabindex="0" { table class=[class] {
            (titles(columns))
            tbody {
                @if rows.peek().is_none() { tr { td colspan=(N) { "none" } } }
                @for row in rows {
                    tr { @for (column, cell) in columns.iter().zip(row) { td data-label=[class.and(Some(column))] { (cell) } } }
                }
            }
        } }
    }
}

/// A table of many rows of figures, which scrolls by itself where the window is narrower.
pub(crate) fn scrolling_table<const N: usize>(
    columns: [&str; N],
    rows: impl IntoIterator<Item = [Markup; N]>,
) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            (titles(columns))
            tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
        } }
    }
}

fn titles<const N: usize>(columns: [&str; N]) -> Markup {
    html! { thead { tr { @for column in columns { th scope="col" { (column) } } } } }
}

/// A figure with its unit, on one line.
pub(crate) fn unbroken(figure: impl Render) -> Markup {
    html! { span.unbroken { (figure) } }
}

/// A figure in a cell of its own, at the right edge of its column.
pub(crate) fn figure(figure: impl Render) -> Markup {
    html! { span.number { (figure) } }
}

/// A figure that is to be noticed unless it is 0.
pub(crate) fn trouble(count: u64) -> Markup {
    html! { span.trouble[count > 0] { (text::number(count)) } }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Well,
    Warning,
    Trouble,
}

impl Mark {
    pub(crate) fn trouble_if_any(count: u64) -> Mark {
        if count > 0 { Mark::Trouble } else { Mark::Well }
    }

    /// A warning if nine tenths are in use.
    pub(crate) fn of_use(used: usize, max: usize) -> Mark {
        match max > 0 && used >= max - max / 10 {
            true => Mark::Warning,
            false => Mark::Well,
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

#[derive(Clone, Debug)]
pub(crate) struct Tile {
    name: &'static str,
    figure: String,
    about: String,
    mark: Mark,
}

impl Tile {
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
pub(crate) fn tile(name: &'static str, figure: impl Into<String>, about: impl Into<String>) -> Tile {
    Tile {
        name,
        figure: figure.into(),
        about: about.into(),
        mark: Mark::Well,
    }
}

/// Tiles in rows of the same length.
pub(crate) fn tiles(tiles: &[Tile]) -> Markup {
    let in_row = if tiles.len().is_multiple_of(4) { "four" } else { "three" };
    html! { div class={ "tiles " (in_row) } { @for tile in tiles { (tile.render()) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_wide_tables_carry_the_title_of_their_column() {
        let narrow = table(["a", "b", "c"], [[(); 3].map(|()| html! { "x" })]).into_string();
        assert!(!narrow.contains("cards") && !narrow.contains("data-label"), "{narrow}");
        let wide = table(["a", "b", "c", "d"], [[(); 4].map(|()| html! { "x" })]).into_string();
        assert!(
            wide.contains("<table class=\"cards\">") && wide.contains("<td data-label=\"d\">x</td>"),
            "{wide}"
        );
        let empty = table(["a", "b", "c", "d"], []).into_string();
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
