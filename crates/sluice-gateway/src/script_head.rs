//! The incremental parser for the head of a script's reply: header fields up to an empty line (RFC 3875 §6.3).

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use memchr::{memchr, memchr_iter};

use crate::head_fault::{Excerpt, HeadFault};
use crate::record_lines::MissingNewlines;
use crate::reply::{self, Reply};

/// Limits on a reply's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes up to and including the empty line.
    pub bytes_max: usize,
    /// Most header fields.
    pub fields_max: usize,
}

/// The parser for the head of one reply; each reply needs a new one.
///
/// Lines end with LF or CRLF. Each is validated as soon as it is complete, so the first line of a script that writes no head is already an error.
#[derive(Debug, Default)]
pub struct HeadParser {
    limits: HeadLimits,
    /// The current line, incomplete.
    line: Vec<u8>,
    lines: usize,
    bytes: usize,
    /// From the status line, if the reply begins with one.
    status: Option<StatusCode>,
    /// The head is that of an interim response, which another one follows (RFC 9110 §15.2).
    is_interim: bool,
    had_interim: bool,
    fields: HeaderMap,
}

impl HeadParser {
    /// A parser for one reply.
    pub fn new(limits: HeadLimits) -> HeadParser {
        HeadParser { limits, ..HeadParser::default() }
    }

    /// Parses the next chunk of a stream; when the head is complete, returns the reply and the body bytes that follow it in the chunk.
    ///
    /// # Errors
    /// The head is invalid or too large: the script's fault.
    pub fn push(&mut self, mut chunk: Bytes) -> Result<Option<(Reply, Bytes)>, HeadFault> {
        // A copy, because the fields' values are parts of it: they would keep the memory of a large chunk until they are sent.
        let mut head = Bytes::new();
        while let Some(length) = memchr(b'\n', &chunk) {
            if length >= head.len() {
                head = Bytes::copy_from_slice(&chunk[..self.head_bytes(&chunk)]);
            }
            self.count(length + 1)?;
            let is_last = if self.line.is_empty() {
                self.take_line(&head, length)?
            } else {
                self.line.extend_from_slice(&head[..length]);
                self.take_held_line()?
            };
            head.advance(length + 1);
            chunk.advance(length + 1);
            if is_last {
                return Ok(Some((self.reply()?, chunk)));
            }
        }
        self.count(chunk.len())?;
        self.line.extend_from_slice(&chunk);
        Ok(None)
    }

    /// Parses the next record of a record mailbox: as [`HeadParser::push`], but the record is a line where `missing`, of
    /// [`RecordLines::next`](crate::RecordLines::next), says so. No newline is added to bytes of the body.
    ///
    /// # Errors
    /// As for [`HeadParser::push`].
    pub fn push_record(
        &mut self,
        record: Bytes,
        missing: MissingNewlines,
    ) -> Result<Option<(Reply, Bytes)>, HeadFault> {
        if missing.before && !self.line.is_empty() {
            self.take_held_line()?;
        }
        let complete = self.push(record)?;
        if complete.is_some() || !missing.after {
            return Ok(complete);
        }
        let is_last = self.take_held_line()?;
        is_last.then(|| Ok((self.reply()?, Bytes::new()))).transpose()
    }

    /// The error when the output ends before the head is complete.
    pub fn finish(self) -> HeadFault {
        if self.bytes == 0 {
            return HeadFault::Empty;
        }
        HeadFault::Incomplete(self.lines, Excerpt::of(&self.line))
    }

    /// How many bytes of a chunk may belong to the head: up to the empty line, or as many as the limit admits and one more.
    fn head_bytes(&self, chunk: &[u8]) -> usize {
        let admitted = self.limits.bytes_max.saturating_sub(self.bytes);
        let chunk = &chunk[..chunk.len().min(admitted.saturating_add(1))];
        memchr_iter(b'\n', chunk)
            .map(|newline| newline + 1)
            .find(|&next| matches!(chunk[next..], [b'\n', ..] | [b'\r', b'\n', ..]))
            .map_or(chunk.len(), |next| chunk.len().min(next + 2))
    }

    fn count(&mut self, bytes: usize) -> Result<(), HeadFault> {
        self.bytes += bytes;
        if self.bytes > self.limits.bytes_max {
            return Err(HeadFault::TooLarge(self.limits.bytes_max));
        }
        Ok(())
    }

    fn take_held_line(&mut self) -> Result<bool, HeadFault> {
        let line = Bytes::from(std::mem::take(&mut self.line));
        self.take_line(&line, line.len())
    }

