//! The three sentinels of one script process, and how a text is known as one of them.
//!
//! The random bytes come from the server: this crate makes none. Where sentinels are looked for in a script's output is
//! the business of `scanner`; where the script learns them, of `environment` and `variables`.

use std::fmt;
use std::sync::Arc;

use memchr::memmem::Finder;
use memchr::memrchr;

/// Bytes in a sentinel: `$Z-`, 24 hexadecimal digits, `-`.
pub const SENTINEL_BYTES: usize = 28;

/// Bytes of a sentinel before the part that all three share (`$Z`, `$E` or `$D`).
const LETTERS_BYTES: usize = 2;

/// What a sentinel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The response is complete (`$Z`, CGIPLUSEOF).
    End,
    /// A callout begins (`$E`, CGIPLUSESC).
    Escape,
    /// The callout is over (`$D`, CGIPLUSEOT).
    Close,
}

/// The beginning of a sentinel at the end of what has arrived so far.
///
/// `$` is the first byte of a sentinel and occurs nowhere else in one: a beginning that turns out to be none cannot hide
/// another, so a mark and a length are all that must be remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// The sentinel begun; while `length` is 1 it may become any other.
    pub(crate) mark: Mark,
    /// Bytes of it that have arrived.
    pub(crate) length: usize,
}

/// What a comparison with the sentinels came to.
pub(crate) enum Comparison {
    /// A whole sentinel; `used` bytes of what was compared belong to it.
    Whole { mark: Mark, used: usize },
    /// All that there is belongs to a sentinel, but more must come.
    Begun(Beginning),
    /// No sentinel.
    Different,
}

/// The sentinels of one script process: one random text with three different beginnings.
///
/// All three carry the same digits, so that one search finds any of them. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinels {
    /// End, escape and close back to back, [`SENTINEL_BYTES`] each.
    texts: Arc<str>,
}

impl Sentinels {
    /// Writes the sentinels out of 12 random bytes; the bytes must be unguessable and new for each process.
    #[must_use]
    pub fn from_random(bytes: [u8; 12]) -> Sentinels {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut texts = String::with_capacity(3 * SENTINEL_BYTES);
        for letters in ["$Z-", "$E-", "$D-"] {
            texts.push_str(letters);
            for byte in bytes {
                texts.push(char::from(DIGITS[usize::from(byte >> 4)]));
                texts.push(char::from(DIGITS[usize::from(byte & 0xf)]));
            }
            texts.push('-');
        }
        Sentinels { texts: texts.into() }
    }

    /// The sentinel that ends a response: `$Z-…-`.
    #[must_use]
    pub fn end(&self) -> &str {
        self.text(Mark::End)
    }

    /// The sentinel that opens a callout: `$E-…-`.
    #[must_use]
    pub fn escape(&self) -> &str {
        self.text(Mark::Escape)
    }

    /// The sentinel that closes a callout: `$D-…-`.
    #[must_use]
    pub fn close(&self) -> &str {
        self.text(Mark::Close)
    }

    /// What all three have in common: `-`, the digits, `-`.
    pub(crate) fn shared(&self) -> &str {
        &self.texts[LETTERS_BYTES..SENTINEL_BYTES]
    }

    pub(crate) fn text(&self, mark: Mark) -> &str {
        let start = match mark {
            Mark::End => 0,
            Mark::Escape => SENTINEL_BYTES,
            Mark::Close => 2 * SENTINEL_BYTES,
        };
        &self.texts[start..start + SENTINEL_BYTES]
    }

    /// Where the first sentinel out of `wanted` begins that is whole in `bytes`; `finder` looks for the shared part.
    pub(crate) fn find(&self, finder: &Finder<'_>, wanted: &[Mark], bytes: &[u8]) -> Option<(usize, Mark)> {
        let mut from = 0;
        while let Some(found) = finder.find(&bytes[from..]) {
            let shared = from + found;
            let mark = shared.checked_sub(LETTERS_BYTES).and_then(|start| {
                let letters = &bytes[start..shared];
                let mark = wanted
                    .iter()
                    .find(|mark| self.text(**mark).as_bytes().starts_with(letters));
                mark.map(|mark| (start, *mark))
            });
            if mark.is_some() {
                return mark;
            }
            from = shared + 1;
        }
        None
    }

