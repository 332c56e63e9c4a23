//! HTTP/1.2 to HTTP/1.9, which are answered as HTTP/1.1, the highest minor version that this server knows (RFC 9110 §2.5).
//!
//! hyper's parser knows 1.0 and 1.1 alone. So the minor version in a request line is changed to 1 on its way to the parser. Another
//! major version ends the connection with 505. Not here: everything else that can be wrong with a request line (hyper).
//!
//! Only hyper knows where a request ends, so a request line that it has read together with the request before is not read here: its
//! HTTP/1.2 gets 400. If it has read a part of such a line, or of a head, then the rest comes here as if it began a head. Therefore
//! nothing is changed that does not look like a request line from its first byte.

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

impl MinorVersion {
    /// Notes that the next byte begins a head.
    pub(crate) fn begin(&mut self) {
        self.part = Part::Before;
    }

    /// Whether a request was refused because of its major version.
    pub(crate) fn is_other_major(&self) -> bool {
        self.is_other_major
    }

    /// Reads bytes on their way, and changes the minor version if it is among them.
    ///
    /// # Errors
    /// The client's: the major version is not 1 (505).
    pub(crate) fn adjust(&mut self, bytes: &mut [u8]) -> io::Result<()> {
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
        version.begin();
        let mut bytes = text.as_bytes().to_vec();
        let is_accepted = bytes.chunks_mut(step).all(|chunk| version.adjust(chunk).is_ok());
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

    #[test]
    fn bytes_after_the_head_are_not_looked_at() {
        let mut version = MinorVersion::default();
        let mut body = *b"GET / HTTP/1.2\r\n\r\n";
        version.adjust(&mut body).unwrap();
        assert_eq!(&body, b"GET / HTTP/1.2\r\n\r\n");
    }
}
