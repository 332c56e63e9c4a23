//! `sluice watch --waterfall`: where the time of each request went, as bars behind the event of its item `timing`.
//!
//! ```text
//!    waterfall 000012: GET /cgi-bin/report, 200 OK, 2014.441 ms
//!    decided     ▏                                     0.205 ms
//!    process     ▏                                     2.118 ms
//!    head        ██████████████████████████████████ 2010.938 ms
//! ```
//! The events are found again in the lines that the server sends (`sluice_watch::Line`). Other lines are passed on unchanged.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;

use sluice_watch::{Item, Moment, Phase, Timing};

/// Columns where no terminal says how many it has.
const COLUMNS: usize = 80;

/// Columns that are used: a longer bar says no more.
const COLUMNS_USED: std::ops::RangeInclusive<usize> = 40..=160;

/// Columns before a picture.
const INDENT: usize = 3;

const NAME_COLUMNS: usize = 11;

const TIME_COLUMNS: usize = 15;

/// Columns of a description, and the fewest of the whole line with which it is shown.
const DESCRIPTION_COLUMNS: usize = 40;
const WIDE_COLUMNS: usize = 110;

/// Requests whose heads are kept until their times come.
const HEADS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Blocks, to an eighth of a column.
    Blocks,
    /// ASCII, for a terminal that is not UTF-8.
    Ascii,
}

impl Style {
    /// The style for the terminal, by the locale (locale(7)).
    fn of_locale(variable: impl Fn(&str) -> Option<String>) -> Style {
        let names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
        let locale = names.filter_map(variable).find(|value| !value.is_empty());
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        match locale.contains("utf-8") || locale.contains("utf8") {
            true => Style::Blocks,
            false => Style::Ascii,
        }
    }
}

pub(super) struct Waterfall {
    columns: usize,
    style: Style,
    /// The first lines of requests and responses, by the numbers of the requests.
    heads: HashMap<String, Head>,
    /// The number of the request and the text of the event of the item `timing` whose lines are being read.
    timing: Option<(String, String)>,
}

#[derive(Default)]
struct Head {
    request: String,
    response: String,
}

/// Number, item and text of an event's first line: `14:05:08.672341 decide    000012 mapping         text`. `None` of other lines.
fn first_line(line: &str) -> Option<[&str; 3]> {
    if !line.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let rest = after_word(after_word(line));
    let (number, rest) = (rest.split(' ').next()?, after_word(rest));
    Some([number, rest.split(' ').next()?, after_word(rest)])
}

/// The text behind the first word and the blanks after it.
fn after_word(text: &str) -> &str {
    text.split_once(' ')
        .map_or("", |(_, rest)| rest.trim_start_matches(' '))
}

impl Waterfall {
    pub(super) fn new() -> Waterfall {
        let variable = |name: &str| std::env::var(name).ok();
        let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let columns = terminal.map(|size| size.ws_col.into()).filter(|columns| *columns > 0);
        let columns = columns.or_else(|| variable("COLUMNS")?.parse().ok());
        Waterfall::of(columns.unwrap_or(COLUMNS), Style::of_locale(variable))
    }

    fn of(columns: usize, style: Style) -> Waterfall {
        Waterfall {
            columns: columns.clamp(*COLUMNS_USED.start(), *COLUMNS_USED.end()),
            style,
            heads: HashMap::new(),
            timing: None,
        }
    }

