//! The secrets in JSON: the values of secret names, whatever they are.
//!
//! The text need not be valid; what a mask does not understand it shows, except in a secret.

use crate::mask::masks::{Masks, NAME_BYTES_MAX, extend, mask_bytes};

#[derive(Clone, Debug)]
pub(super) struct JsonMask {
    masks: Masks,
    string: Option<InString>,
    /// The last string, as far as it is compared.
    name: Vec<u8>,
    /// The last string has just ended, so that it is a name if a colon follows.
    is_after_string: bool,
    value: Value,
}

/// Whether the next byte of a string is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InString {
    Plain,
    Escaped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    None,
    /// The value begins with the next byte that is not white space.
    Awaited,
    Text,
    /// A number, or a word.
    Literal,
    /// An object or array, in so many brackets.
    Nested(usize),
}

impl JsonMask {
    pub(super) fn new(masks: &Masks) -> JsonMask {
        JsonMask {
            masks: masks.clone(),
            string: None,
            name: Vec::new(),
            is_after_string: false,
            value: Value::None,
        }
    }

    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        mask_bytes(bytes, |byte| match self.string {
            Some(state) => self.within_string(state, byte),
            None => self.outside(byte),
        });
    }

    /// A byte of a string; whether it is masked.
    fn within_string(&mut self, state: InString, byte: u8) -> bool {
        let is_secret = self.value != Value::None;
        match (state, byte) {
            (InString::Plain, b'"') => {
                self.string = None;
                self.is_after_string = !is_secret;
                if self.value == Value::Text {
                    self.value = Value::None;
                }
                return false;
            }
            (InString::Plain, b'\\') => self.string = Some(InString::Escaped),
            _ => self.string = Some(InString::Plain),
        }
        if !is_secret {
            extend(&mut self.name, &[byte], NAME_BYTES_MAX);
        }
        is_secret
    }

    /// A byte outside strings; whether it is masked.
    fn outside(&mut self, byte: u8) -> bool {
        if byte.is_ascii_whitespace() {
            if self.value == Value::Literal {
                self.value = Value::None;
            }
            return false;
        }
        if self.value == Value::Literal && matches!(byte, b',' | b'}' | b']') {
            self.value = Value::None;
        }
        let was_after_string = std::mem::take(&mut self.is_after_string);
        match (self.value, byte) {
            (Value::None, b':') if was_after_string && self.is_secret_name() => self.value = Value::Awaited,
            (Value::None, b'"') => {
                self.name.clear();
                self.string = Some(InString::Plain);
            }
            (Value::None, _) | (Value::Nested(_), b',' | b':') => {}
            (Value::Awaited, b'"') => {
                self.value = Value::Text;
                self.string = Some(InString::Plain);
            }
            (Value::Nested(_), b'"') => self.string = Some(InString::Plain),
            (Value::Awaited, b'{' | b'[') => self.value = Value::Nested(1),
            (Value::Nested(depth), b'{' | b'[') => self.value = Value::Nested(depth + 1),
            (Value::Nested(1), b'}' | b']') => self.value = Value::None,
            (Value::Nested(depth), b'}' | b']') => self.value = Value::Nested(depth - 1),
            (Value::Awaited, _) => {
                self.value = Value::Literal;
                return true;
            }
            (Value::Nested(_) | Value::Literal | Value::Text, _) => return true,
        }
        false
    }

    /// A name with escapes is taken for a secret: it cannot be compared.
    fn is_secret_name(&self) -> bool {
        self.name.contains(&b'\\') || self.masks.is_secret(&self.name)
    }
}
