//! Lines of a record mailbox: where the server adds a newline, because a record is a line (WASD).
//!
//! The kernel keeps the boundaries of writes, but a write is not always a record: a program that collects its output (stdio) writes whatever is in its
//! buffer when the buffer is full, often the first half of a line. Size and newlines distinguish them:
//!
//! | a write that does not end with a newline | is taken for | newline |
//! |---|---|---|
//! | shorter than 1024 bytes | a record | after it |
//! | within 512 bytes of a multiple of 4096, or of 1024 bytes or more with a newline inside | a full buffer | none: the line continues |
//! | any other of 1024 bytes or more, after the end of a line | the next write decides | between them, if the next one is shorter than 1024 bytes and has no newline |
//! | 1024 bytes or more, within a line | a buffer, too: records are seldom so long | none |
//! | shorter, after a full buffer whose line has not ended yet | the rest of that line | as in the third row |
//! | an empty one | an empty record | one: it is an empty line. The line before it has ended |
//!
//! 1024 bytes is the smallest buffer of a C library in use (musl), 4096 the block size of pipes and sockets, from which the others (glibc,
//! Perl, Go, Java) derive theirs. CPython writes its buffer of 8192 bytes before a part of text that no longer fits, Ruby after it.

/// Bytes of the smallest output buffer of a program. A shorter write was meant as it is.
const BUFFER_BYTES_MIN: usize = 1024;

/// The usual unit of output buffers, bytes: st_blksize of pipes and sockets (stat(2)).
const BUFFER_UNIT_BYTES: usize = 4096;

/// How much less or more than its buffer a program writes at once that does not divide parts of text, bytes.
const DEVIATION_BYTES_MAX: usize = 512;

/// The newlines that are missing around one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingNewlines {
    /// One before it: the record before was a line.
    pub before: bool,
    /// One after it: it is a line itself.
    pub after: bool,
}

/// The lines of one reply, record by record.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordLines(Position);

/// The bytes before the next record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    LineStart,
    /// A full buffer that ended within a line.
    WithinLine,
    /// A long record without a newline, which may be a line or the start of one.
    Undecided,
    /// A short record after a full buffer, which ended the line or did not.
    Rest,
}

impl RecordLines {
    /// The newlines that are missing around the next record.
    pub fn next(&mut self, record: &[u8]) -> MissingNewlines {
        let ends_line = record.last() == Some(&b'\n');
        let is_long = record.len() >= BUFFER_BYTES_MIN;
        let before = match self.0 {
            Position::LineStart => false,
            Position::WithinLine => record.is_empty(),
            Position::Undecided | Position::Rest => !is_long && memchr::memchr(b'\n', record).is_none(),
        };
        let is_within_line = self.0 != Position::LineStart && !before;
        let (position, after) = match record {
            _ if ends_line => (Position::LineStart, false),
            [] => (Position::LineStart, true),
            _ if is_full_buffer(record) || (is_long && is_within_line) => (Position::WithinLine, false),
            _ if is_long => (Position::Undecided, false),
            _ if is_within_line => (Position::Rest, false),
            _ => (Position::LineStart, true),
        };
        self.0 = position;
        MissingNewlines { before, after }
    }

    /// Whether a newline is missing at the end of the output: its last record was a line.
    #[must_use]
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.0) == Position::Undecided
    }
}

/// Whether a record that does not end with a newline is what a program writes when its output buffer is full.
pub(crate) fn is_full_buffer(record: &[u8]) -> bool {
    record.len() >= BUFFER_BYTES_MIN && (is_near_unit(record.len()) || memchr::memchr(b'\n', record).is_some())
}

