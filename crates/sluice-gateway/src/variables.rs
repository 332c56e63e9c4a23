//! The container for CGI variables: names and values, in the format in which a script gets them.
//!
//! It accepts only variables that every script can read.

use std::fmt::Display;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use memchr::memchr2;

use crate::names::is_name;

/// Bytes in the longest `NAME=value`: the largest 16-bit length of struct mode, less the NUL. execve(2) allows twice that (`MAX_ARG_STRLEN`).
const VARIABLE_BYTES_MAX: usize = 0xffff - 1;

/// Bytes that are kept from one request for the next.
const RECYCLED_BYTES_MAX: usize = 16 << 10;

/// The bytes of a variable's length, before its text.
pub(crate) const LENGTH_BYTES: usize = 2;

/// The variables of one request, in one buffer. No name occurs twice, no value contains a NUL or a newline.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// The entries of a request record in struct mode: length, `NAME=value`, NUL, …
    pub(crate) buffer: Vec<u8>,
    entries: Vec<Entry>,
    dropped: usize,
}

/// One variable in the buffer; it ends where the next begins.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its text begins; its length is before that.
    start: usize,
    name_length: usize,
}

impl Variables {
    /// Removes all variables, and makes room for this many, of `bytes` bytes in total.
    pub(crate) fn begin_again(&mut self, variables: usize, bytes: usize) {
        self.buffer.clear();
        self.entries.clear();
        self.dropped = 0;
        self.buffer.reserve(bytes);
        self.entries.reserve(variables);
    }

    /// The emptied memory of these variables, for the variables of the next request, unless these were unusually large.
    #[must_use]
    pub fn recycled(mut self) -> Variables {
        if self.buffer.capacity() > RECYCLED_BYTES_MAX
            || self.entries.capacity() > RECYCLED_BYTES_MAX / size_of::<Entry>()
        {
            return Variables::default();
        }
        self.buffer.clear();
        self.entries.clear();
        self
    }

