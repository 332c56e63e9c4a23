//! The secrets in the bytes that an HTTP/1 connection carries, in one direction.
//!
//! Two masks see all bytes, because what they know needs no framing: fields, and pairs as in queries. A third, for bodies of JSON and of parts, needs to
//! know where a body begins and ends (RFC 9112 §6). It may be wrong about that, after HEAD, for example; then it masks nothing or too much, and the
//! others still mask what they know.

use crate::mask::body::BodyMask;
use crate::mask::fields::FieldMask;
use crate::mask::masks::{Masks, extend, mask_as_in};
use crate::mask::pairs::PairMask;

/// Bytes of a line of a head that are compared.
const LINE_BYTES_MAX: usize = 512;

/// Masks the values of secrets in the bytes that an HTTP/1 connection carries, in one direction. Each masked byte becomes `*`, so that lengths stay true.
#[derive(Clone, Debug)]
pub struct HeadMask {
    fields: FieldMask,
    pairs: PairMask,
    bodies: Bodies,
}

impl HeadMask {
    /// A mask at the begin of a message.
    #[must_use]
    pub fn of(masks: &Masks) -> HeadMask {
        HeadMask {
            fields: FieldMask::new(masks),
            pairs: PairMask::new(masks),
            bodies: Bodies::new(masks),
        }
    }

    /// A mask somewhere within a message: everything up to the next line is masked.
    #[must_use]
    pub fn within_of(masks: &Masks) -> HeadMask {
        HeadMask {
            fields: FieldMask::within(masks),
            ..HeadMask::of(masks)
        }
    }

    /// Masks the next bytes.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        // Each must see the bytes as they are, not as another mask has left them.
        let (mut in_pairs, mut in_bodies) = (bytes.to_vec(), bytes.to_vec());
        self.pairs.apply(&mut in_pairs);
        self.bodies.apply(&mut in_bodies);
        self.fields.apply(bytes);
        mask_as_in(bytes, &in_pairs);
        mask_as_in(bytes, &in_bodies);
    }
}

/// A mask at the begin of a message, of what is usually secret.
impl Default for HeadMask {
    fn default() -> HeadMask {
        HeadMask::of(&Masks::default())
    }
}

/// The masks of the bodies of one message after the other.
#[derive(Clone, Debug)]
struct Bodies {
    masks: Masks,
    at: At,
    line: Vec<u8>,
    head: Head,
    mask: BodyMask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Head,
    /// In a body, or in a chunk if it is of one, with so many bytes to come.
    Body(u64),
    Chunk(u64),
    /// At the line with the size of a chunk, or the empty one behind its bytes.
    ChunkSize,
    /// A body that ends with the connection.
    ToTheEnd,
}

/// The properties of the body by the head of the current message.
#[derive(Clone, Debug, Default)]
struct Head {
    is_response: bool,
    content_type: Option<String>,
    is_compressed: bool,
    is_chunked: bool,
    length: Option<u64>,
}

impl Bodies {
    fn new(masks: &Masks) -> Bodies {
        Bodies {
            masks: masks.clone(),
            at: At::Head,
            line: Vec::new(),
            head: Head::default(),
            mask: masks.body(Some("application/octet-stream"), false),
        }
    }

