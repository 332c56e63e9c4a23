//! The bytes of one input, read as parameters first and as the parser's input after them.
//!
//! Parameters stand at the front, so that appending to an input does not change them. A missing parameter is zero: every byte
//! string is a valid input.

use bytes::Bytes;

/// Reads one input from its front.
#[derive(Clone, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// At the start of an input.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// Whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 at the end.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next 16 bits, little-endian.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next 64 bits, little-endian.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The bytes through the next newline, without it; all of them if there is none.
    pub fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n').unwrap_or(self.0.len());
        let line = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        line
    }

    /// Everything that was not read yet.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        bytes[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        bytes
    }
}

/// Splits bytes into chunks of the given lengths, which repeat; a length of 0 counts as 1.
#[must_use]
pub fn chunks(bytes: &[u8], lengths: &[usize]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(bytes);
    let mut chunks = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        chunks.push(rest.split_to((*length).clamp(1, rest.len())));
    }
    chunks
}
