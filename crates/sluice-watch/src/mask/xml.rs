//! The secrets in XML: the content of elements with a secret name, also as `<name>password</name><value>…</value>` (XML-RPC).
//!
//! Names are compared without their prefix. Within a secret everything is masked up to its end tag, which is masked too.

use crate::mask::masks::{Masks, NAME_BYTES_MAX, extend, mask_bytes};

/// The mask of an XML text, which need not be valid.
#[derive(Clone, Debug)]
pub(super) struct XmlMask {
    masks: Masks,
    state: State,
    /// The name of the tag so far, or what its end tag is compared with.
    name: Vec<u8>,
    /// The text of an element `name`; `None` outside of one.
    named: Option<Vec<u8>>,
    /// The next element `value` is a secret.
    is_value_secret: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    Name,
    /// Behind the name of a tag; whether the last byte was a slash, so that the element is empty.
    Tag {
        is_empty: bool,
    },
    /// In a secret. So many bytes of its end tag, `</name`, were seen.
    Secret(usize),
    SecretEnd,
}

impl XmlMask {
    pub(super) fn new(masks: &Masks) -> XmlMask {
        XmlMask {
            masks: masks.clone(),
            state: State::Text,
            name: Vec::new(),
            named: None,
            is_value_secret: false,
        }
    }

    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        mask_bytes(bytes, |byte| {
            let (state, is_masked) = self.after(byte);
            self.state = state;
            is_masked
        });
    }

    /// The state after a byte, and whether the byte is masked.
    fn after(&mut self, byte: u8) -> (State, bool) {
        match self.state {
            State::Text if byte == b'<' => {
                self.name.clear();
                (State::Name, false)
            }
            State::Text => {
                if let Some(named) = &mut self.named {
                    extend(named, &[byte], NAME_BYTES_MAX);
                }
                (State::Text, false)
            }
            State::Name | State::Tag { .. } if byte == b'>' => (self.after_tag(), false),
            State::Name if byte.is_ascii_whitespace() => (State::Tag { is_empty: false }, false),
            State::Name => {
                extend(&mut self.name, &[byte], NAME_BYTES_MAX);
                (State::Name, false)
            }
            State::Tag { .. } => {
                let is_empty = byte == b'/';
                (State::Tag { is_empty }, false)
            }
            State::Secret(seen) => {
                let expected = match seen {
                    0 => Some(b'<'),
                    1 => Some(b'/'),
                    _ => self.name.get(seen - 2).copied(),
                };
                let next = match expected {
                    _ if byte == b'<' => State::Secret(1),
                    None if byte == b'>' => State::Text,
                    None if byte.is_ascii_whitespace() => State::SecretEnd,
                    Some(expected) if expected == byte => State::Secret(seen + 1),
                    _ => State::Secret(0),
                };
                (next, true)
            }
            State::SecretEnd if byte == b'>' => (State::Text, true),
            State::SecretEnd => (State::SecretEnd, true),
        }
    }

    fn after_tag(&mut self) -> State {
        let is_empty = self.name.ends_with(b"/") || self.state == (State::Tag { is_empty: true });
        let local = self.name.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        let is_end = self.name.starts_with(b"/");
        if is_end || is_empty {
            let named = self.named.take();
            self.is_value_secret |= named.is_some_and(|named| self.masks.is_secret(named.trim_ascii()));
            return State::Text;
        }
        if self.masks.is_secret(local) || (self.is_value_secret && local == b"value") {
            self.is_value_secret = false;
            return State::Secret(0);
        }
        self.named = (local == b"name").then(Vec::new);
        State::Text
    }
}