    /// Where a sentinel out of `wanted` begins that `bytes` end in the middle of; `bytes` hold no whole one.
    pub(crate) fn find_beginning(&self, wanted: &[Mark], bytes: &[u8]) -> Option<(usize, Beginning)> {
        let tail = bytes.len().saturating_sub(SENTINEL_BYTES - 1);
        let start = tail + memrchr(b'$', &bytes[tail..])?;
        match self.compare(wanted, None, &bytes[start..]) {
            Comparison::Begun(beginning) => Some((start, beginning)),
            Comparison::Whole { .. } | Comparison::Different => None,
        }
    }

    /// Compares `more`, which follows `begun`, with the sentinels out of `wanted`.
    pub(crate) fn compare(&self, wanted: &[Mark], begun: Option<Beginning>, more: &[u8]) -> Comparison {
        let length = begun.map_or(0, |begun| begun.length);
        for mark in wanted.iter().copied() {
            if begun.is_some_and(|begun| begun.length > 1 && begun.mark != mark) {
                continue;
            }
            let rest = &self.text(mark).as_bytes()[length..];
            if more.starts_with(rest) {
                return Comparison::Whole { mark, used: rest.len() };
            }
            if rest.starts_with(more) {
                return Comparison::Begun(Beginning {
                    mark,
                    length: length + more.len(),
                });
            }
        }
        Comparison::Different
    }
}

/// The digits are a secret between the server and one script: they do not go into logs.
impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sentinels(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinels() -> Sentinels {
        Sentinels::from_random([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x00, 0xff, 0x10, 0x0f])
    }

    #[test]
    fn sentinels_have_the_form_of_wasd() {
        let sentinels = sentinels();
        assert_eq!(sentinels.end(), "$Z-0123456789abcdef00ff100f-");
        assert_eq!(sentinels.escape(), "$E-0123456789abcdef00ff100f-");
        assert_eq!(sentinels.close(), "$D-0123456789abcdef00ff100f-");
        assert_eq!(sentinels.end().len(), SENTINEL_BYTES);
    }

    #[test]
    fn the_shared_part_is_in_all_three() {
        let sentinels = sentinels();
        for text in [sentinels.end(), sentinels.escape(), sentinels.close()] {
            assert_eq!(&text[LETTERS_BYTES..], sentinels.shared());
        }
    }

    #[test]
    fn debug_shows_no_digits() {
        assert!(!format!("{:?}", sentinels()).contains("0123"));
    }

    #[test]
    fn the_same_digits_after_other_letters_are_no_sentinel() {
        let sentinels = sentinels();
        let finder = Finder::new(sentinels.shared());
        let text = format!("{0} $X{0} {1}", sentinels.shared(), sentinels.close());
        let all = [Mark::End, Mark::Escape, Mark::Close];
        let found = sentinels.find(&finder, &all, text.as_bytes());
        assert_eq!(found, Some((26 + 1 + 28 + 1, Mark::Close)));
        assert_eq!(sentinels.find(&finder, &[Mark::End], text.as_bytes()), None);
    }

    #[test]
    fn a_beginning_at_the_very_end_is_found() {
        let sentinels = sentinels();
        for length in 1..SENTINEL_BYTES {
            let text = format!("$$Z-{}", &sentinels.escape()[..length]);
            let (start, begun) = sentinels
                .find_beginning(&[Mark::End, Mark::Escape], text.as_bytes())
                .unwrap();
            assert_eq!((start, begun.length), (4, length));
        }
        assert!(sentinels.find_beginning(&[Mark::End], b"$E-01").is_none());
    }
}
