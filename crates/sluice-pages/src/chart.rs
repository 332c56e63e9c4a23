//! Charts as inline SVG. They have attributes and classes only, because the Content-Security-Policy allows no style in them.

use maud::{Markup, html};

/// The size of a chart in its own units; the style sheet gives it the width of the page, and a height.
const WIDTH: usize = 600;
const HEIGHT: usize = 80;

/// Bars from left to right, as for the seconds of a minute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bars<'a> {
    /// A description of the chart, for readers who do not see it.
    pub label: &'a str,
    /// The height of each bar.
    pub values: &'a [u64],
    /// The text at the greatest value.
    pub greatest: &'a str,
    /// The texts below the first and the last bar.
    pub first: &'a str,
    /// See `first`.
    pub last: &'a str,
}

impl Bars<'_> {
    /// The chart.
    #[must_use]
    pub(crate) fn render(&self) -> Markup {
        let greatest = self.values.iter().copied().max().unwrap_or(0).max(1);
        let count = self.values.len().max(1);
        html! {
            figure {
                div.scale { span { (self.greatest) } }
                svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(self.label) {
                    @for (number, value) in self.values.iter().enumerate() {
                        @let height = height(*value, greatest, HEIGHT);
                        @let (left, right) = (number * WIDTH / count, (number + 1) * WIDTH / count);
                        @if height > 0 {
                            rect.bar x=(left) y=(HEIGHT - height) width=((right - left).saturating_sub(1).max(1)) height=(height) {}
                        }
                    }
                    line.axis x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                }
                div.scale { span { (self.first) } span { (self.last) } }
            }
        }
    }
}

/// The height of a bar; at least 1 if its value is not 0.
fn height(value: u64, greatest: u64, room: usize) -> usize {
    if value == 0 {
        return 0;
    }
    let scaled = u128::from(value) * room as u128 / u128::from(greatest);
    usize::try_from(scaled).unwrap_or(room).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fit_the_chart() {
        let chart = Bars {
            label: "requests",
            values: &[0, 1, u64::MAX],
            greatest: "many",
            first: "then",
            last: "now",
        };
        let svg = chart.render().into_string();
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("height=\"80\"") && svg.contains("height=\"1\""), "{svg}");
        assert!(!svg.contains("style="), "{svg}");
    }
}
