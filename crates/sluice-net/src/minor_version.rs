//! HTTP/1.2 to HTTP/1.9, which are answered as HTTP/1.1, the highest minor version that this server knows (RFC 9110 §2.5).
//!
//! hyper's parser knows 1.0 and 1.1 alone. So the minor version in a request line is changed to 1 on its way to the parser. Another
//! major version ends the connection with 505. Not here: everything else that can be wrong with a request line (hyper).
//!
//! Only hyper knows where a request ends, and it may have read a part of the next one. So bytes are only changed if they certainly
//! begin a head: if hyper is new, or if it has read everything up to an empty line, and waits for a head. If it had anything but
//! empty lines, that would be a whole head, and it would not wait. HTTP/1.2 gets 400 elsewhere: after a body, or in the same
//! segment as the request before.

use std::io;

use memchr::memchr;

/// The end of almost every request line.
const USUAL_END: &[u8] = b" HTTP/1.1\r";

/// The text before the digit of the minor version.
const BEFORE_MINOR: &[u8] = b"HTTP/1.";

/// Where in [`BEFORE_MINOR`] the major version is.
const MAJOR: usize = 5;

/// Reads request lines on their way to the parser, up to their version.
#[derive(Default)]
pub(crate) struct MinorVersion {
    part: Part,
    /// A line had another major version than 1.
    is_other_major: bool,
    /// No body can follow the last head that the parser has read. False in HTTP/2.
    is_without_body: bool,
    /// The last bytes read end a line, and an empty line after it.
    is_after_empty_line: bool,
}

/// The part of a request line to which the next byte belongs.
#[derive(Clone, Copy, Default)]
enum Part {
    /// Before it: empty lines are allowed there (RFC 9112 §2.2).
    Before,
    Method,
    /// The first byte of the target.
    TargetBegin,
    Target,
    /// The version, of which so many bytes have been read.
    Version(usize),
    /// The version is known, or the line is not valid.
    #[default]
    Done,
}

/// Whether a body can follow a head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowingBody {
    No,
    Possible,
}

/// What the parser does while bytes are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parser {
    /// It waits for a head, or for a body if the last request has one.
    Waits,
    /// An exchange is under way.
    IsBusy,
}

impl MinorVersion {
    /// Notes that the parser has no bytes, and that the next one begins a head.
    pub(crate) fn begin_parser(&mut self) {
        self.part = Part::Before;
        self.is_without_body = true;
        self.is_after_empty_line = false;
    }

    /// Notes that the parser has read a head, and whether a body can follow it.
    pub(crate) fn end_head(&mut self, body: FollowingBody) {
        self.is_without_body = body == FollowingBody::No;
    }

    /// Whether the next byte certainly begins a head or an empty line before it. Of HTTP/1 only.
    pub(crate) fn is_before_head(&self, parser: Parser) -> bool {
        let is_after_head = self.is_after_empty_line && self.is_without_body && parser == Parser::Waits;
        is_after_head || matches!(self.part, Part::Before)
    }

    /// Whether a request was refused because of its major version.
    pub(crate) fn is_other_major(&self) -> bool {
        self.is_other_major
    }

