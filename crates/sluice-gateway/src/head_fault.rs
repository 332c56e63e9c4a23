//! The errors in the head of a script's reply, with messages for the script's author.

use std::fmt;

/// Why a script's reply has no valid head. Always the script's fault. An excerpt is of the line that is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// The script wrote nothing at all.
    Empty,
    /// The output ended before the empty line, after so many complete lines, within this line.
    Incomplete(usize, Excerpt),
    /// The reply begins with an empty line.
    EmptyFirstLine,
    /// A line is not `Name: value`; its number, from 1.
    NotAField(usize, Excerpt),
    /// A space or tab between a field's name and its colon (RFC 9112 §5.1).
    BlankBeforeColon(Excerpt),
    /// A line begins with a space or tab: it is indented, or folded (obsolete, RFC 9112 §5.2).
    Folded(Excerpt),
    /// A field's value holds a control character.
    BadValue(Excerpt),
    /// The head is longer than the limit, in bytes.
    TooLarge(usize),
    /// The head has more fields than the limit.
    TooManyFields(usize),
    /// The field with this name may occur once, and occurs with different values.
    Conflict(&'static str),
    /// The status is not a number with three digits from 200 to 599, or 101.
    BadStatus(Excerpt),
    /// `Content-Length` is not a number.
    BadContentLength(Excerpt),
    /// `Location` is empty.
    EmptyLocation,
    /// The reply has a transfer coding other than `chunked`. The server frames the body, and removes no other coding.
    TransferEncoding(Excerpt),
    /// After an interim response (1xx) the reply has no status line.
    NoFinalStatus(Excerpt),
}

impl fmt::Display for HeadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadFault::Empty => f.write_str("the script wrote no reply"),
            HeadFault::Incomplete(lines, text) => write!(
                f,
                "the reply ended inside its head, at {text} after {lines} complete lines: end the head with an empty line"
            ),
            HeadFault::EmptyFirstLine => f.write_str(
                "the reply begins with an empty line: write a header field before it, such as \"Content-Type: text/html\"",
            ),
            HeadFault::NotAField(1, text) => write!(
                f,
                "the first line of the reply is not a header field: {text}: \
                 write \"Content-Type: text/html\" or another field, then an empty line, before the body"
            ),
            HeadFault::NotAField(line, text) => write!(
                f,
                "line {line} of the reply's head is not a header field: {text}: write an empty line between head and body"
            ),
            HeadFault::BlankBeforeColon(text) => {
                write!(f, "a header field has a blank before its colon: {text}: write \"Name: value\"")
            }
            HeadFault::Folded(text) => {
                write!(f, "a line of the reply's head begins with a blank: {text}: write each field in one line, from its start")
            }
            HeadFault::BadValue(text) => write!(f, "a header field holds a control character: {text}: leave it out"),
            HeadFault::TooLarge(bytes_max) => write!(
                f,
                "the reply's head is longer than {bytes_max} bytes: end it with an empty line, or write fewer and shorter fields"
            ),
            HeadFault::TooManyFields(fields_max) => {
                write!(f, "the reply's head has more than {fields_max} fields: write fewer")
            }
            HeadFault::Conflict(name) => {
                write!(f, "the reply has more than one {name} field, and they differ: write one")
            }
            HeadFault::BadStatus(text) => write!(
                f,
                "the reply's status is not valid: {text}: write \"Status: 404 Not Found\" with a number from 200 to 599, or 101"
            ),
            HeadFault::BadContentLength(text) => {
                write!(f, "the reply's Content-Length is not a number of bytes: {text}: write digits, or leave it out")
            }
            HeadFault::EmptyLocation => f.write_str("the reply's Location is empty: write a path or a URL, or leave it out"),
            HeadFault::TransferEncoding(text) => write!(
                f,
                "the reply has another Transfer-Encoding than chunked: {text}: leave the field out and write the body plainly"
            ),
            HeadFault::NoFinalStatus(text) => write!(
                f,
                "after an interim response (1xx) the reply has no status line: {text}: write \"HTTP/1.1 200 OK\" or another"
            ),
        }
    }
}

impl std::error::Error for HeadFault {}

/// The start of some output of the script, for a message: everything but plain text is escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    /// Characters in the longest excerpt, enough to find the line in a program. An escape sequence counts as one.
    const CHARACTERS_MAX: usize = 60;

    /// The start of `bytes`.
    pub fn of(bytes: &[u8]) -> Excerpt {
        let mut text = String::new();
        let mut characters = 0;
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid().chars().map(escaped);
            let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
            for character in valid.chain(invalid) {
                if characters == Excerpt::CHARACTERS_MAX {
                    text.push('…');
                    return Excerpt(text);
                }
                characters += 1;
                text.push_str(&character);
            }
        }
        Excerpt(text)
    }

    /// The text, escaped and without quotation marks around it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// Escapes a character for use between double quotation marks.
fn escaped(character: char) -> String {
    match character {
        '\'' => character.to_string(),
        _ => character.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_excerpt_shows_text_and_escapes_the_rest() {
        assert_eq!(
            Excerpt::of("Grüße, \"Welt's\"".as_bytes()).as_str(),
            "Grüße, \\\"Welt's\\\""
        );
        assert_eq!(Excerpt::of(b"a\x00\x1b[1m\xff\n").as_str(), "a\\0\\u{1b}[1m\\xff\\n");
    }

    #[test]
    fn a_long_excerpt_is_truncated_with_an_ellipsis() {
        assert_eq!(Excerpt::of(&[b'a'; 60]).as_str(), "a".repeat(60));
        assert_eq!(Excerpt::of(&[b'a'; 61]).as_str(), "a".repeat(60) + "…");
        assert_eq!(Excerpt::of(&[0xff; 1000]).as_str(), "\\xff".repeat(60) + "…");
    }

    #[test]
    fn the_message_says_what_to_write() {
        let fault = HeadFault::NotAField(1, Excerpt::of(b"Hello"));
        let text = fault.to_string();
        assert!(
            text.starts_with("the first line of the reply is not a header field: \"Hello\""),
            "{text}"
        );
        assert!(text.contains("Content-Type: text/html"), "{text}");
    }

    proptest! {
        #[test]
        fn an_excerpt_is_always_short_and_printable(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let excerpt = Excerpt::of(&bytes);
            prop_assert!(!excerpt.as_str().chars().any(char::is_control));
            let longest = Excerpt::CHARACTERS_MAX * "\\u{10ffff}".len() + "…".len();
            prop_assert!(excerpt.as_str().len() <= longest);
        }
    }
}