    /// Parses one line, the first `length` bytes of `chunk`, without its LF; `true` if it is the empty line that ends the head.
    fn take_line(&mut self, chunk: &Bytes, length: usize) -> Result<bool, HeadFault> {
        let line = &chunk[..length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.lines += 1;
        match line {
            [b'H', b'T', b'T', b'P', b'/', rest @ ..] if self.lines == 1 => {
                self.is_interim = is_interim(rest);
                if !self.is_interim {
                    self.status = Some(status_of(rest).ok_or_else(|| reply::bad_status(line))?);
                }
                Ok(false)
            }
            _ if self.lines == 1 && self.had_interim => Err(HeadFault::NoFinalStatus(Excerpt::of(line))),
            [] if self.lines == 1 => Err(HeadFault::EmptyFirstLine),
            [] if self.is_interim => {
                self.begin_next_head();
                Ok(false)
            }
            [] => Ok(true),
            [b' ' | b'\t', ..] => Err(HeadFault::Folded(Excerpt::of(line))),
            _ => self.take_field(chunk, line).map(|()| false),
        }
    }

    /// Discards an interim response: the server sends its own. Its bytes count for the limit on the head.
    fn begin_next_head(&mut self) {
        self.lines = 0;
        self.fields.clear();
        self.is_interim = false;
        self.had_interim = true;
    }

    /// Parses a field, which lies in `chunk`: its value is a part of it, and not a copy.
    fn take_field(&mut self, chunk: &Bytes, line: &[u8]) -> Result<(), HeadFault> {
        let not_a_field = || HeadFault::NotAField(self.lines, Excerpt::of(line));
        let colon = memchr(b':', line).ok_or_else(not_a_field)?;
        let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| {
            if HeaderName::from_bytes(trim_blanks(&line[..colon])).is_ok() {
                HeadFault::BlankBeforeColon(Excerpt::of(line))
            } else {
                not_a_field()
            }
        })?;
        let value = chunk.slice_ref(trim_blanks(&line[colon + 1..]));
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| HeadFault::BadValue(Excerpt::of(line)))?;
        let too_many = HeadFault::TooManyFields(self.limits.fields_max);
        if self.fields.len() >= self.limits.fields_max {
            return Err(too_many);
        }
        // HeaderMap has a limit of its own (32768 fields); `append` would panic there.
        self.fields.try_append(name, value).map_err(|_| too_many)?;
        Ok(())
    }

    fn reply(&mut self) -> Result<Reply, HeadFault> {
        let fields = std::mem::take(&mut self.fields);
        match self.status {
            Some(status) => reply::non_parsed(status, fields),
            None => reply::parsed(fields),
        }
    }
}

/// Whether the rest of a status line after `HTTP/` is that of an interim response. 101 is final: the connection then has another protocol.
fn is_interim(version_and_status: &[u8]) -> bool {
    let status = status_text(version_and_status).and_then(|text| text.split(u8::is_ascii_whitespace).next());
    matches!(status, Some([b'1', b'0'..=b'9', b'0'..=b'9'])) && status != Some(b"101")
}

/// The status in the rest of a status line after `HTTP/`: `1.1 200 OK`.
fn status_of(version_and_status: &[u8]) -> Option<StatusCode> {
    reply::status_code(status_text(version_and_status)?)
}

/// The status and the reason phrase in the rest of a status line after `HTTP/`.
fn status_text(version_and_status: &[u8]) -> Option<&[u8]> {
    let blank = memchr(b' ', version_and_status)?;
    let version = &version_and_status[..blank];
    let is_version = version.first().is_some_and(u8::is_ascii_digit)
        && version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    is_version.then(|| trim_blanks(&version_and_status[blank..]))
}

