//! Secrets of one exchange that are known as bytes: they are masked wherever they stand.
//!
//! Here: a list of them, and a mask of bytes that arrive in chunks, such as the output of a script that prints its variables. Not here:
//! values that are secret because of the field that they stand in (`mask`).

use std::fmt;
use std::rc::Rc;

use crate::event::{Content, Direction};
use crate::item::Item;

/// Shorter secrets are not searched: what they are would show from what is masked, and most of the text would be.
const BYTES_MIN: usize = 4;

/// Bytes of a secret that are searched at most. The first so many of a longer one are masked, and then each further part of so many.
const BYTES_MAX: usize = 4096;

/// Secrets of one exchange at most.
const SECRETS_MAX: usize = 64;

/// Byte strings that are masked wherever they stand. Clones share them.
#[derive(Clone, Default)]
pub struct Secrets(Rc<[Box<[u8]>]>);

/// Omits the secrets, because this text may go into logs.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// These secrets, without those that are too short to be searched.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Secrets {
        let parts = secrets.into_iter().flat_map(|secret| secret.chunks(BYTES_MAX));
        let mut list: Vec<Box<[u8]>> = Vec::new();
        for part in parts.filter(|part| part.len() >= BYTES_MIN).take(SECRETS_MAX) {
            if !list.iter().any(|known| **known == *part) {
                list.push(part.into());
            }
        }
        Secrets(list.into())
    }

    /// The same and others.
    #[must_use]
    pub fn and<'a>(&'a self, others: impl IntoIterator<Item = &'a [u8]>) -> Secrets {
        let known = self.0.iter().map(|known| &**known);
        // The others first, because the number is bounded.
        Secrets::new(others.into_iter().chain(known))
    }

    /// Masks them in a whole text: each byte becomes `*`.
    pub fn mask(&self, bytes: &mut [u8]) {
        let mut ranges = Vec::new();
        // All are searched before the first is masked, because they may overlap.
        for secret in self.0.iter() {
            let found = starts(bytes, secret).into_iter();
            ranges.extend(found.map(|start| start..start + secret.len()));
        }
        ranges.into_iter().for_each(|range| bytes[range].fill(b'*'));
    }

    /// As `mask`, of a text.
    #[must_use]
    pub fn masked(&self, text: String) -> String {
        if self.0.iter().all(|secret| starts(text.as_bytes(), secret).is_empty()) {
            return text;
        }
        let mut bytes = text.into_bytes();
        self.mask(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Where a secret begins in these bytes.
fn starts(bytes: &[u8], secret: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == secret[0]) {
        let start = from + at;
        if bytes[start..].starts_with(secret) {
            found.push(start);
        }
        from = start + 1;
    }
    found
}

/// Masks secrets in bytes that arrive in chunks. Each masked byte becomes `*`. The begin of a secret at the end of a chunk is masked, too.
#[derive(Clone, Debug, Default)]
pub struct SecretMask {
    secrets: Secrets,
    /// The last bytes of the chunks so far, fewer than the longest secret has.
    tail: Vec<u8>,
}

impl SecretMask {
    /// A mask at the begin of the bytes.
    #[must_use]
    pub fn new(secrets: &Secrets) -> SecretMask {
        SecretMask {
            secrets: secrets.clone(),
            tail: Vec::new(),
        }
    }

    /// Masks the next bytes.
    pub fn apply(&mut self, chunk: &mut [u8]) {
        let before = self.tail.len();
        let mut whole = std::mem::take(&mut self.tail);
        whole.extend_from_slice(chunk);
        let mut hide = |from: usize, to: usize| {
            let (from, to) = (from.max(before) - before, to.max(before) - before);
            chunk[from..to].fill(b'*');
        };
        for secret in self.secrets.0.iter() {
            for start in starts(&whole, secret) {
                hide(start, start + secret.len());
            }
            let begun = (BYTES_MIN..secret.len())
                .rev()
                .find(|length| whole.ends_with(&secret[..*length]));
            if let Some(length) = begun {
                hide(whole.len() - length, whole.len());
            }
        }
        let longest = self.secrets.0.iter().map(|secret| secret.len()).max().unwrap_or(1);
        let surplus = whole.len().saturating_sub(longest - 1);
        whole.drain(..surplus);
        self.tail = whole;
    }
}

/// The secrets of a subject, with the masks of all that it notes.
#[derive(Debug, Default)]
pub(crate) struct HiddenSecrets {
    secrets: Secrets,
    /// One for each kind of bytes, because a secret may begin in one event and end in the next one.
    masks: Vec<(Item, Direction, SecretMask)>,
}

impl HiddenSecrets {
    /// Adds secrets.
    pub(crate) fn add(&mut self, secrets: &Secrets) {
        self.secrets = self.secrets.and(secrets.0.iter().map(|secret| &**secret));
        for (_, _, mask) in &mut self.masks {
            mask.secrets = self.secrets.clone();
        }
    }

    /// Masks the content of an event.
    pub(crate) fn mask(&mut self, item: Item, content: &mut Content) {
        if self.secrets.0.is_empty() {
            return;
        }
        match content {
            Content::Text(text) => *text = self.secrets.masked(std::mem::take(text)),
            Content::Bytes { direction, bytes, .. } => {
                let is_same = |mask: &&mut (Item, Direction, SecretMask)| (mask.0, mask.1) == (item, *direction);
                if let Some((_, _, mask)) = self.masks.iter_mut().find(is_same) {
                    return mask.apply(bytes);
                }
                let mut mask = SecretMask::new(&self.secrets);
                mask.apply(bytes);
                self.masks.push((item, *direction, mask));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a: hunter22, b: $Z-0123456789ab- and hunter2, hunter22 hunt";
    const MASKED: &str = "a: ********, b: $Z-************- and hunter2, ******** hunt";

    fn secrets() -> Secrets {
        Secrets::new(["hunter22".as_bytes(), b"0123456789ab", b"b:", b""])
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        assert_eq!(secrets().masked(TEXT.into()), MASKED);
        assert_eq!(secrets().masked("nothing".into()), "nothing");
        assert_eq!(format!("{:?}", secrets()), "Secrets(2)");
        assert_eq!(secrets().and([b"more".as_slice()]).masked("no more".into()), "no ****");
        let overlapping = Secrets::new(["abcd".as_bytes(), b"cdef"]);
        assert_eq!(overlapping.masked("<abcdef>".into()), "<******>");
    }

    #[test]
    fn in_chunks_no_secret_is_shown_either() {
        for size in 1..TEXT.len() {
            let mut bytes = TEXT.as_bytes().to_vec();
            let mut mask = SecretMask::new(&secrets());
            bytes.chunks_mut(size).for_each(|chunk| mask.apply(chunk));
            let shown = String::from_utf8(bytes).unwrap();
            assert_eq!(shown.len(), TEXT.len());
            for secret in ["hunter22", "0123456789ab", "hunte", "01234"] {
                // What looks like the begin of one at the end of a chunk is masked, and whatever is shown before is short.
                let is_plain = secret == "hunte" && shown.contains("hunter2,");
                assert!(is_plain || !shown.contains(secret), "chunks of {size}: {shown}");
            }
        }
    }

    #[test]
    fn a_long_secret_is_masked_in_parts() {
        let secret = "0123456789".repeat(1000);
        let shown = Secrets::new([secret.as_bytes()]).masked(format!("<{secret}>"));
        assert_eq!(shown, format!("<{}>", "*".repeat(10_000)));
    }

    #[test]
    fn without_secrets_nothing_changes() {
        let mut bytes = *b"text";
        SecretMask::default().apply(&mut bytes);
        assert_eq!(&bytes, b"text");
    }
}
