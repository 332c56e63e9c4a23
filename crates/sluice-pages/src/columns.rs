//! The charts of activity: a column for each bar, which may be a link, with the starts and ends of the server.

use maud::{Markup, html};
use sluice_report::activity::Bar;

use crate::chart::{height, lines, scale, top};

/// The size of a chart in its own units; the style sheet gives it the width of the page.
const WIDTH: usize = 1680;
const HEIGHT: usize = 120;

pub(crate) struct Columns<'a> {
    /// A description of the chart, for readers who do not see it.
    pub label: &'a str,
    pub columns: &'a [Column<'a>],
    /// Drawn in this order, so that the largest values come first.
    pub layers: &'a [Layer],
    /// A value as text.
    pub shown: fn(u64) -> String,
    /// The texts below the chart, at equal distances.
    pub times: &'a [String],
}

pub(crate) struct Column<'a> {
    pub bucket: &'a Bar,
    /// The tooltip.
    pub title: String,
    /// Whether there is nothing to show because the server did not run.
    pub is_gap: bool,
    /// The page that shows more of it.
    pub href: Option<String>,
}

/// A value that each column shows.
pub(crate) struct Layer {
    /// The class in the style sheet.
    pub class: &'static str,
    pub name: &'static str,
    pub value: fn(&Bar) -> u64,
}

impl Layer {
    pub(crate) fn new(class: &'static str, name: &'static str, value: fn(&Bar) -> u64) -> Layer {
        Layer { class, name, value }
    }
}

impl Columns<'_> {
    pub(crate) fn render(&self) -> Markup {
        let values = self
            .columns
            .iter()
            .flat_map(|column| self.layers.iter().map(|layer| (layer.value)(column.bucket)));
        let greatest = top(values);
        html! {
            figure.activity {
                div.scale {
                    span { (scale(greatest, &self.shown)) } " "
                    span { @for layer in self.layers { span class=(format!("key {}", layer.class)) { (layer.name) } " " } }
                }
                svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(self.label) {
                    (lines(WIDTH, HEIGHT))
                    @for (number, column) in self.columns.iter().enumerate() {
                        @match &column.href {
                            Some(href) => a href=(href) { (self.column(number, column, greatest)) },
                            None => g { (self.column(number, column, greatest)) },
                        }
                    }
                }
                div.scale { @for time in self.times { span { (time) } " " } }
            }
        }
    }

    fn column(&self, number: usize, column: &Column<'_>, greatest: u64) -> Markup {
        let count = self.columns.len().max(1);
        let (left, right) = (number * WIDTH / count, (number + 1) * WIDTH / count);
        let width = right - left;
        html! {
            title { (column.title) }
            rect class=(if column.is_gap { "column gap" } else { "column" }) x=(left) y="0" width=(width) height=(HEIGHT) {}
            @for layer in self.layers {
                @let height = height((layer.value)(column.bucket), greatest, HEIGHT);
                @if height > 0 {
                    rect class=(layer.class) x=(left) y=(HEIGHT - height) width=(width.saturating_sub(2).max(1)) height=(height) {}
                }
            }
            (marks(column.bucket, left))
        }
    }
}

/// Lines at the starts and ends of the server, the worst on top.
fn marks(bucket: &Bar, left: usize) -> Markup {
    html! {
        @for (class, count) in [("start", bucket.starts), ("stop", bucket.stops), ("crash", bucket.crashes)] {
            @if count > 0 { rect class=(format!("mark {class}")) x=(left) y="0" width="3" height=(HEIGHT) {} }
        }
    }
}
