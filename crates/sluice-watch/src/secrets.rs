//! Secrets of one exchange that are known as bytes: they are masked wherever they stand.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use crate::automaton::{Automaton, Node, START};
use crate::event::{Content, Direction};
use crate::item::Item;

/// Shorter secrets are not searched: what they are would show from what is masked, and most of the text would be.
const BYTES_MIN: usize = 4;

/// Bytes of a secret that are searched at most. The first so many of a longer one are masked, and then each further part of so many.
const BYTES_MAX: usize = 4096;

/// Secrets of one exchange at most.
const SECRETS_MAX: usize = 64;

/// Bytes of the secrets of one exchange at most, because the client chooses them, and a search begins with all of them. Further ones are not searched.
const ALL_BYTES_MAX: usize = 16 << 10;

/// Byte strings that are masked wherever they stand. Clones share them.
#[derive(Clone, Default)]
pub struct Secrets(Rc<Inner>);

#[derive(Default)]
struct Inner {
    list: Vec<Box<[u8]>>,
    /// Made when it is first needed: many exchanges note nothing.
    search: OnceCell<Automaton>,
}

/// Omits the secrets, because this text may go into logs.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.list.len())
    }
}

impl Secrets {
    /// These secrets, without those that are too short to be searched. If they are too many, the first ones.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Secrets {
        let parts = secrets.into_iter().flat_map(|secret| secret.chunks(BYTES_MAX));
        let mut list: Vec<Box<[u8]>> = Vec::new();
        let mut room = ALL_BYTES_MAX;
        for part in parts.filter(|part| part.len() >= BYTES_MIN).take(SECRETS_MAX) {
            if part.len() <= room && !list.iter().any(|known| **known == *part) {
                room -= part.len();
                list.push(part.into());
            }
        }
        let search = OnceCell::new();
        Secrets(Rc::new(Inner { list, search }))
    }

    /// These secrets and others.
    #[must_use]
    pub fn and<'a>(&'a self, others: impl IntoIterator<Item = &'a [u8]>) -> Secrets {
        let known = self.0.list.iter().map(|known| &**known);
        // The others first, because the number is bounded.
        let all = Secrets::new(others.into_iter().chain(known));
        match all.0.list.iter().all(|secret| self.0.list.contains(secret)) {
            true => self.clone(),
            false => all,
        }
    }

    /// Masks them in a whole text: each byte becomes `*`.
    pub fn mask(&self, bytes: &mut [u8]) {
        for range in self.find(&mut Node::default(), bytes).into_iter().flatten() {
            bytes[range].fill(b'*');
        }
    }

    /// Masks the secrets in a text, as `mask` does.
    #[must_use]
    pub fn masked(&self, text: String) -> String {
        let Some(found) = self.find(&mut Node::default(), text.as_bytes()) else {
            return text;
        };
        let mut bytes = text.into_bytes();
        found.into_iter().for_each(|range| bytes[range].fill(b'*'));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Finds the bytes of secrets, also of one whose beginning came before these bytes. `node` is the state of the search, and is advanced.
    fn find(&self, node: &mut Node, bytes: &[u8]) -> Option<Vec<Range<usize>>> {
        let search = self.search()?;
        let mut found = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            *node = search.next(*node, *byte);
            add_end(&mut found, at + 1, search.found(*node));
        }
        (!found.is_empty()).then_some(found)
    }

    fn search(&self) -> Option<&Automaton> {
        let Inner { list, search } = &*self.0;
        (!list.is_empty()).then(|| search.get_or_init(|| Automaton::new(list)))
    }
}

/// Adds the bytes before an end. The ranges do not overlap, so that each byte is masked once.
fn add_end(found: &mut Vec<Range<usize>>, end: usize, length: usize) {
    if length == 0 {
        return;
    }
    // It may have begun in an earlier chunk.
    let mut start = end.saturating_sub(length);
    while let Some(last) = found.pop_if(|last| last.end >= start) {
        start = start.min(last.start);
    }
    found.push(start..end);
}

