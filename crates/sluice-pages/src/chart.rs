//! Charts as inline SVG. They have attributes and classes only, because the Content-Security-Policy allows no style in them.

use maud::{Markup, html};

/// The size of a chart in its own units; the style sheet gives it the width of the page, and a height.
const WIDTH: usize = 600;
const HEIGHT: usize = 80;

/// Bars from left to right, as for the seconds of a minute.
#[derive(Clone, Copy)]
pub(crate) struct Bars<'a> {
    /// A description of the chart, for readers who do not see it.
    pub label: &'a str,
    /// The height of each bar.
    pub values: &'a [u64],
    /// The part of each bar that is drawn as trouble; empty if there is no such part.
    pub bad: &'a [u64],
    /// A value of the scale as text.
    pub shown: &'a dyn Fn(u64) -> String,
    /// The texts below the chart, at equal distances.
    pub marks: &'a [String],
}

/// The value of the upper line: the greatest one, made even, so that the line in the middle has a whole value.
pub(crate) fn top(values: impl Iterator<Item = u64>) -> u64 {
    match values.max().unwrap_or(0) {
        most @ 0..=1 => most,
        most => most.saturating_add(most % 2),
    }
}

/// The text of a scale with lines at the greatest value, and at half of it.
pub(crate) fn scale(greatest: u64, shown: &dyn Fn(u64) -> String) -> String {
    match greatest {
        0 => "nothing yet".to_owned(),
        1 => format!("upper line: {}", shown(1)),
        _ => format!("upper line: {}; middle: {}", shown(greatest), shown(greatest / 2)),
    }
}

pub(crate) fn lines(width: usize, height: usize) -> Markup {
    html! {
        @for at in [0, height / 2] { line.scale x1="0" x2=(width) y1=(at) y2=(at) {} }
        line.axis x1="0" x2=(width) y1=(height) y2=(height) {}
    }
}

impl Bars<'_> {
    pub(crate) fn render(&self) -> Markup {
        let top = top(self.values.iter().copied());
        let count = self.values.len().max(1);
        html! {
            figure {
                div.scale { span { (scale(top, self.shown)) } }
                svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(self.label) {
                    (lines(WIDTH, HEIGHT))
                    @for (number, value) in self.values.iter().enumerate() {
                        @let bad = height(self.bad.get(number).copied().unwrap_or(0), top, HEIGHT);
                        @let height = height(*value, top, HEIGHT);
                        @let (left, right) = (number * WIDTH / count, (number + 1) * WIDTH / count);
                        @let width = (right - left).saturating_sub(1).max(1);
                        @if height > 0 { rect.bar x=(left) y=(HEIGHT - height) width=(width) height=(height) {} }
                        @if bad > 0 { rect.bad x=(left) y=(HEIGHT - bad) width=(width) height=(bad) {} }
                    }
                }
                div.scale { @for mark in self.marks { span { (mark) } " " } }
            }
        }
    }
}

/// The height of a bar; at least 1 if its value is not 0.
pub(crate) fn height(value: u64, greatest: u64, room: usize) -> usize {
    if value == 0 {
        return 0;
    }
    let scaled = u128::from(value) * room as u128 / u128::from(greatest.max(1));
    usize::try_from(scaled).unwrap_or(room).clamp(1, room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fit_the_chart() {
        let chart = Bars {
            label: "requests",
            values: &[0, 1, 7],
            bad: &[0, 1],
            shown: &|value| format!("{value} a second"),
            marks: &["then".into(), "now".into()],
        };
        let svg = chart.render().into_string();
        assert_eq!(svg.matches("<rect class=\"bar\"").count(), 2);
        assert_eq!(svg.matches("<rect class=\"bad\"").count(), 1);
        assert!(svg.contains("height=\"70\"") && svg.contains("height=\"10\""), "{svg}");
        assert!(svg.contains("upper line: 8 a second; middle: 4 a second"), "{svg}");
        assert!(svg.contains("<span>then</span> <span>now</span>"), "{svg}");
        assert!(!svg.contains("style="), "{svg}");
        let most = Bars { values: &[u64::MAX], bad: &[], ..chart };
        assert!(most.render().into_string().contains("height=\"80\""));
    }
}