/// Whether a length differs from a multiple of the unit by no more than a part of text. For at least `BUFFER_BYTES_MIN` bytes.
fn is_near_unit(length: usize) -> bool {
    let above = length % BUFFER_UNIT_BYTES;
    above.min(BUFFER_UNIT_BYTES - above) <= DEVIATION_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text that a client gets of these writes.
    fn sent<'a>(writes: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut lines = RecordLines::default();
        let mut sent = Vec::new();
        for write in writes {
            let missing = lines.next(write);
            sent.extend(missing.before.then_some(b'\n'));
            sent.extend_from_slice(write);
            sent.extend(missing.after.then_some(b'\n'));
        }
        sent.extend(lines.end().then_some(b'\n'));
        sent
    }

    fn text(writes: &[&str]) -> String {
        String::from_utf8(sent(writes.iter().map(|write| write.as_bytes()))).unwrap()
    }

    #[test]
    fn short_records_are_lines() {
        assert_eq!(
            text(&["one", "two\n", "three\r\n", "", "four\nfive", "\n"]),
            "one\ntwo\nthree\r\n\nfour\nfive\n\n"
        );
    }

    #[test]
    fn a_long_record_is_a_line_if_the_next_is_short_and_has_no_newline_either() {
        let a = "a".repeat(5000);
        assert_eq!(text(&[&a, "b", "c"]), format!("{a}\nb\nc\n"));
        assert_eq!(text(&[&a, ""]), format!("{a}\n\n"));
        assert_eq!(text(&[&a]), format!("{a}\n"));
    }

    #[test]
    fn two_long_records_without_newline_are_buffers() {
        let (a, b) = ("a".repeat(5000), "b".repeat(1024));
        assert_eq!(text(&[&a, &b, "c"]), format!("{a}{b}c"));
        assert_eq!(text(&[&a, &format!("{b}\nc"), "d"]), format!("{a}{b}\ncd"));
        assert_eq!(text(&[&a, "b\nc"]), format!("{a}b\nc"));
    }

    #[test]
    fn short_records_after_a_full_buffer_and_the_rest_of_its_line_are_lines() {
        for full in ["a".repeat(4096), format!("{}\nb", "a".repeat(1200))] {
            assert_eq!(text(&[&full, "0", "1", "2"]), format!("{full}0\n1\n2\n"));
            assert_eq!(text(&[&full, "0", "", "2"]), format!("{full}0\n\n2\n"));
            assert_eq!(text(&[&full, "", "2"]), format!("{full}\n\n2\n"));
        }
    }

    #[test]
    fn a_long_line_in_several_writes_stays_one_line() {
        let a = "a".repeat(10_000);
        // Python's print() of a text that is longer than its buffer.
        assert_eq!(text(&[&a, "\n", &a, "\nb\n"]), format!("{a}\n{a}\nb\n"));
        assert_eq!(text(&[&a, "a\nb\n"]), format!("{a}a\nb\n"));
    }

    #[test]
    fn the_rest_of_a_buffered_line_is_no_record() {
        let block = format!("{}x\nab", "x\n".repeat(2046));
        assert_eq!(block.len(), 4096);
        assert_eq!(
            text(&[&block, "c\nd"]),
            format!("{block}c\nd"),
            "the last line has no newline"
        );
        assert_eq!(
            text(&[&block, "c\n", "d"]),
            format!("{block}c\nd\n"),
            "a record follows"
        );
    }

    proptest! {
        /// Programs that buffer their output: the same bytes arrive, whatever the size of the buffer and the lines.
        #[test]
        fn lines_of_a_full_buffer_stay_whole(
            lengths in prop::collection::vec(0..3000_usize, 1..60),
            buffer_bytes in prop::sample::select(vec![4096, 8192, 32768, 131_072]),
        ) {
            let whole: Vec<u8> = lengths.iter().flat_map(|length| [vec![b'x'; *length], vec![b'\n']].concat()).collect();
            prop_assert_eq!(sent(whole.chunks(buffer_bytes)), whole);
        }

        /// Programs whose buffer is written before a part that no longer fits (CPython), or with it (Ruby).
        #[test]
        fn parts_of_text_stay_together(
            parts in prop::collection::vec((1..500_usize, any::<bool>()), 1..120),
            buffer_bytes in prop::sample::select(vec![4096, 8192, 65_536]),
            is_written_before: bool,
        ) {
            let part = |(length, ends_line): (usize, bool)| "x".repeat(length) + if ends_line { "\n" } else { "" };
            let parts: Vec<String> = parts.into_iter().map(part).collect();
            let mut writes = vec![String::new()];
            for part in &parts {
                let last = writes.last().map_or(0, String::len);
                let next = if is_written_before { last + part.len() } else { last };
                if next > buffer_bytes {
                    writes.push(String::new());
                }
                writes.last_mut().unwrap().push_str(part);
            }
            let whole = parts.concat();
            let sent = text(&writes.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(sent.strip_suffix('\n').unwrap_or(&sent), whole.strip_suffix('\n').unwrap_or(&whole));
        }
    }
}