    /// Names and values, in the order in which scripts get them.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.entries.len()).map(|index| {
            let (name, value) = self.text(index).split_at(self.entries[index].name_length);
            (name, &value[1..])
        })
    }

    /// The texts `NAME=value`, in the order of [`Variables::iter`].
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.entries.len()).map(|index| self.text(index))
    }

    /// The value of a variable, by its full name, prefix included.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.position(name).map(|index| &self.text(index)[name.len() + 1..])
    }

    /// All variables, each as `NAME=value` followed by a NUL.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.buffer.len());
        for text in self.texts() {
            bytes.extend_from_slice(text);
            bytes.push(0);
        }
        bytes
    }

    /// Number of variables.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Variables dropped for a NUL, a newline, their length or an invalid name. Usually the client's fault: most values come from the request.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Sets a variable by its full name; it replaces one of the same name. If no script could read it, both are dropped ([`Variables::dropped`]).
    pub fn set(&mut self, name: &str, value: &[u8]) {
        if let Some(index) = self.position(name) {
            self.remove(index);
        }
        if is_name(name) {
            self.add("", name, value);
        } else {
            self.dropped += 1;
        }
    }

    /// The same variables with other values, for a trace: `value` is asked for that of each, by its full name; `None` leaves it.
    #[must_use]
    pub fn with_values(&self, mut value: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>) -> Variables {
        let mut changed = Variables::default();
        changed.begin_again(self.len(), self.buffer.len());
        for (name, own) in self.iter() {
            let start = changed.begin_text();
            changed.buffer.extend_from_slice(name);
            changed.buffer.push(b'=');
            match value(name, own) {
                Some(other) => changed.buffer.extend_from_slice(&other),
                None => changed.buffer.extend_from_slice(own),
            }
            changed.complete(start, name.len());
        }
        changed
    }

    pub(crate) fn add(&mut self, prefix: &str, name: &str, value: impl AsRef<[u8]>) {
        let start = self.begin(prefix, name);
        self.buffer.extend_from_slice(value.as_ref());
        self.complete(start, prefix.len() + name.len());
    }

    pub(crate) fn add_some(&mut self, prefix: &str, name: &str, value: Option<impl AsRef<[u8]>>) {
        if let Some(value) = value {
            self.add(prefix, name, value);
        }
    }

    /// Adds a variable whose value has neither NUL nor newline, and is short.
    pub(crate) fn add_valid(&mut self, prefix: &str, name: &str, value: &str) {
        self.add_valid_by(prefix, name, |buffer| buffer.extend_from_slice(value.as_bytes()));
    }

    pub(crate) fn add_number(&mut self, prefix: &str, name: &str, number: impl Into<u64>) {
        self.add_valid_by(prefix, name, |buffer| push_number(buffer, number.into()));
    }

    /// Sets `WWW_GATEWAY_REGION`, the shared memory into which the script may write the body of its reply. No route and no request can set it.
    pub fn add_region(&mut self, offset: u64, bytes: u64) {
        self.add_valid_by("WWW_", "GATEWAY_REGION", |buffer| {
            push_number(buffer, offset);
            buffer.push(b' ');
            push_number(buffer, bytes);
        });
    }

    /// Adds an address, as its `Display` writes it.
    pub(crate) fn add_address(&mut self, prefix: &str, name: &str, address: IpAddr) {
        self.add_valid_by(prefix, name, |buffer| match address {
            IpAddr::V4(address) => push_v4(buffer, address),
            // Writing into memory does not fail.
            IpAddr::V6(address) => drop(write!(buffer, "{address}")),
        });
    }

    #[inline(always)]
    fn add_valid_by(&mut self, prefix: &str, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin(prefix, name);
        write(&mut self.buffer);
        self.complete_valid(start, prefix.len() + name.len());
    }

    pub(crate) fn add_display(&mut self, prefix: &str, name: &str, value: impl Display) {
        let start = self.begin(prefix, name);
        // Writing into memory does not fail.
        let _ = write!(self.buffer, "{value}");
        self.complete(start, prefix.len() + name.len());
    }

    pub(crate) fn truncate(&mut self, count: usize) {
        if let Some(entry) = self.entries.get(count) {
            self.buffer.truncate(entry.start - LENGTH_BYTES);
            self.entries.truncate(count);
        }
    }

    /// Begins a variable, whose text is to be appended to the buffer; returns where that begins.
    pub(crate) fn begin_text(&mut self) -> usize {
        self.buffer.extend_from_slice(&[0; LENGTH_BYTES]);
        self.buffer.len()
    }

    // Inlined, so that the names, which are constants, are written without a call.
    #[inline(always)]
    fn begin(&mut self, prefix: &str, name: &str) -> usize {
        let start = self.begin_text();
        if !prefix.is_empty() {
            self.buffer.extend_from_slice(prefix.as_bytes());
        }
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(b'=');
        start
    }

    /// Completes the variable that begins at `start`; `false` if no script could read it: it is removed again.
    pub(crate) fn complete(&mut self, start: usize, name_length: usize) -> bool {
        let text = &self.buffer[start..];
        // A NUL would end the variable early; a newline would begin another one in a request record.
        if text.len() > VARIABLE_BYTES_MAX || memchr2(0, b'\n', text).is_some() {
            self.buffer.truncate(start - LENGTH_BYTES);
            self.dropped += 1;
            return false;
        }
        self.add_entry(start, name_length);
        true
    }

    /// Completes a variable of which it is certain that every script can read it.
    fn complete_valid(&mut self, start: usize, name_length: usize) {
        debug_assert!(memchr2(0, b'\n', &self.buffer[start..]).is_none() && self.buffer.len() - start < 1000);
        self.add_entry(start, name_length);
    }

    /// Completes the variable at the end of the buffer, which is no longer than `VARIABLE_BYTES_MAX`.
    fn add_entry(&mut self, start: usize, name_length: usize) {
        self.buffer.push(0);
        let length = u16::try_from(self.buffer.len() - start).expect("a variable is shorter than VARIABLE_BYTES_MAX");
        self.buffer[start - LENGTH_BYTES..start].copy_from_slice(&length.to_le_bytes());
        self.entries.push(Entry { start, name_length });
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let (start, end) = (self.entries[index].start - LENGTH_BYTES, self.end(index));
        let bytes = end - start;
        self.buffer.drain(start..end);
        self.entries.remove(index);
        for entry in &mut self.entries[index..] {
            entry.start -= bytes;
        }
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        (0..self.entries.len()).find(|index| self.name(*index) == name.as_bytes())
    }

    pub(crate) fn name(&self, index: usize) -> &[u8] {
        let entry = self.entries[index];
        &self.buffer[entry.start..entry.start + entry.name_length]
    }

    fn text(&self, index: usize) -> &[u8] {
        &self.buffer[self.entries[index].start..self.end(index) - 1]
    }

    /// Where the variable ends in the buffer, its NUL included.
    fn end(&self, index: usize) -> usize {
        let next = self.entries.get(index + 1);
        next.map_or(self.buffer.len(), |next| next.start - LENGTH_BYTES)
    }
}

