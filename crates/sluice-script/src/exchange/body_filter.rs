//! The bytes of a reply's body that are sent: records with their newlines, and no more than the Content-Length.
//!
//! | output of the script | sent |
//! |---|---|
//! | records of text, on a record mailbox | the records as lines (`RecordLines` of sluice-gateway) |
//! | the body of a reply with a status line of its own (NPH) | the same bytes |
//! | bytes in the memory buffer or an output region | the same bytes, whichever the mailbox |
//! | bytes beyond the announced Content-Length | nothing; they are counted for the log |
//! | anything else | the same bytes |

use bytes::Bytes;
use sluice_gateway::{MissingNewlines, RecordAdjustment, RecordLines, Reply, ReplyHead, ScriptControl};
use sluice_settings::Mailbox;

pub(crate) struct BodyFilter {
    /// `None` for a stream, which has no records.
    lines: Option<RecordLines>,
    /// The head came with the start of the body, around which these newlines are missing.
    first: Option<MissingNewlines>,
    adjustment: RecordAdjustment,
    /// Bytes of the Content-Length that the script has not written yet. `None` if it announced no length.
    pub missing_bytes: Option<u64>,
    /// Bytes beyond the Content-Length, which were not sent.
    pub surplus_bytes: u64,
}

impl BodyFilter {
    /// Passes everything until `begin`.
    pub(crate) fn new(mailbox: Mailbox) -> BodyFilter {
        BodyFilter {
            lines: (mailbox == Mailbox::Record).then(RecordLines::default),
            first: None,
            adjustment: RecordAdjustment::Unchanged,
            missing_bytes: None,
            surplus_bytes: 0,
        }
    }

    /// The newlines that are missing around the next record of the head. `None` for a stream.
    pub(crate) fn next_of_head(&mut self, record: &[u8]) -> Option<MissingNewlines> {
        self.lines.as_mut().map(|lines| lines.next(record))
    }

    /// The head ends within a record, around which these newlines are missing.
    pub(crate) fn end_head(&mut self, reply: &Reply, missing: Option<MissingNewlines>) {
        self.first = missing.map(|missing| MissingNewlines { before: false, ..missing });
        if matches!(reply, Reply::NonParsed(_)) {
            self.lines = None;
        }
    }

    /// The body follows `head`, which says how it is filtered.
    pub(crate) fn begin(&mut self, head: &ReplyHead) {
        self.missing_bytes = head.content_length;
        if head.is_chunked {
            // The script counts every byte.
            self.lines = None;
        }
        self.adjustment = RecordAdjustment::for_head(head);
    }

    /// The bytes to send of `chunk`, from the mailbox, adjusted as `control` (SCRIPT-CONTROL) says. `None` if there are none.
    pub(crate) fn apply(&mut self, mut chunk: Bytes, control: &ScriptControl) -> Option<Bytes> {
        if let Some(lines) = &mut self.lines {
            let missing = self.first.take().unwrap_or_else(|| lines.next(&chunk));
            chunk = self.adjustment.with_control(control).apply(chunk, missing);
        }
        self.limit(chunk)
    }

    /// The bytes to send after the last chunk of the body.
    pub(crate) fn end(&mut self, control: &ScriptControl) -> Option<Bytes> {
        let adjustment = self.adjustment.with_control(control);
        let newline = adjustment.end(self.lines.as_mut()?)?;
        self.limit(newline)
    }

    /// The bytes to send of `chunk`, from the memory buffer; `None` if there are none. Their values are not read: the script can still change them.
    pub(crate) fn limit(&mut self, mut chunk: Bytes) -> Option<Bytes> {
        if let Some(missing) = &mut self.missing_bytes {
            let kept = usize::try_from(*missing).unwrap_or(usize::MAX).min(chunk.len());
            self.surplus_bytes += (chunk.len() - kept) as u64;
            chunk.truncate(kept);
            *missing -= kept as u64;
        }
        (!chunk.is_empty()).then_some(chunk)
    }

    /// Whether the script has written all bytes of the Content-Length that it announced.
    pub(crate) fn is_satisfied(&self) -> bool {
        self.missing_bytes == Some(0)
    }
}
#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode, header};

    use super::*;

    fn filter(mailbox: Mailbox, content_length: Option<u64>) -> BodyFilter {
        let mut filter = BodyFilter::new(mailbox);
        filter.begin(&ReplyHead {
            status: StatusCode::OK,
            fields: HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))]),
            content_length,
            is_chunked: false,
            control: ScriptControl::default(),
            names_file: false,
        });
        filter
    }

    fn apply(filter: &mut BodyFilter, bytes: &'static str) -> Option<Bytes> {
        filter.apply(Bytes::from_static(bytes.as_bytes()), &ScriptControl::default())
    }

    #[test]
    fn only_records_of_text_get_the_newline_that_they_lack() {
        let mut records = filter(Mailbox::Record, None);
        assert_eq!(apply(&mut records, "a").unwrap(), "a\n");
        assert_eq!(apply(&mut records, "b\n").unwrap(), "b\n");
        assert_eq!(apply(&mut records, "").unwrap(), "\n");
        assert_eq!(apply(&mut filter(Mailbox::Stream, None), "a").unwrap(), "a");
    }

    #[test]
    fn bytes_of_the_memory_buffer_are_no_records() {
        let bytes = Bytes::from_static(b"a");
        assert_eq!(filter(Mailbox::Record, None).limit(bytes).unwrap(), "a");
    }

    #[test]
    fn bytes_beyond_the_announced_length_are_counted_and_not_sent() {
        let mut counted = filter(Mailbox::Stream, Some(3));
        assert_eq!(apply(&mut counted, "ab").unwrap(), "ab");
        assert_eq!(counted.missing_bytes, Some(1));
        assert_eq!(apply(&mut counted, "cde").unwrap(), "c");
        assert_eq!(apply(&mut counted, "f"), None);
        assert!(counted.is_satisfied());
        assert_eq!(counted.surplus_bytes, 3);
    }
}
