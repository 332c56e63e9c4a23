//! The secrets in a form of parts (`multipart/form-data`, RFC 7578): the bodies of parts in whose head a secret name stands.

use crate::mask::masks::Masks;

/// Bytes of a line of a part's head that are compared. A longer one is taken for a secret's.
const LINE_BYTES_MAX: usize = 1024;

/// The mask of a body of parts.
#[derive(Clone, Debug)]
pub(super) struct PartsMask {
    masks: Masks,
    /// `--` and the boundary.
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
    /// In the line of a delimiter.
    Delimiter,
    Head,
}

impl PartsMask {
    /// The mask of a body with this Content-Type. `None` if that names no boundary.
    pub(super) fn new(masks: &Masks, content_type: &str) -> Option<PartsMask> {
        let parameters = content_type.split(';').skip(1).filter_map(|text| text.split_once('='));
        let mut values = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
        let boundary = values.next()?.1.trim().trim_matches('"');
        Some(PartsMask {
            masks: masks.clone(),
            delimiter: format!("--{boundary}").into_bytes(),
            state: State::Body(Some(0)),
            is_secret: false,
            line: Vec::new(),
        })
    }

    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        for at in 0..bytes.len() {
            let byte = bytes[at];
            match self.state {
                State::Body(matched) => {
                    if self.is_secret && !matches!(byte, b'\r' | b'\n') {
                        bytes[at] = b'*';
                    }
                    self.state = self.after_body(matched, byte);
                    if let State::Delimiter = self.state {
                        self.restore(&mut bytes[..=at]);
                    }
                }
                State::Delimiter if byte == b'\n' => {
                    self.line.clear();
                    self.is_secret = false;
                    self.state = State::Head;
                }
                State::Delimiter => {}
                State::Head if byte == b'\n' => self.end_line(),
                State::Head => {
                    if self.line.len() < LINE_BYTES_MAX {
                        self.line.push(byte);
                    }
                }
            }
        }
    }

    fn after_body(&self, matched: Option<usize>, byte: u8) -> State {
        if byte == b'\n' {
            return State::Body(Some(0));
        }
        match matched {
            Some(matched) if self.delimiter.get(matched) == Some(&byte) => match matched + 1 == self.delimiter.len() {
                true => State::Delimiter,
                false => State::Body(Some(matched + 1)),
            },
            _ => State::Body(None),
        }
    }

    /// Shows the delimiter at the end of these bytes, as far as it is in them. That it is one was not known before.
    fn restore(&self, bytes: &mut [u8]) {
        let pairs = bytes.iter_mut().rev().zip(self.delimiter.iter().rev());
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
