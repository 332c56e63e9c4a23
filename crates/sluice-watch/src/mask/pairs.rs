//! The secrets in `name=value`, wherever it stands: queries in targets and Referer, parameters, forms.

use crate::mask::masks::{Masks, NAME_BYTES, NAME_BYTES_MAX, extend};

/// The mask of pairs. A value ends where one of a query does, or at the quotation mark with which it has begun: `token="…"`, `password: \"…\"`.
#[derive(Clone, Debug)]
pub(super) struct PairMask {
    masks: Masks,
    name: Vec<u8>,
    state: State,
    /// The quoted value of an attribute `name`, or nothing.
    named: Option<Vec<u8>>,
    /// In this tag the attribute `value` is a secret: `<input name="token" value="…">`.
    is_value_secret: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Shown,
    /// Behind the separator of a secret name, before its value.
    Before(Separator),
    /// In a value that ends as one of a query does.
    Masked,
    /// In a value that ends at this quotation mark.
    Quoted(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Equals,
    /// Only a quoted value belongs to it.
    Colon,
}

impl PairMask {
    pub(super) fn new(masks: &Masks) -> PairMask {
        PairMask {
            masks: masks.clone(),
            name: Vec::new(),
            state: State::Shown,
            named: None,
            is_value_secret: false,
        }
    }

    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_outside() {
                let found = memchr::memchr2(b'=', b':', &bytes[at..]);
                let end = found.map_or(bytes.len(), |found| at + found);
                self.skip(&bytes[at..end]);
                at = end;
            }
            let Some(byte) = bytes.get_mut(at) else { break };
            let (state, is_masked) = self.after(*byte);
            self.state = state;
            if is_masked {
                *byte = b'*';
            }
            at += 1;
        }
    }

    /// Whether only the end of a name can change something.
    fn is_outside(&self) -> bool {
        self.state == State::Shown && self.named.is_none() && !self.is_value_secret
    }

    /// Notes bytes without the end of a name: only the name that they end with matters.
    fn skip(&mut self, bytes: &[u8]) {
        let before = bytes.iter().rposition(|byte| !NAME_BYTES[usize::from(*byte)]);
        let name = before.map_or(bytes, |before| &bytes[before + 1..]);
        if before.is_some() {
            self.name.clear();
        }
        extend(&mut self.name, name, NAME_BYTES_MAX);
    }

    /// The state after a byte, and whether the byte is masked.
    fn after(&mut self, byte: u8) -> (State, bool) {
        let is_quote = matches!(byte, b'"' | b'\'');
        match self.state {
            State::Before(_) if is_quote => (State::Quoted(byte), false),
            State::Before(Separator::Equals) if byte == b'\\' => (self.state, false),
            State::Before(Separator::Colon) if matches!(byte, b'\\' | b' ') => (self.state, false),
            State::Quoted(quote) if byte == quote || matches!(byte, b'\r' | b'\n') => (State::Shown, false),
            State::Quoted(_) => (self.state, true),
            State::Before(Separator::Equals) | State::Masked if !ends_value(byte) => (State::Masked, true),
            State::Before(_) | State::Masked | State::Shown => (self.outside(byte), false),
        }
    }

    fn outside(&mut self, byte: u8) -> State {
        self.note_attribute(byte);
        match byte {
            b'=' | b':' => {
                let is_value = self.is_value_secret && self.name.eq_ignore_ascii_case(b"value");
                let is_secret = is_value || self.masks.is_secret_parameter(&self.name);
                if byte == b'=' && self.name.eq_ignore_ascii_case(b"name") {
                    self.named = Some(Vec::new());
                }
                self.name.clear();
                match byte {
                    _ if !is_secret => State::Shown,
                    b'=' => State::Before(Separator::Equals),
                    _ => State::Before(Separator::Colon),
                }
            }
            _ if NAME_BYTES[usize::from(byte)] => {
                extend(&mut self.name, &[byte], NAME_BYTES_MAX);
                State::Shown
            }
            _ => {
                self.name.clear();
                State::Shown
            }
        }
    }

    /// Notes the value of an attribute `name`, and the end of a tag.
    fn note_attribute(&mut self, byte: u8) {
        if byte == b'>' {
            (self.named, self.is_value_secret) = (None, false);
        }
        let Some(named) = &mut self.named else { return };
        match byte {
            b'"' | b'\'' if named.is_empty() => {}
            _ if NAME_BYTES[usize::from(byte)] && named.len() < NAME_BYTES_MAX => named.push(byte),
            _ => {
                self.is_value_secret |= self.masks.is_secret(named);
                self.named = None;
            }
        }
    }
}

fn ends_value(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b"&\"<>#".contains(&byte)
}
