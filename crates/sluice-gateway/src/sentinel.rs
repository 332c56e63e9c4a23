//! The three sentinels of one script process, and the search for them in its output.
//!
//! The random bytes come from the server, because this crate draws none. Not here: which sentinels count at which point
//! of the output (`scanner`), and how the script learns them (`environment`, `meta_variables`).

use std::fmt;
use std::sync::Arc;

use memchr::memmem::Finder;
use memchr::memrchr;

/// Bytes in a sentinel: `$Z-`, 24 hexadecimal digits, `-`.
pub const SENTINEL_BYTES: usize = 28;

/// Bytes of a sentinel before the part that all three share: `$Z`, `$E` or `$D`.
const LETTERS_BYTES: usize = 2;

/// The meaning of a sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The response is complete (`$Z`, CGIPLUSEOF).
    End,
    /// A callout begins (`$E`, CGIPLUSESC).
    Escape,
    /// The callout is over (`$D`, CGIPLUSEOT).
    Close,
}

/// A prefix of a sentinel at the end of the output received so far.
///
/// `$` is the first byte of a sentinel and occurs nowhere else in one. So a prefix that turns out to be text cannot
/// contain the start of another sentinel, and a mark and a length are enough to remember.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartialMatch {
    /// The sentinel; while `length` is 1 it may be any other.
    pub(crate) mark: Mark,
    /// Bytes of it that have arrived.
    pub(crate) length: usize,
}

/// The result of a comparison with the sentinels.
pub(crate) enum Comparison {
    /// A whole sentinel; the first `used` of the compared bytes belong to it.
    Whole { mark: Mark, used: usize },
    /// All bytes belong to a sentinel, but it is incomplete.
    Partial(PartialMatch),
    /// No sentinel.
    Different,
}

/// The sentinels of one script process: the same random digits with three different prefixes.
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

    /// The part that all three share: `-`, the digits, `-`.
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

    /// Start and mark of the first whole sentinel of `wanted` in `bytes`; `finder` searches for the shared part.
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

    /// Start and length of a prefix of a sentinel of `wanted` at the end of `bytes`, which contain no whole one.
    pub(crate) fn find_partial(&self, wanted: &[Mark], bytes: &[u8]) -> Option<(usize, PartialMatch)> {
        let tail = bytes.len().saturating_sub(SENTINEL_BYTES - 1);
        let start = tail + memrchr(b'$', &bytes[tail..])?;
        match self.compare(wanted, None, &bytes[start..]) {
            Comparison::Partial(partial) => Some((start, partial)),
            Comparison::Whole { .. } | Comparison::Different => None,
        }
    }

    /// Compares `partial` and the bytes that follow it, `more`, with the sentinels of `wanted`.
    pub(crate) fn compare(&self, wanted: &[Mark], partial: Option<PartialMatch>, more: &[u8]) -> Comparison {
        let length = partial.map_or(0, |partial| partial.length);
        for mark in wanted.iter().copied() {
            if partial.is_some_and(|partial| partial.length > 1 && partial.mark != mark) {
                continue;
            }
            let rest = &self.text(mark).as_bytes()[length..];
            if more.starts_with(rest) {
                return Comparison::Whole { mark, used: rest.len() };
            }
            if rest.starts_with(more) {
                return Comparison::Partial(PartialMatch {
                    mark,
                    length: length + more.len(),
                });
            }
        }
        Comparison::Different
    }
}

/// Omits the digits, a secret between the server and one script, because this text may go into logs.
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
    fn the_shared_digits_after_other_letters_are_not_a_sentinel() {
        let sentinels = sentinels();
        let finder = Finder::new(sentinels.shared());
        let text = format!("{0} $X{0} {1}", sentinels.shared(), sentinels.close());
        let all = [Mark::End, Mark::Escape, Mark::Close];
        let found = sentinels.find(&finder, &all, text.as_bytes());
        assert_eq!(found, Some((26 + 1 + 28 + 1, Mark::Close)));
        assert_eq!(sentinels.find(&finder, &[Mark::End], text.as_bytes()), None);
    }

    #[test]
    fn a_partial_sentinel_at_the_end_is_found() {
        let sentinels = sentinels();
        for length in 1..SENTINEL_BYTES {
            let text = format!("$$Z-{}", &sentinels.escape()[..length]);
            let (start, partial) = sentinels
                .find_partial(&[Mark::End, Mark::Escape], text.as_bytes())
                .unwrap();
            assert_eq!((start, partial.length), (4, length));
        }
        assert!(sentinels.find_partial(&[Mark::End], b"$E-01").is_none());
    }
}
