//! Escapes for text of clients, scripts and file names before it is shown: in the server's log, on a terminal, on an error page.

use std::fmt::{self, Display, Write};

use crate::path_text::byte_of;

/// Shows a value with its deceptive characters escaped: `\r`, `\u{202e}`. It is one line, whatever the value contains.
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping::new(out), "{}", self.0)
    }
}

/// A writer that escapes deceptive characters on their way to another one.
pub struct Escaping<'w>(&'w mut dyn Write);

impl<'w> Escaping<'w> {
    /// Writes to `out`.
    pub fn new(out: &'w mut dyn Write) -> Escaping<'w> {
        Escaping(out)
    }
}

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, character)) = rest.char_indices().find(|(_, character)| is_deceptive(*character)) {
            self.0.write_str(&rest[..at])?;
            match byte_of(character) {
                Some(byte) => write!(self.0, "\\x{byte:02x}")?,
                None => write!(self.0, "{}", character.escape_default())?,
            }
            rest = &rest[at + character.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Escapes each line of a text, which has several, such as the mistakes of a configuration or the description of a site.
pub fn escaped_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| Escaped(line).to_string()).collect();
    lines.join("\n")
}

/// Whether a character can make a text look like another one: a control character, which may end a line or steer a terminal; a line or paragraph
/// separator; or a format character, which is invisible and may reverse the text around it (Unicode Technical Report 36 §2.10).
pub fn is_deceptive(character: char) -> bool {
    match character {
        ' '..='~' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        // Letters without a shape.
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control() || byte_of(other).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn deceptive_characters_are_escaped_and_others_are_not() {
        for (text, expected) in [
            ("plain text, {\"a\": 'b'} \\", "plain text, {\"a\": 'b'} \\"),
            ("Zürich 東京 مرحبا 🙂", "Zürich 東京 مرحبا 🙂"),
            ("a\r\nb\tc\0", r"a\r\nb\tc\u{0}"),
            ("\u{1b}[2J\u{7f}\u{9b}", r"\u{1b}[2J\u{7f}\u{9b}"),
            ("\u{202e}gpj.exe\u{2066}", r"\u{202e}gpj.exe\u{2066}"),
            ("\u{200b}\u{feff}\u{2028}\u{2029}", r"\u{200b}\u{feff}\u{2028}\u{2029}"),
            ("\u{ad}\u{61c}\u{e0041}", r"\u{ad}\u{61c}\u{e0041}"),
        ] {
            assert_eq!(Escaped(text).to_string(), expected);
        }
    }

    #[test]
    fn lines_of_a_text_stay_lines() {
        assert_eq!(escaped_lines("a\rb\nc\u{202e}\n"), "a\\rb\nc\\u{202e}\n");
    }

    proptest! {
        #[test]
        fn escaped_text_is_one_line_without_deceptive_characters(text in any::<String>()) {
            let escaped = Escaped(&text).to_string();
            prop_assert!(!escaped.contains(is_deceptive));
            prop_assert_eq!(Escaped(&escaped).to_string(), escaped);
        }
    }
}