fn trim_blanks(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let last = text.iter().rposition(|byte| !is_blank(byte));
    &text[start..last.map_or(start, |last| last + 1)]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record_lines::RecordLines;
    use crate::reply::ReplyHead;
    use proptest::prelude::*;

    const WIDE: HeadLimits = HeadLimits { bytes_max: 1 << 20, fields_max: 100 };

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 200, fields_max: 5 };

    fn push(text: &str) -> Result<Option<(Reply, Bytes)>, HeadFault> {
        HeadParser::new(LIMITS).push(Bytes::copy_from_slice(text.as_bytes()))
    }

    pub(crate) fn reply(text: &str) -> Reply {
        push(text).unwrap().expect("a complete head").0
    }

    pub(crate) fn document(text: &str) -> ReplyHead {
        match reply(text) {
            Reply::Document(head) => head,
            other => panic!("not a document: {other:?}"),
        }
    }

    pub(crate) fn fault(text: &str) -> HeadFault {
        push(text).expect_err("a fault")
    }

    #[test]
    fn lf_and_crlf_end_lines() {
        for text in [
            "Content-Type: text/plain\nX-A:1\n\nbody",
            "Content-Type: text/plain\r\nX-A:\t 1 \r\n\r\nbody",
        ] {
            let (reply, rest) = push(text).unwrap().unwrap();
            let Reply::Document(head) = reply else {
                panic!("{reply:?}")
            };
            assert_eq!(head.fields["content-type"], "text/plain");
            assert_eq!(head.fields["x-a"], "1");
            assert_eq!(rest, "body");
        }
    }

    #[test]
    fn a_reply_without_head_fails_at_its_first_line() {
        assert!(matches!(fault("<html>\n"), HeadFault::NotAField(1, _)));
        assert!(matches!(
            fault("Content-Type: a/b\nHello\n"),
            HeadFault::NotAField(2, _)
        ));
        assert!(matches!(fault("  Content-Type: a/b\n"), HeadFault::Folded(_)));
        assert_eq!(fault("\nContent-Type: a/b\n"), HeadFault::EmptyFirstLine);
    }

    #[test]
    fn an_invalid_line_has_a_specific_fault() {
        assert!(matches!(fault("Content-Type : a/b\n"), HeadFault::BlankBeforeColon(_)));
        assert!(matches!(fault("X: a\n b\n"), HeadFault::Folded(_)));
        assert!(matches!(fault("X: a\0b\n"), HeadFault::BadValue(_)));
        assert!(matches!(fault("X: a\rb\n"), HeadFault::BadValue(_)));
        assert!(matches!(
            fault("Traceback (most recent call last):\n"),
            HeadFault::NotAField(1, _)
        ));
        assert!(matches!(fault(": a\n"), HeadFault::NotAField(1, _)));
    }

    #[test]
    fn limits_apply_with_and_without_newlines() {
        let too_large = HeadFault::TooLarge(200);
        assert_eq!(fault(&"x".repeat(201)), too_large);
        assert_eq!(fault(&format!("X: {}\n\n", "x".repeat(196))), too_large);
        assert!(
            push(&format!("X: {}\n\n{}", "x".repeat(195), "b".repeat(1000)))
                .unwrap()
                .is_some()
        );
        assert_eq!(fault(&"X: 1\n".repeat(6)), HeadFault::TooManyFields(5));
    }

    #[test]
    fn a_reply_with_a_status_line_is_non_parsed() {
        let Reply::NonParsed(head) = reply("HTTP/1.1 404 Not Found\r\nX-A: 1\r\nConnection: close\r\n\r\n") else {
            panic!("parsed")
        };
        assert_eq!(head.status, StatusCode::NOT_FOUND);
        assert_eq!(head.fields.keys().collect::<Vec<_>>(), ["x-a"]);
        assert!(matches!(reply("HTTP/1.0 200\n\n"), Reply::NonParsed(_)));
        for bad in ["HTTP/1.1\n", "HTTP/ 200\n", "HTTP/1.1 2000\n", "HTTP/x 200\n"] {
            assert!(matches!(fault(bad), HeadFault::BadStatus(_)), "{bad}");
        }
    }

    #[test]
    fn a_field_does_not_keep_the_memory_of_the_body_behind_it() {
        let mut bytes = b"Content-Type: text/plain\r\nX: a\r\n\r\n".to_vec();
        bytes.resize(100_000, b'x');
        let chunk = Bytes::from(bytes);
        let (reply, body) = HeadParser::new(LIMITS).push(chunk.clone()).unwrap().unwrap();
        let Reply::Document(head) = reply else {
            panic!("no document");
        };
        drop(chunk);
        assert_eq!((head.fields.len(), body.len()), (2, 100_000 - 34));
        assert!(body.is_unique());
    }

    #[test]
    fn interim_responses_are_discarded() {
        let Reply::NonParsed(head) =
            reply("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103\nLink: </a>\n\nHTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n")
        else {
            panic!("parsed")
        };
        assert_eq!((head.status, head.fields.len()), (StatusCode::OK, 1));
        for text in ["HTTP/1.1 100 Continue\n\nX-A: 1\n", "HTTP/1.1 100 Continue\n\n\n"] {
            assert!(matches!(fault(text), HeadFault::NoFinalStatus(_)), "{text}");
        }
        assert_eq!(fault(&"HTTP/1.1 100 Continue\n\n".repeat(10)), HeadFault::TooLarge(200));
        assert!(matches!(fault("HTTP/1.1 1000\n"), HeadFault::BadStatus(_)));
    }

    #[test]
    fn a_non_parsed_reply_may_frame_its_body() {
        let Reply::NonParsed(head) = reply("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n") else {
            panic!("parsed")
        };
        assert!(head.is_chunked && head.fields.is_empty());
    }

    /// Pushes records until the head is complete; the reply, and the bytes after its head.
    fn push_records(records: &[&str]) -> (ReplyHead, Bytes) {
        let (mut parser, mut lines) = (HeadParser::new(WIDE), RecordLines::default());
        for record in records {
            let missing = lines.next(record.as_bytes());
            let record = Bytes::copy_from_slice(record.as_bytes());
            match parser.push_record(record, missing).unwrap() {
                Some((Reply::Document(head), rest)) => return (head, rest),
                Some((other, _)) => panic!("{other:?}"),
                None => {}
            }
        }
        panic!("no complete head");
    }

    #[test]
    fn records_are_lines_with_or_without_newline() {
        let (head, rest) = push_records(&["Status: 404", "X-A: 1\n", "X-B: 2\nX-C: 3", "\r\nbody"]);
        assert_eq!((head.status, head.fields.len()), (StatusCode::NOT_FOUND, 3));
        assert_eq!(rest, "body");
    }

    #[test]
    fn a_record_may_hold_the_whole_head() {
        let (_, rest) = push_records(&["Content-Type: text/plain\n\nbody without newline"]);
        assert_eq!(rest, "body without newline");
    }

    #[test]
    fn an_empty_record_ends_the_head() {
        let (head, rest) = push_records(&["Status: 404", "X-A: 1", "", "body"]);
        assert_eq!((head.status, head.fields.len()), (StatusCode::NOT_FOUND, 1));
        assert_eq!(rest, "");
    }

    #[test]
    fn a_field_that_a_full_buffer_splits_is_one_field() {
        let value = "x".repeat(5000);
        let whole = format!("X-A: 1\nX-B: {value}\n\nbody");
        let (head, rest) = push_records(&[&whole[..4096], &whole[4096..]]);
        assert_eq!((head.fields["x-b"].len(), rest.as_ref()), (5000, &b"body"[..]));
        // Of a program that writes a long line and its newline one after the other.
        let (head, _) = push_records(&[&format!("X-B: {value}"), "\nX-A: 1\n\n"]);
        assert_eq!((head.fields["x-b"].len(), head.fields.len()), (5000, 2));
    }

    #[test]
    fn output_that_ends_inside_the_head_is_a_fault() {
        assert_eq!(HeadParser::new(LIMITS).finish(), HeadFault::Empty);
        let mut parser = HeadParser::new(LIMITS);
        assert!(
            parser
                .push(Bytes::from("Content-Type: text/plain\nX-"))
                .unwrap()
                .is_none()
        );
        assert_eq!(parser.finish(), HeadFault::Incomplete(1, Excerpt::of(b"X-")));
    }

    /// The reply with the bytes after it, or the fault, as text.
    fn outcome(chunks: &[&[u8]]) -> String {
        let mut parser = HeadParser::new(LIMITS);
        for (index, chunk) in chunks.iter().enumerate() {
            match parser.push(Bytes::copy_from_slice(chunk)) {
                Ok(None) => {}
                Ok(Some((reply, rest))) => {
                    return format!("{reply:?} {:?}", [&rest[..], &chunks[index + 1..].concat()].concat());
                }
                Err(fault) => return format!("{fault:?}"),
            }
        }
        format!("{:?}", parser.finish())
    }

    fn heads() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            6 => "(Status|Content-Type|Location|X-A|Content-Length): ?[ -~]{0,12}".prop_map(String::into_bytes),
            1 => "HTTP/1.1 [1-5]0[0-4] OK".prop_map(String::into_bytes),
            1 => Just(Vec::new()),
            1 => prop::collection::vec(any::<u8>(), 0..20),
        ];
        let end = prop_oneof![3 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..])];
        prop::collection::vec((line, end), 0..12)
            .prop_map(|lines| lines.iter().flat_map(|(line, end)| [&line[..], end].concat()).collect())
    }

    proptest! {
        #[test]
        fn chunk_boundaries_make_no_difference(head in heads(), cuts in prop::collection::vec(0..250_usize, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(head.len())).collect();
            cuts.extend([0, head.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &head[pair[0]..pair[1]]).collect();
            prop_assert_eq!(outcome(&chunks), outcome(&[&head]));
        }
    }
}
