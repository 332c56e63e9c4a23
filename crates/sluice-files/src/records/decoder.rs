//! Decodes VMS records to lines, chunk by chunk, with constant state.
//!
//! Pure: no I/O, no clock. A record becomes its bytes and a newline; a record that ends with a newline gets no second one. In
//! formats with lengths, a length of 0xFFFF means that the rest of the block (512 bytes, counted from the start of the file) is
//! unused. It occurs in files whose records may not span blocks, and after records were deleted.
//!
//! ```text
//!            length 0xFFFF
//! Between ◀────────────────▶ Unused            odd
//!    │  ▲ ◀───────────────────────── Padding ◀──┐
//!    ▼  └──────────────────────────┐            │
//! Length ──▶ Record (control area, data) ───────┴──▶ newline
//! ```

use std::error::Error;
use std::fmt;
use std::io;

use sluice_settings::record_format::{RECORD_BYTES_MAX, RecordFormat};

/// Bytes of a VMS disk block.
const BLOCK_BYTES: u64 = 512;

/// The value of a length that marks the rest of the block as unused.
const UNUSED: u16 = 0xffff;

/// Converts the records of one file to lines.
#[derive(Clone, Debug)]
pub struct Decoder {
    format: RecordFormat,
    state: State,
    at: u64,
    /// The offset of the present record, including its length.
    record_at: u64,
    /// The present record has an odd size, so a padding byte follows.
    is_odd: bool,
    ends_line: bool,
    records: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The first byte of a record or of its length.
    Between,
    /// The second byte of a length, whose first byte is this.
    Length(u8),
    /// A byte of a record: the bytes of its control area and of its data that are missing, together at least one.
    Record {
        control: usize,
        data: usize,
    },
    /// The byte after a record of odd size.
    Padding,
    Unused,
}

/// The error that a file does not have the given format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The offset of the record, including its length, in bytes from the start of the file.
    pub offset: u64,
    /// The error in the record, as text.
    pub flaw: String,
}

impl Decoder {
    /// A decoder at the start of a file.
    #[must_use]
    pub fn new(format: RecordFormat) -> Decoder {
        Decoder {
            format,
            state: State::Between,
            at: 0,
            record_at: 0,
            is_odd: false,
            ends_line: false,
            records: 0,
        }
    }

    /// The number of complete records up to now.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Decodes the next chunk of the file, which may end anywhere, and adds its lines to `lines`: at most 1.5 times the chunk's bytes.
    ///
    /// # Errors
    /// The file is malformed. The lines before the error were added; the decoder must not be used any more.
    pub fn push(&mut self, chunk: &[u8], lines: &mut Vec<u8>) -> Result<(), Malformed> {
        lines.reserve(self.format.lines_bytes_max(chunk.len()));
        let mut rest = chunk;
        while !rest.is_empty() {
            let taken = self.step(rest, lines)?;
            rest = &rest[taken..];
            self.at += taken as u64;
        }
        Ok(())
    }

    /// Ends the file. The padding byte of the last record may be missing.
    ///
    /// # Errors
    /// The file ends within a record.
    pub fn finish(&self) -> Result<(), Malformed> {
        match self.state {
            State::Between | State::Padding | State::Unused => Ok(()),
            State::Length(_) => self.malformed("the file ends within the length of a record".to_owned()),
            State::Record { control, data } => {
                let missing = control + data;
                self.malformed(format!("the file ends within a record, {missing} bytes are missing"))
            }
        }
    }

    /// Makes one step of the drawing above; returns how many bytes of the non-empty `rest` it consumed. After a step that consumes none comes one that does.
    fn step(&mut self, rest: &[u8], lines: &mut Vec<u8>) -> Result<usize, Malformed> {
        match (self.state, rest) {
            (State::Between, _) => {
                self.record_at = self.at;
                return self.begin_record(rest, lines);
            }
            (State::Length(low), [high, ..]) => {
                self.read_length(u16::from_le_bytes([low, *high]), lines)?;
                return Ok(1);
            }
            (State::Record { control: 0, data }, _) => return Ok(self.copy_data(data, rest, lines)),
            (State::Record { control, data }, _) => {
                let skipped = control.min(rest.len());
                self.continue_record(control - skipped, data, lines);
                return Ok(skipped);
            }
            (State::Unused, _) => return Ok(self.skip_unused(rest)),
            (State::Padding, _) => self.state = State::Between,
            // `rest` is never empty.
            (State::Length(_), []) => return Ok(0),
        }
        Ok(1)
    }