    /// Reads bytes on their way, and changes the minor version if it is among them. While an exchange is under way the parser
    /// may have more than it has parsed.
    ///
    /// # Errors
    /// The client's: the major version is not 1 (505).
    pub(crate) fn adjust(&mut self, bytes: &mut [u8], parser: Parser) -> io::Result<()> {
        if self.is_before_head(parser) {
            self.part = Part::Before;
        }
        self.is_after_empty_line = bytes.ends_with(b"\r\n\r\n");
        match self.part {
            Part::Done => return Ok(()),
            Part::Before
                if memchr(b'\n', bytes)
                    .is_some_and(|end| end > USUAL_END.len() && bytes[..end].ends_with(USUAL_END)) =>
            {
                self.part = Part::Done;
                return Ok(());
            }
            _ => {}
        }
        for byte in bytes {
            self.part = match (self.part, *byte) {
                (Part::Done, _) => break,
                (Part::Before, b'\r' | b'\n') => Part::Before,
                (Part::Before | Part::Method, b'A'..=b'Z' | b'-') => Part::Method,
                (Part::Method, b' ') => Part::TargetBegin,
                (Part::TargetBegin, b'/' | b'*' | b'h' | b'H') => Part::Target,
                (_, b'\n') | (Part::Before | Part::Method | Part::TargetBegin, _) => Part::Done,
                (Part::Target, b' ') => Part::Version(0),
                (Part::Version(read), digit) if read == BEFORE_MINOR.len() => {
                    if matches!(digit, b'2'..=b'9') {
                        *byte = b'1';
                    }
                    Part::Done
                }
                (Part::Version(read), found) if BEFORE_MINOR.get(read) == Some(&found) => Part::Version(read + 1),
                (Part::Version(MAJOR), b'2'..=b'9') => {
                    self.is_other_major = true;
                    return Err(io::ErrorKind::Unsupported.into());
                }
                (Part::Version(_), _) => Part::Done,
                (part, _) => part,
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes after `adjust`, which gets so many of them at a time.
    fn adjusted(text: &str, step: usize) -> Option<String> {
        let mut version = MinorVersion::default();
        version.begin_parser();
        let mut bytes = text.as_bytes().to_vec();
        let is_accepted = bytes
            .chunks_mut(step)
            .all(|chunk| version.adjust(chunk, Parser::Waits).is_ok());
        is_accepted.then(|| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_later_minor_version_becomes_1_and_nothing_else_changes() {
        for (text, expected) in [
            ("GET / HTTP/1.1\r\nA: HTTP/1.2\r\n\r\n", None),
            ("GET / HTTP/1.0\r\n\r\n", None),
            (
                "GET / HTTP/1.2\r\nA: HTTP/1.2\r\n\r\n HTTP/1.3\r\n",
                Some("GET / HTTP/1.1\r\nA: HTTP/1.2\r\n\r\n HTTP/1.3\r\n"),
            ),
            ("\r\n\r\nGET /x HTTP/1.9\n\n", Some("\r\n\r\nGET /x HTTP/1.1\n\n")),
            ("GET /HTTP/1.2 HTTP/1.0\r\n\r\n", None),
            ("GET / HTTP/1.10\r\n\r\n", None),
            ("GET / http/1.2\r\n\r\n", None),
            ("GET /\r\nX: HTTP/1.2\r\n\r\n", None),
            ("GET  HTTP/1.2 x\r\n\r\n", None),
            ("Agent: /x HTTP/1.2\r\n\r\n", None),
            ("GET x HTTP/2.0\r\n\r\n", None),
        ] {
            for step in [1, 2, 7, 1000] {
                assert_eq!(
                    adjusted(text, step).as_deref(),
                    Some(expected.unwrap_or(text)),
                    "{text:?}"
                );
            }
        }
        for version in ["2.0", "3.0", "9.9"] {
            assert_eq!(adjusted(&format!("GET / HTTP/{version}\r\n\r\n"), 5), None, "{version}");
        }
    }

    /// What becomes of HTTP/1.2 after these bytes and this head.
    fn after(first: &str, body: FollowingBody, parser: Parser) -> String {
        let mut version = MinorVersion::default();
        version.begin_parser();
        version
            .adjust(&mut first.to_owned().into_bytes(), Parser::Waits)
            .unwrap();
        version.end_head(body);
        let mut next = *b"GET / HTTP/1.2\r\n\r\n";
        version.adjust(&mut next, parser).unwrap();
        String::from_utf8_lossy(&next[..14]).into_owned()
    }

    #[test]
    fn only_a_request_line_after_the_end_of_a_head_is_changed() {
        let whole = "GET / HTTP/1.1\r\n\r\n";
        assert_eq!(after(whole, FollowingBody::No, Parser::Waits), "GET / HTTP/1.1");
        let unchanged = "GET / HTTP/1.2";
        assert_eq!(after(whole, FollowingBody::No, Parser::IsBusy), unchanged);
        assert_eq!(after(whole, FollowingBody::Possible, Parser::Waits), unchanged);
        for part in ["POST", "POST / HTTP/1.1\r\nA: ", "POST / HTTP/1.1\r\nA: b\r\n"] {
            let first = format!("{whole}{part}");
            assert_eq!(after(&first, FollowingBody::No, Parser::Waits), unchanged, "{part:?}");
        }
    }

    #[test]
    fn nothing_is_changed_in_http2() {
        let mut version = MinorVersion::default();
        let mut bytes = *b"GET / HTTP/1.2\r\n\r\n";
        for _ in 0..2 {
            version.adjust(&mut bytes, Parser::Waits).unwrap();
            assert_eq!(&bytes, b"GET / HTTP/1.2\r\n\r\n");
        }
    }
}
