//! Several parts of a file as one body: multipart/byteranges (RFC 9110 §14.6, RFC 2046 §5.1).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderValue;
use sluice_membuf::SealedMemfd;

use crate::body::{ResponseBody, Source};
use crate::fault::{Fault, ServerFault};
use crate::ranges::content_range;

/// The boundary of a multipart body: 128 random bits, so that no file contains it, not even one that is made to.
pub struct Boundary(String);

impl Boundary {
    /// A boundary from the system's random source. An error is the server's fault.
    pub fn draw() -> Result<Boundary, Fault> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(ServerFault::NoRandomBytes)?;
        Ok(Boundary::from_random(bytes))
    }

    fn from_random(bytes: [u8; 16]) -> Boundary {
        Boundary(format!("{:032x}", u128::from_ne_bytes(bytes)))
    }

    /// The value of Content-Type of a body with this boundary.
    pub fn content_type(&self) -> HeaderValue {
        HeaderValue::try_from(format!("multipart/byteranges; boundary={}", self.0))
            .unwrap_or_else(|_| HeaderValue::from_static("multipart/byteranges"))
    }
}

/// A multipart body: the bodies of the parts, and the boundaries and heads around them, in order.
pub struct Multipart {
    bodies: VecDeque<ResponseBody>,
}

impl Multipart {
    /// The body of these parts of a file; `length` is the length of the whole file in bytes.
    pub fn new<'a>(
        boundary: &Boundary,
        content_type: &HeaderValue,
        length: u64,
        parts: impl IntoIterator<Item = (&'a Range<u64>, ResponseBody)>,
    ) -> Multipart {
        let mut bodies = VecDeque::new();
        let mut before = "";
        for (range, body) in parts {
            let mut head = format!("{before}--{}\r\nContent-Type: ", boundary.0).into_bytes();
            head.extend_from_slice(content_type.as_bytes());
            head.extend_from_slice(b"\r\nContent-Range: ");
            head.extend_from_slice(content_range(range, length).as_bytes());
            head.extend_from_slice(b"\r\n\r\n");
            bodies.push_back(ResponseBody::Whole(Bytes::from(head).into()));
            bodies.push_back(body);
            before = "\r\n";
        }
        let end = format!("{before}--{}--\r\n", boundary.0);
        bodies.push_back(ResponseBody::Whole(Bytes::from(end).into()));
        Multipart { bodies }
    }
}

impl Source for Multipart {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        while let Some(body) = self.bodies.front_mut() {
            if let Some(chunk) = ready!(body.poll_chunk(context)) {
                return Poll::Ready(Some(chunk));
            }
            self.bodies.pop_front();
        }
        Poll::Ready(None)
    }

    fn limit_chunks(&mut self, bytes_max: usize) {
        if let Some(body) = self.bodies.front_mut() {
            body.limit_chunks(bytes_max);
        }
    }

    fn prefer_small_chunks(&mut self) {
        self.bodies.iter_mut().for_each(ResponseBody::prefer_small_chunks);
    }

    fn length(&self) -> Option<u64> {
        self.bodies.iter().map(ResponseBody::length).sum()
    }

    fn sealed(&self) -> Option<Arc<SealedMemfd>> {
        self.bodies.iter().find_map(ResponseBody::sealed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn read(mut body: Multipart) -> String {
        let mut text = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(chunk)) = body.poll_chunk(&mut context) {
            let left = body.length();
            let chunk = chunk.unwrap();
            assert!(!chunk.is_empty(), "{left:?} left");
            text.extend_from_slice(&chunk);
        }
        assert_eq!(body.length(), Some(0));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_part_has_a_boundary_and_a_head() {
        let boundary = Boundary::from_random(0xabc_u128.to_ne_bytes());
        let name = "00000000000000000000000000000abc";
        let kind = HeaderValue::from_static("text/plain");
        let part = |range, text: &'static str| (range, ResponseBody::Whole(Bytes::from(text).into()));
        let body = Multipart::new(&boundary, &kind, 10, [part(&(8..10), "89"), part(&(0..3), "012")]);
        let expected = format!(
            "--{name}\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n\
             --{name}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-2/10\r\n\r\n012\r\n\
             --{name}--\r\n"
        );
        assert_eq!(body.length(), Some(expected.len() as u64));
        assert_eq!(read(body), expected);
        assert_eq!(
            boundary.content_type(),
            format!("multipart/byteranges; boundary={name}")
        );
    }

    #[test]
    fn no_boundary_is_drawn_twice() {
        assert_ne!(Boundary::draw().unwrap().0, Boundary::draw().unwrap().0);
    }
}
