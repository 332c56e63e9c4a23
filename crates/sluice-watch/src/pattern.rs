//! Patterns of paths and names, and a search in bytes that arrive in chunks.

use std::fmt;

use memchr::memmem;

/// A text with `*` for any characters. Letters are compared as they are.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern of this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Pattern {
        Pattern(text.into())
    }

    /// Whether the whole text matches. Time: proportional to the sum of the lengths.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let Some((first, rest)) = self.0.split_once('*') else {
            return text == self.0.as_bytes();
        };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let within = text.strip_prefix(first.as_bytes());
        let Some(mut within) = within.and_then(|text| text.strip_suffix(last.as_bytes())) else {
            return false;
        };
        // Each part where it is found first: then most is left for the others.
        for part in middle.split('*') {
            let Some(at) = memmem::find(within, part.as_bytes()) else {
                return false;
            };
            within = &within[at + part.len()..];
        }
        true
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Finds a text in bytes that arrive in chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// The end of what has arrived, shorter than the text that is searched.
    tail: Vec<u8>,
}

impl Search {
    /// Whether the text is in what has arrived so far, and was not before this chunk.
    pub(crate) fn find(&mut self, text: &[u8], chunk: &[u8]) -> bool {
        if text.is_empty() {
            return false;
        }
        let kept = text.len() - 1;
        let head = &chunk[..chunk.len().min(kept)];
        self.tail.extend_from_slice(head);
        let is_found = contains(&self.tail, text) || contains(chunk, text);
        if chunk.len() >= kept {
            self.tail.clear();
            self.tail.extend_from_slice(&chunk[chunk.len() - kept..]);
        } else {
            let surplus = self.tail.len().saturating_sub(kept);
            self.tail.drain(..surplus);
        }
        is_found
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    memmem::find(bytes, text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_characters() {
        for (pattern, text, expected) in [
            ("/cgi-bin/*", "/cgi-bin/a/b", true),
            ("/cgi-bin/*", "/cgi-bin", false),
            ("*.php", "/a.php", true),
            ("*.php", "/a.php/x", false),
            ("/*/b*d", "/a/b/bcd", true),
            ("*", "", true),
            ("", "a", false),
            ("a**", "a", true),
            ("ab*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("*ab*ab*", "xabx", false),
            ("*ab*ab*", "xababx", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "acb", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_text_is_found_across_chunks() {
        let whole = b"one two three";
        for size in 1..=whole.len() {
            let mut search = Search::default();
            let found = whole.chunks(size).filter(|chunk| search.find(b"two t", chunk)).count();
            assert_eq!(found, 1, "chunks of {size}");
        }
        assert!(!Search::default().find(b"", b"a"));
        assert!(Search::default().find(b"a", b"a"));
    }
}