    fn begin_record(&mut self, rest: &[u8], lines: &mut Vec<u8>) -> Result<usize, Malformed> {
        if let RecordFormat::Fixed { bytes } = self.format {
            self.begin(0, bytes.get(), lines);
            return Ok(0);
        }
        let taken = self.take_whole_records(rest, lines);
        if taken > 0 {
            return Ok(taken);
        }
        match rest {
            [low, high, ..] => {
                self.read_length(u16::from_le_bytes([*low, *high]), lines)?;
                Ok(2)
            }
            [low] => {
                self.state = State::Length(*low);
                Ok(1)
            }
            [] => Ok(0),
        }
    }

    /// Decodes the records that are complete in `rest` without single steps, in half the time; these are most of a file. All
    /// others, valid or not, are left to the steps. Returns the number of consumed bytes.
    fn take_whole_records(&mut self, rest: &[u8], lines: &mut Vec<u8>) -> usize {
        let control = usize::from(self.control_bytes());
        let mut taken = 0;
        while let [low, high, after @ ..] = &rest[taken..] {
            let bytes = usize::from(u16::from_le_bytes([*low, *high]));
            let padded = bytes.next_multiple_of(2);
            if bytes > usize::from(RECORD_BYTES_MAX) || bytes < control || padded > after.len() {
                break;
            }
            let data = &after[control..bytes];
            lines.extend_from_slice(data);
            if data.last() != Some(&b'\n') {
                lines.push(b'\n');
            }
            self.records += 1;
            taken += 2 + padded;
        }
        taken
    }

    fn control_bytes(&self) -> u8 {
        match self.format {
            RecordFormat::Vfc { control_bytes } => control_bytes,
            RecordFormat::Variable | RecordFormat::Fixed { .. } => 0,
        }
    }

    fn read_length(&mut self, bytes: u16, lines: &mut Vec<u8>) -> Result<(), Malformed> {
        let control = self.control_bytes();
        if bytes == UNUSED {
            self.state = State::Unused;
            return Ok(());
        }
        if bytes > RECORD_BYTES_MAX {
            let flaw = format!("a record of {bytes} bytes, but none is longer than {RECORD_BYTES_MAX}");
            return self.malformed(flaw);
        }
        let Some(data) = bytes.checked_sub(control.into()) else {
            return self.malformed(format!(
                "a record of {bytes} bytes, too short for its control area of {control}"
            ));
        };
        self.begin(control, data, lines);
        Ok(())
    }

    fn begin(&mut self, control: u8, data: u16, lines: &mut Vec<u8>) {
        let (control, data) = (usize::from(control), usize::from(data));
        self.is_odd = !(control + data).is_multiple_of(2);
        self.ends_line = false;
        self.continue_record(control, data, lines);
    }

    /// Continues the present record, of which these bytes are missing; ends it if none are.
    fn continue_record(&mut self, control: usize, data: usize, lines: &mut Vec<u8>) {
        if control + data > 0 {
            self.state = State::Record { control, data };
            return;
        }
        if !self.ends_line {
            lines.push(b'\n');
        }
        self.records += 1;
        self.state = if self.is_odd { State::Padding } else { State::Between };
    }

    fn copy_data(&mut self, data: usize, rest: &[u8], lines: &mut Vec<u8>) -> usize {
        let part = &rest[..data.min(rest.len())];
        lines.extend_from_slice(part);
        self.ends_line = part.last() == Some(&b'\n');
        self.continue_record(0, data - part.len(), lines);
        part.len()
    }

    fn skip_unused(&mut self, rest: &[u8]) -> usize {
        let left = usize::try_from(self.at.next_multiple_of(BLOCK_BYTES) - self.at).unwrap_or(usize::MAX);
        if left <= rest.len() {
            self.state = State::Between;
        }
        left.min(rest.len())
    }

    fn malformed(&self, flaw: String) -> Result<(), Malformed> {
        let offset = self.record_at;
        Err(Malformed { offset, flaw })
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "byte {}: {}", self.offset, self.flaw)
    }
}