/// Writes a number in decimal. `fmt` takes several times as long, and each request has many numbers.
pub(crate) fn push_number(buffer: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break buffer.extend_from_slice(&digits[first..]);
        }
    }
}

fn push_v4(buffer: &mut Vec<u8>, address: Ipv4Addr) {
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            buffer.push(b'.');
        }
        push_number(buffer, octet.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        let mut variables = Variables::default();
        for (name, value) in pairs {
            variables.set(name, value.as_bytes());
        }
        variables
    }

    #[test]
    fn variables_are_stored_in_one_buffer() {
        let variables = variables(&[("A", "1"), ("BB", ""), ("C", "x=y")]);
        assert_eq!(variables.bytes(), b"A=1\0BB=\0C=x=y\0");
        assert_eq!(variables.len(), 3);
        let pairs: Vec<_> = variables.iter().collect();
        assert_eq!(pairs, [(&b"A"[..], &b"1"[..]), (b"BB", b""), (b"C", b"x=y")]);
    }

    #[test]
    fn names_match_whole() {
        let variables = variables(&[("AB", "1"), ("A", "2")]);
        assert_eq!(variables.value("A"), Some(&b"2"[..]));
        assert_eq!(variables.value("AB=1"), None);
        assert_eq!(variables.value("B"), None);
    }

    #[test]
    fn a_variable_that_is_set_again_is_replaced() {
        let mut variables = variables(&[("A", "1"), ("B", "2"), ("C", "3")]);
        variables.set("A", b"longer");
        assert_eq!(variables.bytes(), b"B=2\0C=3\0A=longer\0");
        assert_eq!(variables.value("B"), Some(&b"2"[..]));
    }

    #[test]
    fn values_are_replaced_in_a_copy() {
        let variables = variables(&[("A", "1"), ("COOKIE", "secret"), ("C", "x=y")]);
        let masked = variables.with_values(|name, _| (name == b"COOKIE").then(|| b"*".to_vec()));
        assert_eq!(masked.bytes(), b"A=1\0COOKIE=*\0C=x=y\0");
    }

    #[test]
    fn variables_that_no_script_could_read_are_dropped() {
        let mut variables = variables(&[("A", "1")]);
        variables.set("A", b"a\nB=2");
        variables.set("C", b"a\0b");
        variables.set("D=", b"");
        variables.set("", b"x");
        assert!(variables.is_empty());
        assert_eq!(variables.bytes(), b"");
        assert_eq!(variables.dropped(), 4);
    }

    #[test]
    fn a_variable_fits_a_16_bit_length() {
        let mut variables = Variables::default();
        variables.set("A", &vec![b'x'; VARIABLE_BYTES_MAX - 2]);
        assert_eq!(variables.len(), 1);
        variables.set("B", &vec![b'x'; VARIABLE_BYTES_MAX - 1]);
        assert_eq!((variables.len(), variables.dropped()), (1, 1));
    }

    proptest! {
        #[test]
        fn numbers_and_addresses_are_written_as_by_display(number: u64, v4: u32, v6: u128) {
            let (v4, v6) = (IpAddr::from(v4.to_be_bytes()), IpAddr::from(v6.to_be_bytes()));
            let mut variables = Variables::default();
            variables.add_number("", "A", number);
            variables.add_number("", "A", number % 1000);
            variables.add_address("", "A", v4);
            variables.add_address("", "A", v6);
            let expected = format!("A={number}\0A={}\0A={v4}\0A={v6}\0", number % 1000);
            prop_assert_eq!(variables.bytes(), expected.as_bytes());
        }

        #[test]
        fn variables_behave_like_a_map(
            pairs in prop::collection::vec(("[A-C]{1,2}", prop::collection::vec(0..4_u8, 0..4)), 0..20),
        ) {
            let mut variables = Variables::default();
            let mut expected = std::collections::BTreeMap::new();
            for (name, value) in &pairs {
                variables.set(name, value);
                expected.remove(name.as_bytes());
                if !value.contains(&0) {
                    expected.insert(name.as_bytes(), &value[..]);
                }
            }
            let mut sorted: Vec<_> = variables.iter().collect();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
