//! What must not be shown: the values of header fields that are secrets.
//!
//! Here: fields of heads, as values, as the text of a head, and in the bytes of an HTTP/1 connection. Form fields and the sentinels of a
//! script are masked where they are known.

/// The names of header fields whose values are masked, lower case. Sources: RFC 9110 §11.6.2 and §11.7.2, RFC 6265 §4.
pub const SECRET_FIELDS: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "x-csrf-token",
];

/// Whether values of the field of this name are masked.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    SECRET_FIELDS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// What is shown instead of a secret of this many bytes.
#[must_use]
pub fn hidden(bytes: usize) -> String {
    format!("…({bytes} bytes)")
}

/// Masks the values of secret fields in the bytes that an HTTP/1 connection carries, in one direction. Each masked byte becomes `*`, so that
/// lengths stay true. Lines of bodies that look like such fields are masked, too.
#[derive(Clone, Debug)]
pub struct HeadMask {
    state: State,
    /// The name so far, lower case; as long as the longest secret name at most.
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
    /// A mask at the begin of a message.
    #[must_use]
    pub fn new() -> HeadMask {
        HeadMask {
            state: State::Name,
            name: Vec::new(),
        }
    }

    /// A mask somewhere within a message: everything up to the next line is masked.
    #[must_use]
    pub fn within() -> HeadMask {
        HeadMask {
            state: State::Masked,
            name: Vec::new(),
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
        match std::str::from_utf8(&self.name).is_ok_and(is_secret) {
            true => State::Masked,
            false => State::Shown,
        }
    }

    fn add_to_name(&mut self, byte: u8) {
        let longest = SECRET_FIELDS.iter().map(|name| name.len()).max().unwrap_or(0);
        if self.name.len() < longest {
            self.name.push(byte.to_ascii_lowercase());
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
