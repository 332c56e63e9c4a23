//! The three sentinels of one script process, and the search for them in its output.
//!
//! The random bytes come from the server, because this crate draws none. Here also: masking. A sentinel that is only text is sent with
//! zeros for its digits, so that no client and no log shows one.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem::Finder;
use memchr::memrchr;

/// Bytes in a sentinel: `$Z-`, 24 hexadecimal digits, `-`.
pub const SENTINEL_BYTES: usize = 28;

/// Bytes of a sentinel before the part that all three share: `$Z`, `$E` or `$D`.
const LETTERS_BYTES: usize = 2;

const DIGITS: Range<usize> = 3..27;

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
/// `$` is only the first byte of a sentinel, so a prefix that turns out to be text contains no start of another one: a mark and a length suffice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartialMatch {
    /// The sentinel; while `length` is 1 it may be any other.
    pub(crate) mark: Mark,
    /// Bytes of it that are not held back, because they were sent, or are not there: what is held back is text unless its
    /// digits are complete. 0 for a sentinel that counts.
    pub(crate) start: usize,
    /// The last byte of it that has arrived, counted from its first.
    pub(crate) length: usize,
}

impl PartialMatch {
    /// Text has ended with the hyphen before the digits, and was sent.
    pub(crate) const AFTER_HYPHEN: PartialMatch = PartialMatch {
        mark: Mark::End,
        start: DIGITS.start,
        length: DIGITS.start,
    };
}

/// The first place in a script's output that needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A whole sentinel that counts, and its first byte.
    Sentinel(usize, Mark),
    /// The digits of a sentinel, in a text that does not count; the byte behind the last digit.
    Digits(usize),
}

pub(crate) enum Comparison {
    /// A whole sentinel; the first `used` of the compared bytes belong to it.
    Whole {
        mark: Mark,
        used: usize,
    },
    /// The digits are complete, and are text; the first `used` of the compared bytes belong to them.
    Digits {
        used: usize,
    },
    /// All bytes belong to a sentinel, but it is incomplete.
    Partial(PartialMatch),
    Different,
}

/// The sentinels of one script process: the same random digits with three different prefixes, so that one search finds any. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinels {
    /// End, escape and close back to back, [`SENTINEL_BYTES`] each.
    texts: Arc<str>,
}

impl Sentinels {
    /// Writes the sentinels out of 12 random bytes; the bytes must be unguessable and new for each process.
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
    pub fn escape(&self) -> &str {
        self.text(Mark::Escape)
    }

    /// The sentinel that closes a callout: `$D-…-`.
    pub fn close(&self) -> &str {
        self.text(Mark::Close)
    }

    /// The secret digits, which all three share.
    pub fn digits(&self) -> &str {
        &self.texts[DIGITS]
    }

    /// The part that all three share and that is always masked: `-` and the digits.
    pub(crate) fn shared(&self) -> &str {
        &self.texts[LETTERS_BYTES..DIGITS.end]
    }

