//! The body of a reply that the script has framed itself: `Transfer-Encoding: chunked` (RFC 9112 §7.1).
//!
//! The server frames bodies as the version of HTTP demands, so the script's own framing is removed here. A body that does not have it,
//! although the head says so, is the script's fault: its bytes are never passed on as they are.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderName;
use memchr::memchr;

use crate::head_fault::Excerpt;

/// Longest line with the size of a chunk, or of the trailer section, bytes. Extensions of chunks are ignored (§7.1.1).
const LINE_BYTES_MAX: usize = 4096;

/// Most lines in the trailer section; its fields are discarded (§7.1.2).
const TRAILER_LINES_MAX: usize = 100;

/// Hexadecimal digits of a chunk's size, leading zeros included: as many as 64 bits have.
const SIZE_DIGITS_MAX: usize = 16;

/// Removes the framing of one body.
#[derive(Debug, Default)]
pub struct ChunkDecoder {
    state: State,
    /// The current line, incomplete.
    line: Vec<u8>,
    /// A fault behind bytes that were still to be returned.
    fault: Option<ChunkFault>,
}

/// The element that comes next.
///
/// ```text
/// Size ──▶ Data ──▶ DataEnd ──▶ Size …    Size of 0 ──▶ Trailer ──▶ Complete
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    /// A line of the trailer section, or the empty line after it; so many lines have come.
    Trailer(usize),
    Complete,
}

/// Why a body is not chunked as its head says. Always the script's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkFault {
    /// A line is not the size of a chunk.
    BadSize(Excerpt),
    /// A chunk is longer than its size: other bytes follow than a line end.
    TooLong(Excerpt),
    /// A line of the trailer section is not a field.
    BadTrailer(Excerpt),
    /// A line is too long, or the trailer section has too many of them.
    LineTooLong,
    /// The body ended before its last chunk and the empty line after it.
    Unfinished,
    /// The body, or a part of it, is in the memory buffer.
    MemoryBuffer,
}

impl ChunkDecoder {
    /// Takes all bytes of `input`, up to the end of the body, and returns those of the body; none if there are only others. What is
    /// left in `input` is beyond the end of the body. A single chunk is not copied.
    ///
    /// # Errors
    /// The framing is wrong: the script's fault. Bytes before it are returned first.
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Bytes, ChunkFault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let Some(first) = self.next(input)? else {
            return Ok(Bytes::new());
        };
        if input.is_empty() {
            return Ok(first);
        }
        let mut body = BytesMut::with_capacity(first.len() + input.len());
        body.extend_from_slice(&first);
        loop {
            match self.next(input) {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) => return Ok(body.freeze()),
                Err(fault) => {
                    self.fault = Some(fault);
                    return Ok(body.freeze());
                }
            }
        }
    }

    /// Takes bytes from the start of `input` up to and including some of the body, which it returns. `None` once all are taken, or the body is complete.
    fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, ChunkFault> {
        while !input.is_empty() {
            match self.state {
                State::Complete => break,
                State::Data(bytes) => {
                    let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(input.len());
                    self.state = match bytes - length as u64 {
                        0 => State::DataEnd,
                        left => State::Data(left),
                    };
                    return Ok(Some(input.split_to(length)));
                }
                State::Size | State::DataEnd | State::Trailer(_) => {
                    let Some(line) = self.take_line(input)? else {
                        break;
                    };
                    self.state = self.after_line(line.strip_suffix(b"\r").unwrap_or(&line))?;
                }
            }
        }
        Ok(None)
    }

    /// Whether the last chunk and the trailer section have been read.
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete && self.fault.is_none()
    }

    /// The line at the start of `input`, without its LF; `None` if its end has not come yet.
    fn take_line(&mut self, input: &mut Bytes) -> Result<Option<Vec<u8>>, ChunkFault> {
        let end = memchr(b'\n', input);
        let length = end.unwrap_or(input.len());
        if self.line.len() + length > LINE_BYTES_MAX {
            return Err(ChunkFault::LineTooLong);
        }
        self.line.extend_from_slice(&input[..length]);
        input.advance(end.map_or(length, |end| end + 1));
        // A chunk that is too long is found by its first byte, not by a line end that may never come.
        if self.state == State::DataEnd && !matches!(*self.line, [] | [b'\r']) {
            return Err(ChunkFault::TooLong(Excerpt::of(&self.line)));
        }
        Ok(end.map(|_| std::mem::take(&mut self.line)))
    }

    fn after_line(&self, line: &[u8]) -> Result<State, ChunkFault> {
        match self.state {
            State::Size => Ok(
                match size_of(line).ok_or_else(|| ChunkFault::BadSize(Excerpt::of(line)))? {
                    0 => State::Trailer(0),
                    bytes => State::Data(bytes),
                },
            ),
            State::DataEnd => Ok(State::Size),
            State::Trailer(_) if line.is_empty() => Ok(State::Complete),
            State::Trailer(TRAILER_LINES_MAX..) => Err(ChunkFault::LineTooLong),
            State::Trailer(lines) => match memchr(b':', line).map(|colon| HeaderName::from_bytes(&line[..colon])) {
                Some(Ok(_)) => Ok(State::Trailer(lines + 1)),
                _ => Err(ChunkFault::BadTrailer(Excerpt::of(line))),
            },
            state @ (State::Data(_) | State::Complete) => Ok(state),
        }
    }
}

