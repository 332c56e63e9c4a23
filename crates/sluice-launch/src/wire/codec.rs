//! Numbers and texts in a message between server and launcher: little-endian numbers, texts with their length before them.
//!
//! Whatever arrives is checked: a message that is too short, or that has a rest, is malformed. Not here: the messages (`message`).

use std::ffi::CString;

/// A message that is not as it must be, and in which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A message that is made.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.byte(value.into());
    }

    pub(crate) fn long(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn signed(&mut self, value: i32) {
        self.0.extend(value.to_le_bytes());
    }

    /// A number that may be missing.
    pub(crate) fn optional(&mut self, value: Option<u64>) {
        self.flag(value.is_some());
        value.into_iter().for_each(|value| self.long(value));
    }

    /// A text. One that is longer than a message may be makes the message too long, which is refused when it is sent.
    pub(crate) fn text(&mut self, value: &[u8]) {
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.0.extend(length.to_le_bytes());
        self.0.extend(value);
    }

    pub(crate) fn texts<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.long(values.len() as u64);
        values.for_each(|value| self.text(value));
    }
}

/// The rest of a message that is read.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize, part: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed(part))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self, part: &'static str) -> Result<[u8; LENGTH], Malformed> {
        self.take(LENGTH, part)?.try_into().map_err(|_| Malformed(part))
    }

    pub(crate) fn byte(&mut self, part: &'static str) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array(part)?))
    }

    pub(crate) fn flag(&mut self, part: &'static str) -> Result<bool, Malformed> {
        match self.byte(part)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed(part)),
        }
    }

    pub(crate) fn long(&mut self, part: &'static str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(part)?))
    }

    pub(crate) fn signed(&mut self, part: &'static str) -> Result<i32, Malformed> {
        Ok(i32::from_le_bytes(self.array(part)?))
    }

    /// A number of at most this value.
    pub(crate) fn at_most(&mut self, most: u64, part: &'static str) -> Result<u64, Malformed> {
        let value = self.long(part)?;
        (value <= most).then_some(value).ok_or(Malformed(part))
    }

    pub(crate) fn optional(&mut self, part: &'static str) -> Result<Option<u64>, Malformed> {
        self.flag(part)?.then(|| self.long(part)).transpose()
    }

    pub(crate) fn text(&mut self, part: &'static str) -> Result<&'a [u8], Malformed> {
        let length = u32::from_le_bytes(self.array(part)?);
        self.take(usize::try_from(length).map_err(|_| Malformed(part))?, part)
    }

    /// A text without a NUL.
    pub(crate) fn c_string(&mut self, part: &'static str) -> Result<CString, Malformed> {
        CString::new(self.text(part)?).map_err(|_| Malformed(part))
    }

    /// Texts without a NUL; each needs four bytes at least, so there cannot be more than the message has room for.
    pub(crate) fn c_strings(&mut self, part: &'static str) -> Result<Vec<CString>, Malformed> {
        let most = self.0.len() as u64 / 4;
        let count = self.at_most(most, part)?;
        (0..count).map(|_| self.c_string(part)).collect()
    }

    /// A text that is UTF-8.
    pub(crate) fn string(&mut self, part: &'static str) -> Result<String, Malformed> {
        String::from_utf8(self.text(part)?.to_vec()).map_err(|_| Malformed(part))
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        self.0.is_empty().then_some(()).ok_or(Malformed("a rest"))
    }
}
