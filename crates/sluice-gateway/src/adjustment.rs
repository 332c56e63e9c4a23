//! The newline adjustment: which replies from a record mailbox get newlines, and how.
//!
//! Programs from VMS write text in records without newlines and expect the server to add them. The route decides whether a mailbox keeps
//! records; a stream is never adjusted.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::record_lines::{MissingNewlines, RecordLines};
use crate::reply::ReplyHead;
use crate::script_control::{BodyMode, ScriptControl};

/// The treatment of the records of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordAdjustment {
    /// Bytes pass unchanged.
    Unchanged,
    /// Records are lines, unless their sizes show that the program collects its output ([`RecordLines`]).
    Lines,
    /// Each record is a line, without exception (`X-record-mode`).
    EachRecord,
    /// Each record is a line that ends with CR and LF (`X-crlf-mode`).
    EachRecordCrlf,
}

impl RecordAdjustment {
    /// The adjustment for the body that follows `head`: `text/*` consists of lines, unless `Script-Control` says otherwise.
    ///
    /// A body with a Content-Length or a Content-Encoding is never adjusted, because an added byte would corrupt it.
    pub fn for_head(head: &ReplyHead) -> RecordAdjustment {
        if head.content_length.is_some() || head.fields.contains_key(CONTENT_ENCODING) {
            return RecordAdjustment::Unchanged;
        }
        let content_type = head.fields.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let by_type = match content_type.get(..5) {
            Some(start) if start.eq_ignore_ascii_case(b"text/") => RecordAdjustment::Lines,
            _ => RecordAdjustment::Unchanged,
        };
        by_type.with_control(&head.control)
    }

    /// The adjustment after the script has asked for a mode, by the `Script-Control` field or callout.
    #[must_use]
    pub fn with_control(self, control: &ScriptControl) -> RecordAdjustment {
        match control.body_mode {
            Some(BodyMode::Record) => RecordAdjustment::EachRecord,
            Some(BodyMode::Crlf) => RecordAdjustment::EachRecordCrlf,
            Some(BodyMode::Stream) => RecordAdjustment::Unchanged,
            None => self,
        }
    }

    /// The bytes to send of a record of the body; `missing` is what [`RecordLines::next`] said of it.
    #[must_use]
    pub fn apply(self, record: Bytes, missing: MissingNewlines) -> Bytes {
        match self {
            RecordAdjustment::Unchanged => record,
            RecordAdjustment::Lines => with_newlines(record, missing),
            RecordAdjustment::EachRecord => {
                let missing = MissingNewlines {
                    before: false,
                    after: record.last() != Some(&b'\n'),
                };
                with_newlines(record, missing)
            }
            RecordAdjustment::EachRecordCrlf => with_crlf(record),
        }
    }

    /// The bytes to send at the end of the body, after its last record.
    #[must_use]
    pub fn end(self, lines: &mut RecordLines) -> Option<Bytes> {
        let is_missing = lines.end();
        (self == RecordAdjustment::Lines && is_missing).then(|| Bytes::from_static(b"\n"))
    }
}

fn with_newlines(record: Bytes, missing: MissingNewlines) -> Bytes {
    if missing == MissingNewlines::default() {
        return record;
    }
    let mut line = BytesMut::with_capacity(record.len() + 2);
    line.extend(missing.before.then_some(b'\n'));
    line.extend_from_slice(&record);
    line.extend(missing.after.then_some(b'\n'));
    line.freeze()
}

fn with_crlf(record: Bytes) -> Bytes {
    if record.ends_with(b"\r\n") {
        return record;
    }
    let text = record.strip_suffix(b"\n").unwrap_or(&record);
    [text, b"\r\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_head::tests::document;

    fn of(head: &str) -> RecordAdjustment {
        RecordAdjustment::for_head(&document(head))
    }

    fn applied(adjustment: RecordAdjustment, record: &'static str) -> Bytes {
        let missing = RecordLines::default().next(record.as_bytes());
        adjustment.apply(Bytes::from_static(record.as_bytes()), missing)
    }

    #[test]
    fn text_records_are_lines() {
        assert_eq!(
            of("Content-Type: text/html; charset=utf-8\n\n"),
            RecordAdjustment::Lines
        );
        assert_eq!(of("Content-Type: TEXT/plain\n\n"), RecordAdjustment::Lines);
        assert_eq!(of("Content-Type: image/png\n\n"), RecordAdjustment::Unchanged);
        assert_eq!(of("Content-Type: text\n\n"), RecordAdjustment::Unchanged);
        assert_eq!(of("Status: 200\n\n"), RecordAdjustment::Unchanged);
    }

    #[test]
    fn script_control_overrides_the_content_type() {
        for (directive, adjustment) in [
            ("X-stream-mode", RecordAdjustment::Unchanged),
            ("X-record-mode", RecordAdjustment::EachRecord),
            ("X-record0-mode", RecordAdjustment::EachRecord),
            ("X-lf-mode", RecordAdjustment::EachRecord),
            ("X-crlf-mode", RecordAdjustment::EachRecordCrlf),
        ] {
            for kind in ["text/html", "image/png"] {
                assert_eq!(
                    of(&format!("Content-Type: {kind}\nScript-Control: {directive}\n\n")),
                    adjustment
                );
            }
        }
    }

    #[test]
    fn bodies_with_a_length_or_a_coding_are_not_adjusted() {
        for field in ["Content-Length: 5", "Content-Encoding: gzip"] {
            assert_eq!(
                of(&format!("Content-Type: text/html\n{field}\n\n")),
                RecordAdjustment::Unchanged
            );
        }
    }

    #[test]
    fn only_missing_newlines_are_added() {
        for (record, line, crlf) in [
            ("a", "a\n", "a\r\n"),
            ("a\n", "a\n", "a\r\n"),
            ("", "\n", "\r\n"),
            ("a\r\n", "a\r\n", "a\r\n"),
        ] {
            assert_eq!(applied(RecordAdjustment::Unchanged, record), record);
            assert_eq!(applied(RecordAdjustment::Lines, record), line);
            assert_eq!(applied(RecordAdjustment::EachRecord, record), line);
            assert_eq!(applied(RecordAdjustment::EachRecordCrlf, record), crlf);
        }
    }

    #[test]
    fn x_record_mode_makes_a_line_of_every_record() {
        let block: &'static str = "x".repeat(4096).leak();
        assert_eq!(applied(RecordAdjustment::Lines, block).len(), 4096);
        assert_eq!(applied(RecordAdjustment::EachRecord, block).len(), 4097);
    }
}