    /// The lines, with pictures.
    pub(super) fn add(&mut self, lines: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            shown.extend_from_slice(line);
            if let Ok(line) = std::str::from_utf8(line)
                && let Some(picture) = self.read(line.trim_end_matches('\n'))
            {
                shown.extend_from_slice(picture.as_bytes());
            }
        }
        shown
    }

    /// Reads a line. With the last one of an event of times, the picture.
    fn read(&mut self, line: &str) -> Option<String> {
        if let Some(first) = first_line(line) {
            self.timing = None;
            self.begin(first);
            return None;
        }
        let (_, text) = self.timing.as_mut()?;
        text.push('\n');
        text.push_str(line);
        let is_last = line.split_whitespace().nth(4) == Some(Phase::End.name());
        let (number, text) = self.timing.take_if(|_| is_last)?;
        let head = self.heads.remove(&number).unwrap_or_default();
        let timing: Timing = text.parse().ok()?;
        Some(self.draw(&number, &head, &timing))
    }

    fn begin(&mut self, [number, item, text]: [&str; 3]) {
        let is = |wanted: Item| item == wanted.name();
        if is(Item::Timing) {
            self.timing = Some((number.to_owned(), text.to_owned()));
        } else if is(Item::RequestHead) || is(Item::ResponseHead) {
            if self.heads.len() >= HEADS_MAX {
                self.heads.clear();
            }
            let head = self.heads.entry(number.to_owned()).or_default();
            match is(Item::RequestHead) {
                true => text.clone_into(&mut head.request),
                false => text.clone_into(&mut head.response),
            }
        }
    }

    fn draw(&self, number: &str, head: &Head, timing: &Timing) -> String {
        let total = timing.total_us();
        let mut text = format!("{:INDENT$}waterfall {number}: ", "");
        // Without the version.
        let request = &*head.request;
        let request = request.rsplit_once(" HTTP/").map_or(request, |(line, _)| line);
        for part in [request, &head.response].into_iter().filter(|part| !part.is_empty()) {
            let _ = write!(text, "{part}, ");
        }
        let _ = writeln!(text, "{}", milliseconds(total));
        let is_wide = self.columns >= WIDE_COLUMNS;
        let others = INDENT + NAME_COLUMNS + TIME_COLUMNS + if is_wide { DESCRIPTION_COLUMNS } else { 0 };
        let bar_columns = self.columns.saturating_sub(others).max(1);
        let mut begin = 0;
        for Moment { phase, at_us } in &timing.moments {
            let took = at_us.saturating_sub(begin);
            let bar = self.bar(begin, *at_us, total, bar_columns);
            let padding = bar_columns.saturating_sub(bar.chars().count());
            let (name, time) = (phase.name(), milliseconds(took));
            let _ = write!(
                text,
                "{:INDENT$}{name:<NAME_COLUMNS$}{bar}{:padding$}{time:>TIME_COLUMNS$}",
                "", ""
            );
            if is_wide {
                let _ = write!(text, "  {}", phase.description());
            }
            text.push('\n');
            begin = *at_us;
        }
        text
    }

    /// A bar from `begin` to `end` of `total`, microseconds, in so many columns. Every bar can be seen, however short the time.
    fn bar(&self, begin: u64, end: u64, total: u64, columns: usize) -> String {
        const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        let eighths = |at: u64| {
            let all = columns as u128 * 8;
            usize::try_from(u128::from(at) * all / u128::from(total.max(1))).unwrap_or(columns * 8)
        };
        // It begins at a column, and is as long as it is.
        let first = (eighths(begin) / 8).min(columns - 1);
        let length = eighths(end)
            .saturating_sub(eighths(begin))
            .clamp(1, (columns - first) * 8);
        let mut bar = " ".repeat(first);
        match self.style {
            Style::Blocks => {
                bar.extend(std::iter::repeat_n('█', length / 8));
                bar.extend(Some(EIGHTHS[length % 8]).filter(|part| *part != ' '));
            }
            Style::Ascii => bar.extend(std::iter::repeat_n('#', length.div_ceil(8))),
        }
        bar
    }
}

fn milliseconds(us: u64) -> String {
    format!("{}.{:03} ms", us / 1000, us % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
-- watching usual items of all requests
15:25:05.910367 request   000012 request-head    GET /a?b HTTP/1.1
                                                 host: localhost
15:25:05.910903 response  000012 response-head   200 OK
15:25:05.911153 response  000012 timing          8.000 ms
                                                      2.000 ms      2.000 ms  decided     routes and files
                                                      7.500 ms      5.500 ms  head        head of the reply, to its end
                                                      8.000 ms      0.500 ms  end         end
15:25:05.911154 net       000011 connection      kept
";

    fn pictures(columns: usize, style: Style) -> String {
        let mut waterfall = Waterfall::of(columns, style);
        // In chunks of one line each.
        let mut shown = Vec::new();
        for line in LINES.split_inclusive('\n') {
            shown.extend(waterfall.add(line.as_bytes()));
        }
        assert_eq!(shown, Waterfall::of(columns, style).add(LINES.as_bytes()));
        let shown = String::from_utf8(shown).unwrap();
        let only: Vec<&str> = shown
            .lines()
            .filter(|line| !LINES.lines().any(|own| own == *line))
            .collect();
        only.join("\n")
    }

    #[test]
    fn bars_stand_where_the_time_went() {
        let picture = "
   waterfall 000012: GET /a?b, 200 OK, 8.000 ms
   decided    ####                   2.000 ms
   head           ###########        5.500 ms
   end                       #       0.500 ms";
        assert_eq!(format!("\n{}", pictures(45, Style::Ascii)), picture);
        let blocks = "
   waterfall 000012: GET /a?b, 200 OK, 8.000 ms
   decided    ████                   2.000 ms
   head           ███████████        5.500 ms
   end                       █       0.500 ms";
        assert_eq!(format!("\n{}", pictures(45, Style::Blocks)), blocks);
        assert!(pictures(120, Style::Blocks).contains("routes and files"));
        assert_eq!(pictures(1, Style::Ascii).lines().count(), 4);
    }

    #[test]
    fn a_short_time_is_seen() {
        let waterfall = Waterfall::of(80, Style::Blocks);
        assert_eq!(waterfall.bar(0, 1, 1_000_000, 10), "▏");
        assert_eq!(waterfall.bar(1_000_000, 1_000_000, 1_000_000, 10), "         ▏");
        assert_eq!(waterfall.bar(0, 0, 0, 10), "▏");
    }

    #[test]
    fn the_locale_says_whether_blocks_can_be_shown() {
        let style = |values: [(&str, &str); 2]| {
            Style::of_locale(|name| {
                let found = values.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(style([("LC_ALL", ""), ("LANG", "C.UTF-8")]), Style::Blocks);
        assert_eq!(style([("LC_ALL", "C"), ("LANG", "C.UTF-8")]), Style::Ascii);
        assert_eq!(style([("LC_CTYPE", "de_DE.utf8"), ("LANG", "C")]), Style::Blocks);
    }
}
