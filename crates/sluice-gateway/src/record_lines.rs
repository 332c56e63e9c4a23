//! Lines of a record mailbox: where the server adds a newline, because a record is a line (WASD).
//!
//! The kernel keeps the boundaries of writes, but a write is not always a record: a program that collects its output
//! (stdio) writes whatever is in its buffer when the buffer is full, often the first half of a line. Size and newlines
//! distinguish them:
//!
//! | a write that does not end with a newline | is taken for | newline |
//! |---|---|---|
//! | shorter than 1024 bytes | a record | after it |
//! | a multiple of 4096 bytes, or of 1024 bytes or more with a newline inside | a full buffer | none: the line continues |
//! | any other of 1024 bytes or more | the next write decides: a program that writes newlines would have ended a line with one | between them, unless the next write begins or ends with one |
//! | any, after a full buffer whose line has not ended yet | the rest of that line | none |
//! | an empty one | an empty record | one: it is an empty line |
//!
//! 1024 bytes is the smallest buffer of a C library in use (musl), 4096 the block size of pipes and sockets, from which
//! the others (glibc, Perl, Go, Java) derive theirs. Not here: which replies are treated so (`adjustment`).

/// Bytes of the smallest output buffer of a program. A shorter write was meant as it is.
const BUFFER_BYTES_MIN: usize = 1024;

/// The usual unit of output buffers, bytes: st_blksize of pipes and sockets (stat(2)).
const BUFFER_UNIT_BYTES: usize = 4096;

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

/// What the next record follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    /// Nothing, or the end of a line.
    #[default]
    LineStart,
    /// A full buffer that ended within a line.
    WithinLine,
    /// A long record without a newline, which may be a line or the start of one.
    Undecided,
}

impl RecordLines {
    /// The newlines that are missing around the next record.
    #[must_use]
    pub fn next(&mut self, record: &[u8]) -> MissingNewlines {
        let ends_line = record.last() == Some(&b'\n');
        let begins_with_newline = matches!(record, [b'\n', ..] | [b'\r', b'\n', ..]);
        let before = self.0 == Position::Undecided && !ends_line && !begins_with_newline;
        let is_within_line = self.0 != Position::LineStart && !before;
        let (position, after) = match record {
            _ if ends_line => (Position::LineStart, false),
            [] => (Position::LineStart, true),
            _ if is_full_buffer(record) => (Position::WithinLine, false),
            _ if is_within_line => (Position::WithinLine, false),
            _ if record.len() >= BUFFER_BYTES_MIN => (Position::Undecided, false),
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
    record.len() >= BUFFER_BYTES_MIN
        && (record.len().is_multiple_of(BUFFER_UNIT_BYTES) || memchr::memchr(b'\n', record).is_some())
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
    fn long_records_are_lines_if_the_next_has_no_newline_either() {
        let (a, b) = ("a".repeat(5000), "b".repeat(1024));
        assert_eq!(text(&[&a, &b, "c"]), format!("{a}\n{b}\nc\n"));
        assert_eq!(text(&[&a, ""]), format!("{a}\n\n"));
        assert_eq!(text(&[&a]), format!("{a}\n"));
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
    }
}
