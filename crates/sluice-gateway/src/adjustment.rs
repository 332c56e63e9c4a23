//! The newline adjustment: whether the server adds a newline to a record from a record mailbox.
//!
//! Programs from VMS write text in records without newlines and expect the server to add them. The route decides
//! whether a mailbox keeps records; a stream is never adjusted.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::reply::{BodyMode, ReplyHead, ScriptControl};

/// Whether the records of a body get a missing newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordAdjustment {
    /// Bytes pass unchanged.
    Unchanged,
    /// Each record is a line: it gets a newline unless it ends with one.
    AddNewline,
}

impl RecordAdjustment {
    /// The adjustment for the body that follows `head`: `text/*` consists of lines, unless `Script-Control` says
    /// otherwise.
    ///
    /// A body with a Content-Length or a Content-Encoding is never adjusted, because an added byte would corrupt it.
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

    /// The adjustment after the script has asked for a mode, by the `Script-Control` field or the callout
    /// SCRIPT-CONTROL.
    #[must_use]
    pub fn with_control(self, control: ScriptControl) -> RecordAdjustment {
        match control.body_mode {
            Some(BodyMode::Record) => RecordAdjustment::AddNewline,
            Some(BodyMode::Stream) => RecordAdjustment::Unchanged,
            None => self,
        }
    }

    /// Whether the server must send a newline after `record`.
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
    fn text_records_are_lines() {
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
    fn script_control_overrides_the_content_type() {
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
    fn bodies_with_a_length_or_a_coding_are_not_adjusted() {
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
