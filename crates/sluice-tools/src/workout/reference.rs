//! The first reply for a path, and the comparison of later ones with it.

use http::StatusCode;

use super::arguments::Comparison;

/// Bytes of first replies that are kept at most, for all paths together. Of a longer body the beginning is compared byte by byte, the rest by its length.
const KEPT_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) status: StatusCode,
    pub(super) bytes: u64,
    /// The body, or its beginning.
    kept: Vec<u8>,
    /// The length of the beginning at most.
    kept_max: usize,
}

impl Reference {
    /// A reply without a body yet, as one of this many paths.
    pub(super) fn new(status: StatusCode, paths: usize) -> Reference {
        Reference {
            status,
            bytes: 0,
            kept: Vec::new(),
            kept_max: KEPT_BYTES_MAX / paths.max(1),
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        let room = self.kept_max - self.kept.len();
        self.kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    /// Whether the whole body is compared, and not only its beginning.
    pub(super) fn is_whole(&self) -> bool {
        self.kept.len() as u64 == self.bytes
    }

    /// The first bytes of its body as text, for a message.
    pub(super) fn beginning(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept[..self.kept.len().min(200)]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// The comparison of one reply, chunk by chunk.
pub(super) struct Check<'a> {
    reference: &'a Reference,
    comparison: Comparison,
    bytes: u64,
    /// The position of the first chunk with another content.
    differs_at: Option<u64>,
}

impl<'a> Check<'a> {
    pub(super) fn new(reference: &'a Reference, comparison: Comparison) -> Check<'a> {
        Check { reference, comparison, bytes: 0, differs_at: None }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        let begin = self.bytes;
        self.bytes += chunk.len() as u64;
        if self.comparison < Comparison::Body || self.differs_at.is_some() {
            return;
        }
        let kept = usize::try_from(begin)
            .ok()
            .and_then(|begin| self.reference.kept.get(begin..));
        let kept = kept.unwrap_or_default();
        let both = kept.len().min(chunk.len());
        if kept[..both] != chunk[..both] {
            let same = kept.iter().zip(chunk).take_while(|(one, other)| one == other).count();
            self.differs_at = Some(begin + same as u64);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How the complete reply differs; `None` if it does not.
    pub(super) fn finish(&self, status: StatusCode) -> Option<String> {
        let first = self.reference;
        if status != first.status {
            return Some(format!(
                "status {} instead of {}",
                status.as_u16(),
                first.status.as_u16()
            ));
        }
        if self.comparison >= Comparison::Length && self.bytes != first.bytes {
            return Some(format!("{} bytes instead of {}", self.bytes, first.bytes));
        }
        self.differs_at.map(|at| format!("another body, from byte {at} on"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(body: &[u8]) -> Reference {
        let mut reference = Reference::new(StatusCode::OK, 1);
        reference.push(body);
        reference
    }

    fn compare(reference: &Reference, comparison: Comparison, status: u16, chunks: &[&[u8]]) -> Option<String> {
        let mut check = Check::new(reference, comparison);
        chunks.iter().for_each(|chunk| check.push(chunk));
        check.finish(StatusCode::from_u16(status).expect("a status"))
    }

    #[test]
    fn status_length_and_bytes_are_compared_as_far_as_asked() {
        let first = reference(b"abcdef");
        let body = |chunks: &[&[u8]]| compare(&first, Comparison::Body, 200, chunks);
        assert_eq!(body(&[b"abc", b"def"]), None);
        assert_eq!(body(&[b"abc", b"dxf"]), Some("another body, from byte 4 on".to_owned()));
        assert_eq!(body(&[b"abc"]), Some("3 bytes instead of 6".to_owned()));
        assert_eq!(body(&[b"abcdef", b"g"]), Some("7 bytes instead of 6".to_owned()));
        let of = |comparison, status| compare(&first, comparison, status, &[b"xxxxxx"]);
        assert_eq!(of(Comparison::Length, 200), None);
        assert_eq!(of(Comparison::Status, 200), None);
        assert_eq!(
            of(Comparison::Status, 503),
            Some("status 503 instead of 200".to_owned())
        );
    }

    #[test]
    fn beyond_the_kept_beginning_only_the_length_counts() {
        let mut first = Reference::new(StatusCode::OK, KEPT_BYTES_MAX / 4);
        first.push(b"abcdef");
        assert!(!first.is_whole());
        let body = |chunks: &[&[u8]]| compare(&first, Comparison::Body, 200, chunks);
        assert_eq!(body(&[b"abcdxx"]), None);
        assert_eq!(body(&[b"abcd", b"xx"]), None);
        assert_eq!(body(&[b"abxdef"]), Some("another body, from byte 2 on".to_owned()));
        assert_eq!(body(&[b"abcd"]), Some("4 bytes instead of 6".to_owned()));
    }
}
