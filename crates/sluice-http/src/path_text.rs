//! Paths as text, also those whose bytes are not UTF-8.
//!
//! Names of files are bytes (path_resolution(7)); patterns, captures and logs want text. A byte that is no part of UTF-8 becomes one
//! character of a range for private use, U+10FF80 to U+10FFFF, and each byte of such a character becomes one, too. So there is one
//! text for each sequence of bytes, and only bytes of 128 and more are represented: no `/`, no `.` and no NUL arises. Both
//! directions meet where paths are decoded and encoded (`target`), where files are opened, and where scripts get their variables.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Display, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use memchr::memchr;

/// A byte is represented by the character with this number plus its own.
const BASE: u32 = 0x10_FF00;

/// The first byte, in UTF-8, of all characters that represent bytes.
const LEAD: u8 = 0xF4;

/// The byte that a character represents. `None` for a character that stands for itself.
pub fn byte_of(character: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(character).checked_sub(BASE)?).ok()?;
    (byte >= 0x80).then_some(byte)
}

/// The text for the bytes of a path.
pub fn text_of(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => match str::from_utf8(bytes) {
            Ok(text) if has_only_characters(text) => Cow::Borrowed(text),
            _ => Cow::Owned(represent(bytes)),
        },
        Cow::Owned(bytes) => match String::from_utf8(bytes) {
            Ok(text) if has_only_characters(&text) => Cow::Owned(text),
            Ok(text) => Cow::Owned(represent(text.as_bytes())),
            Err(error) => Cow::Owned(represent(error.as_bytes())),
        },
    }
}

/// The bytes of the path that a text stands for.
pub fn bytes_of(text: &str) -> Cow<'_, [u8]> {
    if has_only_characters(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// The path that a text stands for.
pub fn path_of(text: &str) -> Cow<'_, Path> {
    match bytes_of(text) {
        Cow::Borrowed(bytes) => Cow::Borrowed(Path::new(OsStr::from_bytes(bytes))),
        Cow::Owned(bytes) => Cow::Owned(PathBuf::from(std::ffi::OsString::from_vec(bytes))),
    }
}

/// The text for the bytes of a path of files, as paths of requests have it.
pub fn text_of_path(path: &Path) -> Cow<'_, str> {
    text_of(Cow::Borrowed(path.as_os_str().as_bytes()))
}

/// The text for a page: bytes that are not UTF-8 are shown as U+FFFD.
pub fn shown(text: &str) -> Cow<'_, str> {
    if has_only_characters(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(String::from_utf8_lossy(&bytes_of(text)).into_owned())
}

/// Shows a text in quotation marks for a log, as `{:?}` does; bytes that are not UTF-8 are left for `escape`.
pub struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if has_only_characters(self.0) {
            return write!(out, "{:?}", self.0);
        }
        out.write_char('"')?;
        for character in self.0.chars() {
            match byte_of(character) {
                Some(_) => out.write_char(character)?,
                None => write!(out, "{}", character.escape_debug())?,
            }
        }
        out.write_char('"')
    }
}

/// Shows a path for a log, with its bytes that are not UTF-8 for `escape`.
pub struct ShownPath<'a>(pub &'a Path);

impl Display for ShownPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&text_of_path(self.0))
    }
}

/// Whether no character of a text represents a byte.
fn has_only_characters(text: &str) -> bool {
    memchr(LEAD, text.as_bytes()).is_none() || !text.chars().any(|character| byte_of(character).is_some())
}

fn represent(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    let push_byte = |text: &mut String, byte: u8| text.extend(char::from_u32(BASE + u32::from(byte)));
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match byte_of(character) {
                None => text.push(character),
                Some(_) => {
                    let own = character.encode_utf8(&mut [0; 4]).to_owned();
                    own.bytes().for_each(|byte| push_byte(&mut text, byte));
                }
            }
        }
        chunk.invalid().iter().for_each(|byte| push_byte(&mut text, *byte));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::escape::Escaped;

    #[test]
    fn bytes_that_are_not_utf8_are_one_character_each() {
        for (bytes, text) in [
            (&b"caf\xe9"[..], "caf\u{10ffe9}"),
            (b"a\xff/\xc3\xa4\xc3", "a\u{10ffff}/\u{e4}\u{10ffc3}"),
            ("\u{10ffe9}".as_bytes(), "\u{10fff4}\u{10ff8f}\u{10ffbf}\u{10ffa9}"),
            ("\u{10ff7f}\u{1f642}".as_bytes(), "\u{10ff7f}\u{1f642}"),
        ] {
            assert_eq!(text_of(bytes.into()), text);
            assert_eq!(&*bytes_of(text), bytes);
        }
    }

    #[test]
    fn people_see_what_a_byte_is() {
        let name = text_of(b"a\"\xe9\n"[..].into());
        assert_eq!(Escaped(Quoted(&name)).to_string(), r#""a\"\xe9\n""#);
        assert_eq!(Escaped(Quoted("\u{e4}")).to_string(), "\"\u{e4}\"");
        assert_eq!(shown(&name), "a\"\u{fffd}\n");
    }

    proptest! {
        #[test]
        fn each_sequence_of_bytes_has_one_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = text_of(Cow::Borrowed(&bytes)).into_owned();
            prop_assert_eq!(&*bytes_of(&text), &bytes[..]);
            prop_assert_eq!(text_of(Cow::Owned(bytes.clone())), text.as_str());
            prop_assert_eq!(text.matches('/').count(), bytes.iter().filter(|byte| **byte == b'/').count());
        }

        #[test]
        fn text_stays_text(text in "\\PC{0,20}") {
            let represented = text_of(Cow::Borrowed(text.as_bytes()));
            prop_assert_eq!(&*bytes_of(&represented), text.as_bytes());
        }
    }
}