impl Error for Malformed {}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a file in chunks of at most this size.
    fn lines_in_chunks(format: &str, file: &[u8], chunk_bytes: usize) -> (String, Result<u64, Malformed>) {
        let mut decoder = Decoder::new(format.parse().unwrap());
        let mut lines = Vec::new();
        let pushed = file
            .chunks(chunk_bytes)
            .try_for_each(|chunk| decoder.push(chunk, &mut lines));
        let result = pushed.and_then(|()| decoder.finish()).map(|()| decoder.records());
        (String::from_utf8(lines).unwrap(), result)
    }

    /// Decodes a file, and checks that the chunks do not matter.
    #[track_caller]
    fn lines(format: &str, file: &[u8]) -> (String, Result<u64, Malformed>) {
        let whole = lines_in_chunks(format, file, usize::MAX);
        for chunk_bytes in 1..9 {
            assert_eq!(
                lines_in_chunks(format, file, chunk_bytes),
                whole,
                "in chunks of {chunk_bytes}"
            );
        }
        whole
    }

    #[track_caller]
    fn assert_lines(format: &str, file: &[u8], expected: &str, records: u64) {
        assert_eq!(lines(format, file), (expected.to_owned(), Ok(records)));
    }

    #[track_caller]
    fn assert_malformed(format: &str, file: &[u8], before: &str, offset: u64, flaw: &str) {
        assert_eq!(
            lines(format, file),
            (before.to_owned(), Err(Malformed { offset, flaw: flaw.to_owned() }))
        );
    }

    #[test]
    fn empty_file_has_no_lines_in_any_format() {
        for format in ["variable", "vfc", "fixed:80"] {
            assert_lines(format, b"", "", 0);
        }
    }

    #[test]
    fn variable_records_become_lines_and_odd_ones_are_padded() {
        assert_lines(
            "variable",
            b"\x05\0hello\0\x04\0good\0\0\x01\0.\0",
            "hello\ngood\n\n.\n",
            4,
        );
        // The padding byte has no meaning, and may be missing at the end.
        assert_lines("variable", b"\x01\0a\xff\x01\0b", "a\nb\n", 2);
    }

    #[test]
    fn control_area_is_skipped() {
        assert_lines(
            "vfc",
            b"\x05\0\x01\x8dabc\0\x02\0\x01\x8d\x04\0\x01\x8dde",
            "abc\n\nde\n",
            3,
        );
        assert_lines("vfc:3", b"\x04\0\x01\x02\x03a\x03\0\x01\x02\x03\0", "a\n\n", 2);
    }

    #[test]
    fn fixed_records_have_no_length_and_odd_ones_are_padded() {
        assert_lines("fixed:4", b"onlytwo.", "only\ntwo.\n", 2);
        assert_lines("fixed:3", b"one\0two\0six\0", "one\ntwo\nsix\n", 3);
        assert_lines("fixed:3", b"one\0two", "one\ntwo\n", 2);
    }

    #[test]
    fn record_that_ends_with_a_newline_gets_no_second() {
        assert_lines("variable", b"\x03\0ab\n\0\x01\0\n\0\x02\0\n.", "ab\n\n\n.\n", 3);
        assert_lines("fixed:2", b"a\n\nb", "a\n\nb\n", 2);
    }

    #[test]
    fn rest_of_a_block_may_be_unused() {
        let mut file = b"\x02\0ab\xff\xff".to_vec();
        file.resize(512, b'x');
        file.extend(b"\x02\0cd\xff\xff");
        assert_lines("variable", &file, "ab\ncd\n", 2);
        // A whole block, and the last two bytes of one.
        file.resize(1024, 0);
        file.extend(b"\xff\xff");
        file.resize(1536, 0);
        file.extend(b"\xfc\x01");
        file.resize(2046, b'.');
        file.extend(b"\xff\xff\x02\0ef");
        let expected = format!("ab\ncd\n{}\nef\n", ".".repeat(508));
        assert_lines("variable", &file, &expected, 4);
        assert_lines("vfc", b"\xff\xff", "", 0);
    }

    #[test]
    fn invalid_length_is_reported_with_its_offset() {
        let flaw = "a record of 32768 bytes, but none is longer than 32767";
        assert_malformed("variable", b"\x03\0abc\0\0\x80rest", "abc\n", 6, flaw);
        let flaw = "a record of 65534 bytes, but none is longer than 32767";
        assert_malformed("vfc", b"\xfe\xff", "", 0, flaw);
        let flaw = "a record of 3 bytes, too short for its control area of 4";
        assert_malformed("vfc:4", b"\x04\0\0\0\0\0\x03\0\0\0\0", "\n", 6, flaw);
        let mut longest = vec![0xff, 0x7f];
        longest.resize(2 + 32_767, b'.');
        assert_eq!(lines_in_chunks("variable", &longest, 4096).1, Ok(1));
    }

    #[test]
    fn incomplete_file_is_reported_with_the_missing_bytes() {
        assert_malformed(
            "variable",
            b"\x02\0ab\x05\0cd",
            "ab\ncd",
            4,
            "the file ends within a record, 3 bytes are missing",
        );
        assert_malformed(
            "variable",
            b"\x02\0ab\x05",
            "ab\n",
            4,
            "the file ends within the length of a record",
        );
        assert_malformed(
            "vfc:4",
            b"\x06\0\0",
            "",
            0,
            "the file ends within a record, 5 bytes are missing",
        );
        assert_malformed(
            "fixed:3",
            b"one\0tw",
            "one\ntw",
            4,
            "the file ends within a record, 1 bytes are missing",
        );
    }

    #[test]
    fn messages_name_the_byte_and_the_lengths() {
        let message = |format: &str, file: &[u8]| lines(format, file).1.unwrap_err().to_string();
        assert_eq!(
            message("variable", b"\0\0\x60\xea"),
            "byte 2: a record of 60000 bytes, but none is longer than 32767"
        );
        assert_eq!(
            message("vfc", b"\x01\0"),
            "byte 0: a record of 1 bytes, too short for its control area of 2"
        );
        assert_eq!(
            message("variable", b"\0"),
            "byte 0: the file ends within the length of a record"
        );
        assert_eq!(
            message("fixed:80", b"abc"),
            "byte 0: the file ends within a record, 77 bytes are missing"
        );
    }

    /// Encodes a file as VMS writes it; with `in_blocks` no record spans two blocks.
    fn encode(format: RecordFormat, records: &[Vec<u8>], in_blocks: bool) -> Vec<u8> {
        let mut file = Vec::new();
        for record in records {
            let control = match format {
                RecordFormat::Vfc { control_bytes } => usize::from(control_bytes),
                _ => 0,
            };
            let bytes = control + record.len();
            if in_blocks && file.len() % 512 + 2 + bytes > 512 && !file.len().is_multiple_of(512) {
                file.extend([0xff, 0xff]);
                file.resize(file.len().next_multiple_of(512), 0);
            }
            if !matches!(format, RecordFormat::Fixed { .. }) {
                file.extend(u16::try_from(bytes).unwrap().to_le_bytes());
            }
            file.extend(std::iter::repeat_n(0x8d, control));
            file.extend(record);
            file.resize(file.len().next_multiple_of(2), 0);
        }
        file
    }

    fn format() -> impl Strategy<Value = RecordFormat> {
        prop_oneof![
            Just(RecordFormat::Variable),
            (1..9_u8).prop_map(|control_bytes| RecordFormat::Vfc { control_bytes }),
            (1..200_u16).prop_map(|bytes| RecordFormat::Fixed { bytes: bytes.try_into().unwrap() }),
        ]
    }

    fn decode(format: RecordFormat, file: &[u8], chunks: &[usize]) -> (Vec<u8>, Result<u64, Malformed>) {
        let mut decoder = Decoder::new(format);
        let (mut lines, mut rest, mut chunks) = (Vec::new(), file, chunks.iter().cycle());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunks.next().map_or(rest.len(), |bytes| rest.len().min(*bytes)));
            let before = lines.len();
            if let Err(malformed) = decoder.push(chunk, &mut lines) {
                return (lines, Err(malformed));
            }
            assert!(
                lines.len() - before <= format.lines_bytes_max(chunk.len()),
                "more than documented"
            );
            rest = after;
        }
        (lines, decoder.finish().map(|()| decoder.records()))
    }

    proptest! {
        #[test]
        fn encoded_records_are_decoded_in_any_chunks(
            format in format(),
            texts in prop::collection::vec("[ -~]{0,300}", 0..20),
            in_blocks: bool,
            chunks in prop::collection::vec(1..700_usize, 1..9),
        ) {
            let records: Vec<Vec<u8>> = texts.iter().map(|text| match format {
                RecordFormat::Fixed { bytes } => format!("{text:<200}").into_bytes()[..bytes.get().into()].to_vec(),
                _ => text.clone().into_bytes(),
            }).collect();
            let in_blocks = in_blocks && !matches!(format, RecordFormat::Fixed { .. });
            let file = encode(format, &records, in_blocks);
            let expected: Vec<u8> = records.iter().flat_map(|record| [record, &b"\n"[..]].concat()).collect();
            let (lines, result) = decode(format, &file, &chunks);
            prop_assert_eq!(result, Ok(records.len() as u64));
            prop_assert_eq!(lines, expected);
        }

        #[test]
        fn any_bytes_give_the_same_lines_and_error_in_any_chunks(
            format in format(),
            file in prop::collection::vec(prop_oneof![Just(0_u8), Just(0xff), Just(2), any::<u8>()], 0..700),
            chunks in prop::collection::vec(1..700_usize, 1..9),
        ) {
            let whole = decode(format, &file, &[usize::MAX]);
            if let Err(malformed) = &whole.1 {
                prop_assert!(malformed.offset < file.len() as u64);
            }
            prop_assert_eq!(decode(format, &file, &chunks), whole);
        }
    }
}