/// The size in `1f`, `1F ;name=value`.
fn size_of(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    if digits.is_empty() || digits.len() > SIZE_DIGITS_MAX || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reply has Transfer-Encoding: chunked, but ")?;
        match self {
            ChunkFault::BadSize(text) => write!(f, "{text} is not the size of a chunk")?,
            ChunkFault::TooLong(text) => write!(f, "a chunk is longer than its size: {text} follows instead of CR LF")?,
            ChunkFault::BadTrailer(text) => write!(f, "{text} after the last chunk is not a trailer field")?,
            ChunkFault::LineTooLong => f.write_str("its chunk sizes or trailer fields are too long")?,
            ChunkFault::Unfinished => f.write_str("its body ended before the last chunk (\"0\" and an empty line)")?,
            ChunkFault::MemoryBuffer => f.write_str("its body is in the memory buffer, which has no chunks")?,
        }
        f.write_str(": write the body in chunks (RFC 9112 §7.1), or leave the field out")
    }
}

impl std::error::Error for ChunkFault {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The decoded body, the bytes after its end, and whether it is complete.
    fn decode(chunks: &[&[u8]]) -> Result<(Vec<u8>, Vec<u8>, bool), ChunkFault> {
        let mut decoder = ChunkDecoder::default();
        let (mut body, mut rest) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let mut input = Bytes::copy_from_slice(chunk);
            body.extend_from_slice(&decoder.decode(&mut input)?);
            rest.extend_from_slice(&input);
        }
        // A fault may be behind the last bytes.
        decoder.decode(&mut Bytes::new())?;
        Ok((body, rest, decoder.is_complete()))
    }

    fn text(body: &str) -> Result<(String, String, bool), ChunkFault> {
        let (body, rest, is_complete) = decode(&[body.as_bytes()])?;
        Ok((
            String::from_utf8(body).unwrap(),
            String::from_utf8(rest).unwrap(),
            is_complete,
        ))
    }

    #[test]
    fn chunks_become_one_body() {
        for body in [
            "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            "5\nhello\n6\n world\n0\n\n",
            "0005 ; a=b\r\nhello\r\n00006\r\n world\r\n000\r\nX-A: 1\r\nX-B:\r\n\r\n",
        ] {
            assert_eq!(
                text(body).unwrap(),
                ("hello world".into(), String::new(), true),
                "{body}"
            );
        }
        assert_eq!(text("0\r\n\r\nmore").unwrap(), (String::new(), "more".into(), true));
        assert_eq!(text("5\r\nhel").unwrap(), ("hel".into(), String::new(), false));
        assert_eq!(text("1\r\na\r\n0\r\n").unwrap(), ("a".into(), String::new(), false));
    }

    #[test]
    fn bytes_without_chunks_are_a_fault() {
        let excerpt = |text: &str| Excerpt::of(text.as_bytes());
        for (body, expected) in [
            ("<html>\n", ChunkFault::BadSize(excerpt("<html>"))),
            ("\r\n", ChunkFault::BadSize(excerpt(""))),
            ("-1\r\n", ChunkFault::BadSize(excerpt("-1"))),
            ("0x1\r\n", ChunkFault::BadSize(excerpt("0x1"))),
            (
                "11111111111111111\r\n",
                ChunkFault::BadSize(excerpt("11111111111111111")),
            ),
            ("1\r\nab", ChunkFault::TooLong(excerpt("b"))),
            ("0\r\n<html>\r\n", ChunkFault::BadTrailer(excerpt("<html>"))),
        ] {
            assert_eq!(text(body).unwrap_err(), expected, "{body}");
        }
        assert_eq!(text(&"0".repeat(5000)).unwrap_err(), ChunkFault::LineTooLong);
        assert_eq!(
            text(&format!("0\n{}", "a: b\n".repeat(101))).unwrap_err(),
            ChunkFault::LineTooLong
        );
    }

    proptest! {
        #[test]
        fn the_places_where_reads_end_make_no_difference(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            noise in prop::collection::vec(any::<u8>(), 0..4),
            cuts in prop::collection::vec(0..300_usize, 0..8),
        ) {
            let mut body = Vec::new();
            for part in &parts {
                body.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                body.extend_from_slice(part);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(decode(&[&body]).unwrap(), (parts.concat(), Vec::new(), true));
            body.splice(0..0, noise);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
            // The excerpt in a fault shows what had come by then.
            prop_assert_eq!(decode(&chunks).ok(), decode(&[&body]).ok());
        }
    }
}
