//! Parts that several pages have: facts, tables, tiles.

use maud::{Markup, html};

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

/// A table with a title for each column. It scrolls by itself where the window is narrower.
#[must_use]
pub(crate) fn table(columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            thead { tr { @for column in columns { th scope="col" { (column) } } } }
            tbody {
                @for row in rows { tr { @for cell in row { td { (cell) } } } }
                @if rows.is_empty() { tr { td colspan=(columns.len()) { "none" } } }
            }
        } }
    }
}

/// A figure that is seen at a glance: its name, the figure, and a line about it.
#[must_use]
pub(crate) fn tile(name: &str, figure: &str, about: &str) -> Markup {
    // The colon and the dash are for text browsers; the style sheet hides them.
    html! { div.tile { span.name { (name) } span.text { ": " } strong { (figure) } span.text { " – " } span.about { (about) } } }
}
