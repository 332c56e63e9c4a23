//! The secrets in a form of parts (`multipart/form-data`, RFC 7578): the bodies of parts in whose head a secret name stands.

use crate::mask::masks::{Masks, extend};

/// Bytes of a line of a part's head that are compared. A longer one is taken for a secret's.
const LINE_BYTES_MAX: usize = 1024;

/// Bytes of a boundary at most: RFC 2046 §5.1.1 allows 70.
const BOUNDARY_BYTES_MAX: usize = 200;

const DASHES: &[u8] = b"--";

/// The mask of a body of parts. The boundary that its type names is not used: any line with two dashes may begin a part, and a secret ends where the line
/// occurs again with which it has begun. So it does not matter who reads the type how, nor what stands before the first part.
#[derive(Clone, Debug)]
pub(super) struct PartsMask {
    masks: Masks,
    /// The delimiter of the part: `--` and the boundary.
    delimiter: Vec<u8>,
    state: State,
    /// The part's name is a secret's.
    is_secret: bool,
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In the body of a part, or before the first one. So many bytes of this line are those of the delimiter; `None` if it is another line.
    Body(Option<usize>),
    Delimiter,
    Head,
}

impl PartsMask {
    pub(super) fn new(masks: &Masks) -> PartsMask {
        PartsMask {
            masks: masks.clone(),
            delimiter: Vec::new(),
            state: State::Body(Some(0)),
            is_secret: false,
            line: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        let mut next = 0;
        while next < bytes.len() {
            if let (State::Body(None), false) = (self.state, self.is_secret) {
                // Nothing happens before the next line.
                next = memchr::memchr(b'\n', &bytes[next..]).map_or(bytes.len(), |found| next + found);
            }
            let at = next;
            let Some(&byte) = bytes.get(at) else { break };
            next += 1;
            match self.state {
                State::Body(matched) => {
                    if self.is_secret && !matches!(byte, b'\r' | b'\n') {
                        bytes[at] = b'*';
                    }
                    self.state = self.after_body(matched, byte);
                    if let State::Delimiter = self.state {
                        self.restore(&mut bytes[..=at]);
                        self.line = self.expected().to_vec();
                    }
                }
                State::Delimiter if byte == b'\n' => {
                    if !self.is_secret {
                        self.delimiter = self.line.trim_ascii_end().to_vec();
                    }
                    self.line.clear();
                    self.is_secret = false;
                    self.state = State::Head;
                }
                State::Delimiter => extend(&mut self.line, &[byte], BOUNDARY_BYTES_MAX),
                State::Head if byte == b'\n' => self.end_line(),
                State::Head => extend(&mut self.line, &[byte], LINE_BYTES_MAX),
            }
        }
    }

    /// The beginning of the line that ends the part.
    fn expected(&self) -> &[u8] {
        match self.is_secret {
            true => &self.delimiter,
            false => DASHES,
        }
    }

    fn after_body(&self, matched: Option<usize>, byte: u8) -> State {
        if byte == b'\n' {
            return State::Body(Some(0));
        }
        let expected = self.expected();
        match matched {
            Some(matched) if expected.get(matched) == Some(&byte) => match matched + 1 == expected.len() {
                true => State::Delimiter,
                false => State::Body(Some(matched + 1)),
            },
            _ => State::Body(None),
        }
    }

    /// Shows the delimiter at the end of these bytes, as far as it is in them. That it is one was not known before.
    fn restore(&self, bytes: &mut [u8]) {
        let pairs = bytes.iter_mut().rev().zip(self.expected().iter().rev());
        pairs.for_each(|(masked, byte)| *masked = *byte);
    }

    fn end_line(&mut self) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.is_empty() {
            self.state = State::Body(Some(0));
        } else {
            self.is_secret |= line.len() >= LINE_BYTES_MAX - 1 || self.names_secret(line);
        }
        self.line.clear();
    }

    fn names_secret(&self, line: &[u8]) -> bool {
        line.split(|byte| *byte == b';')
            .any(|parameter| self.masks.is_secret(parameter))
    }
}