/// Masks secrets in bytes that arrive in chunks. Each masked byte becomes `*`. The begin of a secret at the end of a chunk is masked, too.
#[derive(Clone, Debug, Default)]
pub struct SecretMask {
    secrets: Secrets,
    node: Node,
}

impl SecretMask {
    /// A mask at the begin of the bytes.
    #[must_use]
    pub fn new(secrets: &Secrets) -> SecretMask {
        SecretMask { secrets: secrets.clone(), node: START }
    }

    /// Masks the next bytes.
    pub fn apply(&mut self, chunk: &mut [u8]) {
        let mut found = self.secrets.find(&mut self.node, chunk).unwrap_or_default();
        let Some(search) = self.secrets.search() else { return };
        match search.begun(self.node) {
            ..BYTES_MIN => {}
            begun => add_end(&mut found, chunk.len(), begun),
        }
        found.into_iter().for_each(|range| chunk[range].fill(b'*'));
    }

    /// Masks these secrets in the next bytes, of which one may have begun.
    fn set_secrets(&mut self, secrets: &Secrets) {
        if Rc::ptr_eq(&self.secrets.0, &secrets.0) {
            return;
        }
        let known = std::mem::replace(&mut self.secrets, secrets.clone());
        let node = std::mem::replace(&mut self.node, START);
        if let Some(search) = known.search().filter(|_| node != START) {
            let begun = &known.0.list[search.string(node)][..search.begun(node)];
            let _ = secrets.find(&mut self.node, begun);
        }
    }
}

/// The secrets of a tracer, with the masks of all that it notes.
#[derive(Debug, Default)]
pub(crate) struct HiddenSecrets {
    secrets: Secrets,
    /// One for each kind of bytes, because a secret may begin in one event and end in the next one.
    masks: Vec<(Item, Direction, SecretMask)>,
}

impl HiddenSecrets {
    pub(crate) fn add(&mut self, secrets: &Secrets) {
        self.secrets = self.secrets.and(secrets.0.list.iter().map(|secret| &**secret));
        for (_, _, mask) in &mut self.masks {
            mask.set_secrets(&self.secrets);
        }
    }

    pub(crate) fn mask(&mut self, item: Item, content: &mut Content) {
        if self.secrets.0.list.is_empty() {
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
    fn what_a_client_chooses_takes_memory_in_proportion_to_its_length() {
        let cookies = |count: usize, length: usize| -> Secrets {
            let parts: Vec<_> = (0..count)
                .map(|number| format!("{}b{number:05}", "a".repeat(length)))
                .collect();
            Secrets::new(parts.iter().map(String::as_bytes))
        };
        let random: Vec<u8> = (0..u32::MAX)
            .step_by(300_007)
            .map(|number| number.to_le_bytes()[2])
            .collect();
        for secrets in [
            cookies(60, 970),
            cookies(15, 3990),
            Secrets::new([vec![b'a'; BYTES_MAX].as_slice()]),
            Secrets::new(random.chunks(200)),
        ] {
            let all: usize = secrets.0.list.iter().map(|secret| secret.len()).sum();
            assert!(all <= ALL_BYTES_MAX);
            let bytes = secrets.search().unwrap().memory_bytes();
            assert!(bytes <= 100 * all + (64 << 10), "{bytes} for {all}");
        }
    }

    #[test]
    fn secrets_that_are_added_are_masked_from_then_on_and_a_begun_one_to_its_end() {
        let mut mask = SecretMask::new(&secrets());
        let mut bytes = *b"hunter22 and other, and hun";
        let (first, rest) = bytes.split_at_mut(6);
        mask.apply(first);
        mask.set_secrets(&secrets().and([b"other".as_slice()]));
        mask.apply(rest);
        assert_eq!(String::from_utf8_lossy(&bytes), "******** and *****, and hun");
        let same = secrets();
        assert!(Rc::ptr_eq(&same.and([b"hunter22".as_slice()]).0, &same.0));
    }

    #[test]
    fn without_secrets_nothing_changes() {
        let mut bytes = *b"text";
        SecretMask::default().apply(&mut bytes);
        assert_eq!(&bytes, b"text");
    }
}
