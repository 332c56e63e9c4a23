//! The secrets in the fields of a head, in bytes that arrive in chunks.

use crate::mask::masks::Masks;

/// Bytes of the name of a field that are compared. No longer one is a secret's.
const FIELD_BYTES_MAX: usize = 64;

/// The mask of lines `name: value`. A line of a body that looks like such a field is masked, too.
#[derive(Clone, Debug)]
pub(super) struct FieldMask {
    masks: Masks,
    state: State,
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Name,
    Shown,
    Masked,
    /// At the begin of a line after one that was masked: if it begins with white space, it continues that one (RFC 9112 §5.2).
    AfterMasked,
}

impl FieldMask {
    pub(super) fn new(masks: &Masks) -> FieldMask {
        FieldMask {
            masks: masks.clone(),
            state: State::Name,
            name: Vec::new(),
        }
    }

    /// A mask somewhere within a message: everything up to the next line is masked.
    pub(super) fn within(masks: &Masks) -> FieldMask {
        FieldMask {
            state: if masks.is_on() { State::Masked } else { State::Shown },
            ..FieldMask::new(masks)
        }
    }

    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Shown {
                at = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |found| at + found);
            }
            let Some(byte) = bytes.get_mut(at) else { break };
            at += 1;
            let is_newline = *byte == b'\n';
            if self.state == State::AfterMasked {
                self.state = match *byte {
                    b' ' | b'\t' => State::Masked,
                    _ => State::Name,
                };
            }
            match self.state {
                State::Name if *byte == b':' => self.state = self.after_name(),
                State::Name => self.add_to_name(*byte),
                State::Masked if !matches!(*byte, b'\r' | b'\n') => *byte = b'*',
                State::Shown | State::Masked | State::AfterMasked => {}
            }
            if is_newline {
                self.name.clear();
                self.state = match self.state {
                    State::Masked => State::AfterMasked,
                    _ => State::Name,
                };
            }
        }
    }

    fn after_name(&self) -> State {
        match self.masks.is_secret(&self.name) {
            true => State::Masked,
            false => State::Shown,
        }
    }

    fn add_to_name(&mut self, byte: u8) {
        if self.name.len() < FIELD_BYTES_MAX {
            self.name.push(byte);
        } else {
            self.state = State::Shown;
        }
    }
}
