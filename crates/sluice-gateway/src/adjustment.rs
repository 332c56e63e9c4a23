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
    Unchanged,
    /// Each record is a line.
    AddNewline,
}

impl RecordAdjustment {
    /// Decides for the body that follows `head`: `text/*` is made of lines, unless `Script-Control` says otherwise.
    ///
    /// A body that is counted or compressed is never adjusted: one more byte would make it wrong.
    #[must_use]
    pub fn for_head(head: &ReplyHead) -> RecordAdjustment {
        if head.content_length.is_some() || head.fields.contains_key(CONTENT_ENCODING) {
            return RecordAdjustment::Unchanged;
        }
        let content_type = head.fields.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let is_text = content_type
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"text/"));
        let by_type = if is_text {
            RecordAdjustment::AddNewline
        } else {
            RecordAdjustment::Unchanged
        };
        by_type.with_control(head.control)
    }

    /// What it becomes when the script asks for a mode, as it may at any time by the callout SCRIPT-CONTROL.
    #[must_use]
    pub fn with_control(self, control: ScriptControl) -> RecordAdjustment {
        match control.body_mode {
            Some(BodyMode::Record) => RecordAdjustment::AddNewline,
            Some(BodyMode::Stream) => RecordAdjustment::Unchanged,
            None => self,
        }
    }

    /// Whether a newline must be sent after `request_record`.
    #[must_use]
    pub fn needs_newline(self, record: &[u8]) -> bool {
        self == RecordAdjustment::AddNewline && record.last() != Some(&b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_head::tests::document;

    fn of(head: &str) -> RecordAdjustment {
        RecordAdjustment::for_head(&document(head))
    }

    #[test]
    fn text_is_made_of_lines() {
        assert_eq!(
            of("Content-Type: text/html; charset=utf-8\n\n"),
            RecordAdjustment::AddNewline
        );
        assert_eq!(of("Content-Type: TEXT/plain\n\n"), RecordAdjustment::AddNewline);
        assert_eq!(of("Content-Type: image/png\n\n"), RecordAdjustment::Unchanged);
        assert_eq!(of("Content-Type: text\n\n"), RecordAdjustment::Unchanged);
        assert_eq!(of("Status: 200\n\n"), RecordAdjustment::Unchanged);
    }

    #[test]
    fn script_control_decides_against_the_type() {
        assert_eq!(
            of("Content-Type: text/html\nScript-Control: X-stream-mode\n\n"),
            RecordAdjustment::Unchanged
        );
        assert_eq!(
            of("Content-Type: image/png\nScript-Control: X-record-mode\n\n"),
            RecordAdjustment::AddNewline
        );
    }

    #[test]
    fn counted_and_compressed_bodies_stay_as_they_are() {
        assert_eq!(
            of("Content-Type: text/html\nContent-Length: 5\n\n"),
            RecordAdjustment::Unchanged
        );
        assert_eq!(
            of("Content-Type: text/html\nContent-Encoding: gzip\n\n"),
            RecordAdjustment::Unchanged
        );
    }

    #[test]
    fn only_a_missing_newline_is_added() {
        assert!(RecordAdjustment::AddNewline.needs_newline(b"line"));
        assert!(!RecordAdjustment::AddNewline.needs_newline(b"line\n"));
        assert!(!RecordAdjustment::Unchanged.needs_newline(b"line"));
    }
}