    /// The text with zeros for the digits of these sentinels, for a log or a client.
    pub fn masked<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let finder = Finder::new(self.shared());
        let mut masked = Cow::Borrowed(text);
        let mut from = 0;
        while let Some(found) = finder.find(&text[from..]) {
            from += found + self.shared().len();
            masked.to_mut()[from - DIGITS.len()..from].fill(b'0');
        }
        masked
    }

    /// The text of a sentinel with zeros for its digits.
    pub(crate) fn masked_text(&self, mark: Mark) -> Vec<u8> {
        let mut text = self.text(mark).as_bytes().to_vec();
        text[DIGITS].fill(b'0');
        text
    }

    /// The bytes that `partial` holds back, with zeros for the digits if they are complete.
    pub(crate) fn held_text(&self, partial: PartialMatch) -> Vec<u8> {
        let held = partial.start..partial.length;
        match partial.length < DIGITS.end {
            true => self.text(partial.mark).as_bytes()[held].to_vec(),
            false => self.masked_text(partial.mark)[held].to_vec(),
        }
    }

    pub(crate) fn text(&self, mark: Mark) -> &str {
        let start = match mark {
            Mark::End => 0,
            Mark::Escape => SENTINEL_BYTES,
            Mark::Close => 2 * SENTINEL_BYTES,
        };
        &self.texts[start..start + SENTINEL_BYTES]
    }

    /// The first sentinel of `wanted` in `bytes`, or the first digits that are text; `finder` searches for the shared part.
    /// A sentinel at the very end that lacks its last byte is left to `find_partial`.
    pub(crate) fn find(&self, finder: &Finder<'_>, wanted: &[Mark], bytes: &[u8]) -> Option<Found> {
        let shared = finder.find(bytes)?;
        let end = shared + self.shared().len();
        let start = shared.checked_sub(LETTERS_BYTES);
        let mark = start.and_then(|start| Some((start, self.mark_with(wanted, &bytes[start..shared])?)));
        match (mark, bytes.get(end)) {
            (Some((start, mark)), Some(b'-')) => Some(Found::Sentinel(start, mark)),
            (Some(_), None) => None,
            _ => Some(Found::Digits(end)),
        }
    }

    fn mark_with(&self, wanted: &[Mark], letters: &[u8]) -> Option<Mark> {
        let mut wanted = wanted.iter().copied();
        wanted.find(|mark| self.text(*mark).as_bytes().starts_with(letters))
    }

    /// The prefix of a sentinel at the end of `bytes`, which contain no whole one, and where the bytes to hold back begin.
    pub(crate) fn find_partial(&self, wanted: &[Mark], bytes: &[u8]) -> Option<(usize, PartialMatch)> {
        let tail = bytes.len().saturating_sub(SENTINEL_BYTES - 1);
        let sentinel =
            memrchr(b'$', &bytes[tail..]).and_then(|start| match self.compare(wanted, None, &bytes[tail + start..]) {
                Comparison::Partial(partial) => Some((tail + start, partial)),
                _ => None,
            });
        sentinel.or_else(|| self.find_partial_digits(bytes))
    }

    /// The beginning of digits that are text: they need not follow the letters of a sentinel. A `-` alone is not held back.
    fn find_partial_digits(&self, bytes: &[u8]) -> Option<(usize, PartialMatch)> {
        let tail = bytes.len().saturating_sub(self.shared().len() - 1);
        let start = tail + memrchr(b'-', &bytes[tail..])?;
        let begun = &bytes[start..];
        if begun.len() == 1 {
            return Some((bytes.len(), PartialMatch::AFTER_HYPHEN));
        }
        let partial = PartialMatch {
            mark: Mark::End,
            start: LETTERS_BYTES,
            length: LETTERS_BYTES + begun.len(),
        };
        self.shared().as_bytes().starts_with(begun).then_some((start, partial))
    }

    /// Compares `partial` and the bytes that follow it, `more`, with the sentinels of `wanted`.
    pub(crate) fn compare(&self, wanted: &[Mark], partial: Option<PartialMatch>, more: &[u8]) -> Comparison {
        if let Some(partial) = partial.filter(|partial| partial.start > 0) {
            return self.compare_digits(partial, more);
        }
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
                return Comparison::Partial(PartialMatch { mark, start: 0, length: length + more.len() });
            }
        }
        match partial {
            // No sentinel, for lack of its last byte, but its digits may be complete.
            Some(partial) if partial.length >= DIGITS.start => self.compare_digits(partial, more),
            _ => Comparison::Different,
        }
    }

    fn compare_digits(&self, partial: PartialMatch, more: &[u8]) -> Comparison {
        let rest = &self.text(partial.mark).as_bytes()[partial.length..DIGITS.end];
        if more.starts_with(rest) {
            Comparison::Digits { used: rest.len() }
        } else if rest.starts_with(more) {
            Comparison::Partial(PartialMatch { length: partial.length + more.len(), ..partial })
        } else {
            Comparison::Different
        }
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
            assert_eq!(&text[LETTERS_BYTES..DIGITS.end], sentinels.shared());
        }
    }

    #[test]
    fn debug_shows_no_digits() {
        assert!(!format!("{:?}", sentinels()).contains("0123"));
    }

    #[test]
    fn the_shared_digits_after_other_letters_are_text() {
        let sentinels = sentinels();
        let finder = Finder::new(sentinels.shared());
        let find = |wanted: &[Mark], text: &str| sentinels.find(&finder, wanted, text.as_bytes());
        let (shared, close) = (sentinels.shared(), sentinels.close());
        let all = [Mark::End, Mark::Escape, Mark::Close];
        assert_eq!(find(&all, &format!("a{close}")), Some(Found::Sentinel(1, Mark::Close)));
        assert_eq!(find(&[Mark::End], &format!("a{close}")), Some(Found::Digits(28)));
        assert_eq!(find(&all, &format!("$X{shared}-")), Some(Found::Digits(27)));
        assert_eq!(find(&all, shared), Some(Found::Digits(25)));
        assert_eq!(find(&all, &format!("$D{shared}")), None, "its last byte may follow");
        assert_eq!(find(&all, &format!("$D{shared}x")), Some(Found::Digits(27)));
    }

    #[test]
    fn a_partial_sentinel_at_the_end_is_found() {
        let sentinels = sentinels();
        for length in 1..SENTINEL_BYTES {
            let text = format!("$$Z-{}", &sentinels.escape()[..length]);
            let (start, partial) = sentinels
                .find_partial(&[Mark::End, Mark::Escape], text.as_bytes())
                .unwrap();
            assert_eq!((start, partial.start, partial.length), (4, 0, length));
        }
    }

    #[test]
    fn partial_digits_are_found_behind_any_letters() {
        let sentinels = sentinels();
        let find = |text: &str| {
            let found = sentinels.find_partial(&[Mark::End], text.as_bytes());
            found.map(|(start, partial)| (start, partial.start, partial.length))
        };
        assert_eq!(find("$E-01"), Some((2, 2, 5)));
        assert_eq!(find("%24Z-0123"), Some((4, 2, 7)));
        assert_eq!(find("a-"), Some((2, 3, 3)), "a hyphen is sent at once");
        assert_eq!(find("a-02"), None);
        assert_eq!(find("a"), None);
    }

    #[test]
    fn masked_text_shows_no_digits() {
        let sentinels = sentinels();
        let text = format!(
            "{} {}x{}",
            sentinels.end(),
            &sentinels.close()[2..],
            &sentinels.end()[..26]
        );
        let zeros = "0".repeat(24);
        let expected = format!("$Z-{zeros}- -{zeros}-x{}", &sentinels.end()[..26]);
        assert_eq!(sentinels.masked(text.as_bytes()), expected.as_bytes());
        assert!(matches!(sentinels.masked(b"-0123"), Cow::Borrowed(_)));
    }
}
