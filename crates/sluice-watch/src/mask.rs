//! What must not be shown: the values of secrets in heads, queries, bodies, and in the bytes of a connection.
//!
//! Whether something is a secret follows from its name ([`Masks`]). The sentinels of a script are masked where they are known.

mod body;
mod json;
mod masks;
mod parts;

pub use body::BodyMask;
pub use masks::{Masks, hidden};

/// Bytes of the name of a field that are compared. No longer one is a secret's.
const FIELD_BYTES_MAX: usize = 64;

/// Masks the values of secret fields in the bytes that an HTTP/1 connection carries, in one direction. Each masked byte becomes `*`, so that
/// lengths stay true. Lines of bodies that look like such fields are masked, too.
#[derive(Clone, Debug)]
pub struct HeadMask {
    masks: Masks,
    state: State,
    /// The name so far.
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the name of a field.
    Name,
    /// In a line that is shown.
    Shown,
    /// In a line that is masked.
    Masked,
    /// At the begin of a line after one that was masked: if it begins with white space, it continues that one (RFC 9112 §5.2).
    AfterMasked,
}

impl HeadMask {
    /// A mask at the begin of a message, of what is usually secret.
    #[must_use]
    pub fn new() -> HeadMask {
        HeadMask::of(&Masks::default())
    }

    /// A mask at the begin of a message.
    #[must_use]
    pub fn of(masks: &Masks) -> HeadMask {
        HeadMask {
            masks: masks.clone(),
            state: State::Name,
            name: Vec::new(),
        }
    }

    /// A mask somewhere within a message, of what is usually secret: everything up to the next line is masked.
    #[must_use]
    pub fn within() -> HeadMask {
        HeadMask::within_of(&Masks::default())
    }

    /// A mask somewhere within a message: everything up to the next line is masked.
    #[must_use]
    pub fn within_of(masks: &Masks) -> HeadMask {
        HeadMask {
            state: if masks.is_on() { State::Masked } else { State::Shown },
            ..HeadMask::of(masks)
        }
    }

    /// Masks the next bytes.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
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

impl Default for HeadMask {
    fn default() -> HeadMask {
        HeadMask::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "GET / HTTP/1.1\r\nHost: a\r\nAUTHORIZATION: Basic c2VjcmV0\r\nCookie: a=b;\r\n c=d\r\nX: y\r\n\r\n";
    const MASKED: &str =
        "GET / HTTP/1.1\r\nHost: a\r\nAUTHORIZATION:***************\r\nCookie:*****\r\n****\r\nX: y\r\n\r\n";

    #[test]
    fn values_are_masked_wherever_the_pieces_end() {
        for size in 1..HEAD.len() {
            let mut bytes = HEAD.as_bytes().to_vec();
            let mut mask = HeadMask::new();
            bytes.chunks_mut(size).for_each(|piece| mask.apply(piece));
            assert_eq!(String::from_utf8(bytes).unwrap(), MASKED, "pieces of {size}");
        }
    }

    #[test]
    fn within_a_message_the_rest_of_the_line_is_masked() {
        let mut bytes = *b"c2VjcmV0\r\nX: y\r\n";
        HeadMask::within().apply(&mut bytes);
        assert_eq!(&bytes, b"********\r\nX: y\r\n");
    }
}
