//! The newline adjustment: whether a record from a record mailbox is a line that lacks its end.
//!
//! Programs from VMS write text in records without newlines and count on the server to add them. Whether a mailbox is one
//! of records is the route's business; a stream is never adjusted.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::reply::{BodyMode, ReplyHead, ScriptControl};

/// Whether the records of a body get the newline that they lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordAdjustment {
    /// Bytes pass untouched.
    Untouched,
    /// Each record is a line.
    EndLines,
}

impl RecordAdjustment {
    /// Decides for the body that follows `head`: `text/*` is made of lines, unless `Script-Control` says otherwise.
    ///
    /// A body that is counted or compressed is never adjusted: one more byte would make it wrong.
    #[must_use]
    pub fn of(head: &ReplyHead) -> RecordAdjustment {
        if head.content_length.is_some() || head.fields.contains_key(CONTENT_ENCODING) {
            return RecordAdjustment::Untouched;
        }
        let content_type = head.fields.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let is_text = content_type
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"text/"));
        let by_type = if is_text {
            RecordAdjustment::EndLines
        } else {
            RecordAdjustment::Untouched
        };
        by_type.under(head.control)
    }

    /// What it becomes when the script asks for a mode, as it may at any time by the callout SCRIPT-CONTROL.
    #[must_use]
    pub fn under(self, control: ScriptControl) -> RecordAdjustment {
        match control.body_mode {
            Some(BodyMode::Record) => RecordAdjustment::EndLines,
            Some(BodyMode::Stream) => RecordAdjustment::Untouched,
            None => self,
        }
    }

    /// Whether a newline must be sent after `record`.
    #[must_use]
    pub fn lacks_newline(self, record: &[u8]) -> bool {
        self == RecordAdjustment::EndLines && record.last() != Some(&b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_head::tests::document;

    fn of(head: &str) -> RecordAdjustment {
        RecordAdjustment::of(&document(head))
    }

    #[test]
    fn text_is_made_of_lines() {
        assert_eq!(
            of("Content-Type: text/html; charset=utf-8\n\n"),
            RecordAdjustment::EndLines
        );
        assert_eq!(of("Content-Type: TEXT/plain\n\n"), RecordAdjustment::EndLines);
        assert_eq!(of("Content-Type: image/png\n\n"), RecordAdjustment::Untouched);
        assert_eq!(of("Content-Type: text\n\n"), RecordAdjustment::Untouched);
        assert_eq!(of("Status: 200\n\n"), RecordAdjustment::Untouched);
    }

    #[test]
    fn script_control_decides_against_the_type() {
        assert_eq!(
            of("Content-Type: text/html\nScript-Control: X-stream-mode\n\n"),
            RecordAdjustment::Untouched
        );
        assert_eq!(
            of("Content-Type: image/png\nScript-Control: X-record-mode\n\n"),
            RecordAdjustment::EndLines
        );
    }

    #[test]
    fn counted_and_compressed_bodies_stay_as_they_are() {
        assert_eq!(
            of("Content-Type: text/html\nContent-Length: 5\n\n"),
            RecordAdjustment::Untouched
        );
        assert_eq!(
            of("Content-Type: text/html\nContent-Encoding: gzip\n\n"),
            RecordAdjustment::Untouched
        );
    }

    #[test]
    fn only_a_missing_newline_is_added() {
        assert!(RecordAdjustment::EndLines.lacks_newline(b"line"));
        assert!(!RecordAdjustment::EndLines.lacks_newline(b"line\n"));
        assert!(!RecordAdjustment::Untouched.lacks_newline(b"line"));
    }
}