    fn apply(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = match self.at {
                At::Head | At::ChunkSize => memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1),
                At::Body(left) | At::Chunk(left) => {
                    usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()))
                }
                At::ToTheEnd => rest.len(),
            };
            let (chunk, after) = rest.split_at_mut(length);
            rest = after;
            self.at = match self.at {
                At::Head | At::ChunkSize => self.add_to_line(chunk),
                At::Body(left) => {
                    self.mask.apply(chunk);
                    match left - chunk.len() as u64 {
                        0 => At::Head,
                        left => At::Body(left),
                    }
                }
                At::Chunk(left) => {
                    self.mask.apply(chunk);
                    match left - chunk.len() as u64 {
                        0 => At::ChunkSize,
                        left => At::Chunk(left),
                    }
                }
                At::ToTheEnd => {
                    self.mask.apply(chunk);
                    At::ToTheEnd
                }
            };
        }
    }

    fn add_to_line(&mut self, chunk: &[u8]) -> At {
        extend(&mut self.line, chunk, LINE_BYTES_MAX);
        if chunk.last() != Some(&b'\n') {
            return self.at;
        }
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        match self.at {
            At::ChunkSize => self.after_size(line.trim()),
            _ => self.after_line(line.trim_end_matches(['\r', '\n'])),
        }
    }

    fn after_size(&mut self, line: &str) -> At {
        let digits = line.split(';').next().unwrap_or_default().trim();
        match u64::from_str_radix(digits, 16) {
            _ if line.is_empty() => At::ChunkSize,
            // Its trailers are read as the head of the next message.
            Ok(0) | Err(_) => At::Head,
            Ok(size) => At::Chunk(size),
        }
    }

    fn after_line(&mut self, line: &str) -> At {
        if line.is_empty() {
            return self.begin_body();
        }
        if let Some(status) = line.strip_prefix("HTTP/1.") {
            // Other responses have no body (RFC 9112 §6.3).
            let has_body = |status: &str| !status.starts_with('1') && status != "204" && status != "304";
            self.head = Head {
                is_response: status.split(' ').nth(1).is_some_and(has_body),
                ..Head::default()
            };
        }
        let Some((name, value)) = line.split_once(':') else {
            return At::Head;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-type" => self.head.content_type = Some(value.to_owned()),
            "content-encoding" => self.head.is_compressed = !value.eq_ignore_ascii_case("identity"),
            "transfer-encoding" => self.head.is_chunked = value.to_ascii_lowercase().contains("chunked"),
            "content-length" => self.head.length = value.parse().ok(),
            _ => {}
        }
        At::Head
    }

    fn begin_body(&mut self) -> At {
        let head = std::mem::take(&mut self.head);
        self.mask = self.masks.body(head.content_type.as_deref(), head.is_compressed);
        match head.length {
            _ if head.is_chunked => At::ChunkSize,
            Some(0) => At::Head,
            Some(length) => At::Body(length),
            None if head.is_response => At::ToTheEnd,
            None => At::Head,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "GET / HTTP/1.1\r\nHost: a\r\nAUTHORIZATION: Basic c2VjcmV0\r\nCookie: a=b;\r\n c=d\r\nX: y\r\n\r\n";
    const MASKED: &str =
        "GET / HTTP/1.1\r\nHost: a\r\nAUTHORIZATION:***************\r\nCookie:*****\r\n****\r\nX: y\r\n\r\n";

    #[test]
    fn values_are_masked_wherever_the_chunks_end() {
        for size in 1..HEAD.len() {
            let mut bytes = HEAD.as_bytes().to_vec();
            let mut mask = HeadMask::default();
            bytes.chunks_mut(size).for_each(|chunk| mask.apply(chunk));
            assert_eq!(String::from_utf8(bytes).unwrap(), MASKED, "chunks of {size}");
        }
    }

    #[test]
    fn queries_and_bodies_are_masked_too_wherever_the_chunks_end() {
        let json = r#"{"a":1,"password":"s3cret"}"#;
        let part = "--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\ns3cret\r\n--b--\r\n";
        let messages = [
            "GET /?a=b&password=s3cret&c HTTP/1.1\r\nReferer: /?token=s3cret\r\n\r\n".to_owned(),
            format!(
                "POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
                json.len()
            ),
            format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-type: multipart/form-data; boundary=b\r\n\r\n10\r\n{}\r\n{:x};x=y\r\n{}\r\n0\r\n\r\n",
                &part[..16],
                part.len() - 16,
                &part[16..],
            ),
            "POST / HTTP/1.1\r\nContent-Length: 21\r\n\r\na=b&password=s3cret\r\n".to_owned(),
            "GET /plain HTTP/1.1\r\nHost: shown\r\n\r\n".to_owned(),
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{json}{json}"),
        ];
        let whole = messages.concat();
        for size in 1..whole.len() {
            let mut bytes = whole.as_bytes().to_vec();
            let mut mask = HeadMask::default();
            bytes.chunks_mut(size).for_each(|chunk| mask.apply(chunk));
            let shown = String::from_utf8(bytes).unwrap();
            assert!(!shown.contains("s3c"), "chunks of {size}: {shown}");
            assert!(
                shown.contains("/?a=b&password=******&c HTTP/1.1"),
                "chunks of {size}: {shown}"
            );
            assert!(
                shown.contains(r#"{"a":1,"password":"******"}"#),
                "chunks of {size}: {shown}"
            );
            assert!(
                shown.contains("GET /plain HTTP/1.1\r\nHost: shown\r\n"),
                "chunks of {size}: {shown}"
            );
        }
    }

    #[test]
    fn what_is_skipped_at_once_is_masked_as_byte_by_byte() {
        const WORDS: [&str; 16] = [
            "token", "=", ":", "&", "\n", "\r\n", "\"", "'", "<", ">", " ", "s3c;ret", "name", "value", "\u{e9}",
            "Cookie",
        ];
        let mut random = 1_u32;
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            WORDS[(random >> 28) as usize]
        };
        for kind in ["text/html", "application/x-www-form-urlencoded"] {
            for _ in 0..500 {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\na=");
                let text = head + &(0..40).map(|_| next()).collect::<String>();
                let masked = |size: usize| {
                    let mut bytes = text.as_bytes().to_vec();
                    let mut mask = HeadMask::default();
                    bytes.chunks_mut(size).for_each(|chunk| mask.apply(chunk));
                    String::from_utf8_lossy(&bytes).into_owned()
                };
                assert_eq!(masked(text.len()), masked(1), "{text}");
            }
        }
    }

    #[test]
    fn within_a_message_the_rest_of_the_line_is_masked() {
        let mut bytes = *b"c2VjcmV0\r\nX: y\r\n";
        HeadMask::within_of(&Masks::default()).apply(&mut bytes);
        assert_eq!(&bytes, b"********\r\nX: y\r\n");
    }
}
