//! An event as a line of text, after WASD's.
//!
//! ```text
//! 14:05:08.672341 decide    000012 mapping         route 3, "/cgi-bin/*": matches
//! ```
//! Time (UTC), module, number of the connection or exchange, item, text. Further lines of the text follow, indented. Control characters are
//! escaped, because the text comes from clients and scripts and is read on a terminal.

use std::fmt::{self, Write as _};

use jiff::Timestamp;

use crate::event::{Content, Event};
use crate::item::Item;

/// Columns before the text.
const INDENT: usize = 49;

const ROW_BYTES: usize = 16;

/// Columns of such a row: the offset, the digits, the text.
const ROW_COLUMNS: usize = 7 + 3 * ROW_BYTES + 2 + ROW_BYTES;

/// An event, written as one or several lines, each with its newline.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a>(pub &'a Event);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(event) = self;
        let Event { module, number, .. } = event;
        let time = Timestamp::try_from(event.at).unwrap_or_default();
        write!(f, "{} {module:<9} ", time.strftime("%H:%M:%S%.6f"))?;
        write!(f, "{number:06} {:<15} ", event.item.name())?;
        let text = text_of(event);
        let mut lines = text.lines();
        writeln!(f, "{}", Escaped(lines.next().unwrap_or_default()))?;
        lines.try_for_each(|line| writeln!(f, "{:INDENT$}{}", "", Escaped(line)))
    }
}

/// The text after the columns; not escaped.
pub(crate) fn text_of(event: &Event) -> String {
    match &event.content {
        Content::Text(text) => text.clone(),
        Content::Bytes { direction, bytes, omitted } => {
            let mut text = format!("{} {} bytes", direction.name(), bytes.len() + omitted);
            if *omitted > 0 {
                let _ = write!(text, ", {omitted} of them not shown, nor any that follow");
            }
            text.push('\n');
            match std::str::from_utf8(bytes) {
                Ok(shown) if event.item != Item::Octets && is_text(shown) => text.push_str(shown),
                _ => text.push_str(&hex_dump(bytes)),
            }
            text
        }
    }
}

fn is_text(text: &str) -> bool {
    text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'))
}

pub(crate) fn hex_digits(byte: u8) -> [char; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [byte >> 4, byte & 15].map(|value| char::from(DIGITS[usize::from(value)]))
}

/// Bytes as rows of 16: offset, hexadecimal, text.
#[must_use]
pub fn hex_dump(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(ROW_BYTES) * (ROW_COLUMNS + 1));
    for (index, row) in bytes.chunks(ROW_BYTES).enumerate() {
        let _ = write!(text, "{:06x} ", index * ROW_BYTES);
        for byte in row {
            text.push(' ');
            text.extend(hex_digits(*byte));
        }
        (row.len()..ROW_BYTES).for_each(|_| text.push_str("   "));
        let shown = |byte: &u8| match *byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        text.push_str("  ");
        text.extend(row.iter().map(shown));
        text.push('\n');
    }
    text
}

pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\t' => f.write_char(c)?,
                c if c.is_control() || is_bidirectional(c) => write!(f, "{}", c.escape_unicode())?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Characters that change the direction of text could make a line look like another.
fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::event::Direction;

    fn event(item: Item, content: Content) -> Event {
        Event {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(50_708_672_341),
            since: Duration::ZERO,
            module: "decide",
            item,
            number: 12,
            connection: None,
            id: None,
            content,
        }
    }

    #[test]
    fn a_line_has_time_module_number_item_and_text() {
        let event = event(Item::Mapping, Content::Text("route 1\n\x1b[2Jroute 2".into()));
        assert_eq!(
            Line(&event).to_string(),
            format!(
                "14:05:08.672341 decide    000012 mapping         route 1\n{:49}\\u{{1b}}[2Jroute 2\n",
                ""
            )
        );
    }

    #[test]
    fn bytes_are_text_or_a_hex_dump() {
        let bytes = |item, bytes: &[u8], omitted| {
            let bytes = bytes.to_vec();
            let content = Content::Bytes { direction: Direction::Sent, bytes, omitted };
            Line(&event(item, content)).to_string()
        };
        assert!(bytes(Item::Mailbox, b"hello", 3).ends_with("sent 8 bytes, 3 of them not shown, nor any that follow\n                                                 hello\n"));
        let dump = bytes(Item::Octets, b"hello\0", 0);
        assert!(
            dump.ends_with("000000  68 65 6c 6c 6f 00                                hello.\n"),
            "{dump}"
        );
        assert!(bytes(Item::Mailbox, b"\xff", 0).contains("000000  ff "));
    }
}
