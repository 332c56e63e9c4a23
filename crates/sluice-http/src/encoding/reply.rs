//! Compression of the replies of scripts, if the route allows it.
//!
//! A reply is not compressed if its head describes its exact bytes: by an encoding, a range, a digest, or `no-transform`.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::encoding::Encoding;
use crate::encoding::accept::Ranked;

/// Fields that describe the exact bytes of a reply (RFC 9110 §8.4, §14.4; RFC 9530).
const EXACT_BYTES_FIELDS: [HeaderName; 6] = [
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// The encodings that the client of a request accepts, of those that its site offers.
pub struct AcceptedEncodings {
    ranked: Ranked,
    /// Smallest reply that is compressed, bytes, if its length is known.
    least_bytes: u64,
}

/// The head of a reply that may be compressed.
pub struct ReplyToEncode<'a> {
    /// The status.
    pub status: StatusCode,
    /// The fields, which change with the encoding.
    pub fields: &'a mut HeaderMap,
    /// The length of its body, if it is known.
    pub content_length: Option<u64>,
    /// The script or upstream asks for it, whatever the media type is.
    pub is_requested: bool,
}

impl AcceptedEncodings {
    /// The codings that a client accepts, for replies from so many bytes on.
    pub fn new(ranked: Ranked, least_bytes: u64) -> AcceptedEncodings {
        AcceptedEncodings { ranked, least_bytes }
    }

    /// The encoding for the body, if it is compressed; sets the fields of the head. HEAD is answered like GET, so only the head
    /// decides: a reply without Content-Length is compressed, however short its body is. `is_for` tells which media types are compressed.
    pub fn apply(&self, head: &mut ReplyToEncode<'_>, is_for: impl Fn(&HeaderValue) -> bool) -> Option<Encoding> {
        let best = self.ranked[0].map(|(encoding, _)| encoding);
        if head.status == StatusCode::NOT_MODIFIED {
            // The client's stored response may be compressed: its tag is the one that was sent then (RFC 9111 §4.3.4).
            vary(head.fields);
            if best.is_some() {
                weaken_tag(head.fields);
            }
            return None;
        }
        if !self.is_encodable(head, is_for) {
            return None;
        }
        vary(head.fields);
        let encoding = best?;
        weaken_tag(head.fields);
        head.fields.remove(header::ACCEPT_RANGES);
        let token = HeaderValue::from_static(encoding.token());
        head.fields.insert(header::CONTENT_ENCODING, token);
        Some(encoding)
    }

    /// Whether the reply may be compressed for clients that accept it.
    fn is_encodable(&self, head: &ReplyToEncode<'_>, is_for: impl Fn(&HeaderValue) -> bool) -> bool {
        let fields = &*head.fields;
        let has_content = !head.status.is_informational()
            && !matches!(
                head.status,
                StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT
            );
        let is_long = head.content_length.is_none_or(|bytes| bytes >= self.least_bytes);
        let kind = fields.get(header::CONTENT_TYPE);
        let is_worthwhile = is_long && kind.is_some_and(is_for);
        has_content
            && (is_worthwhile || head.is_requested)
            && !EXACT_BYTES_FIELDS.iter().any(|name| fields.contains_key(name))
            && !lists(fields, &header::CACHE_CONTROL, "no-transform")
    }
}

/// Tells caches that another client may get another representation (RFC 9110 §12.5.5).
fn vary(fields: &mut HeaderMap) {
    let has_vary = lists(fields, &header::VARY, "*") || lists(fields, &header::VARY, "accept-encoding");
    if !has_vary {
        fields.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// Makes the tag weak, because it now stands for several representations with different bytes (RFC 9110 §8.8.1).
fn weaken_tag(fields: &mut HeaderMap) {
    if let Some(tag) = fields.get_mut(header::ETAG)
        && !tag.as_bytes().starts_with(b"W/")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        *tag = weak;
    }
}

fn lists(fields: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let lines = fields.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .any(|entry| entry.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::accept::Accepted;

    /// The status, fields and length of a reply.
    struct Head {
        status: StatusCode,
        fields: HeaderMap,
        content_length: Option<u64>,
    }

    fn head(status: u16, lines: &[(&'static str, &'static str)], content_length: Option<u64>) -> Head {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Head {
            status: StatusCode::from_u16(status).unwrap(),
            fields,
            content_length,
        }
    }

    /// A client with this field, of a site that compresses text of 1 KiB or more.
    struct Client(AcceptedEncodings);

    impl Client {
        fn apply(&self, head: &mut Head) -> Option<Encoding> {
            let mut reply = ReplyToEncode {
                status: head.status,
                fields: &mut head.fields,
                content_length: head.content_length,
                is_requested: false,
            };
            self.0.apply(&mut reply, |kind| kind.as_bytes().starts_with(b"text/"))
        }
    }

    fn accepted(accept: &'static str) -> Client {
        let field = (header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
        let accepted = Accepted::read(&HeaderMap::from_iter([field]));
        Client(AcceptedEncodings::new(accepted.rank(&Encoding::ALL), 1 << 10))
    }

    const HTML: (&str, &str) = ("content-type", "text/html");

    #[test]
    fn the_head_of_a_compressed_reply_has_the_fields_of_compression() {
        let lines = [HTML, ("etag", "\"a\""), ("accept-ranges", "bytes"), ("vary", "cookie")];
        let mut html = head(200, &lines, Some(5000));
        assert_eq!(accepted("gzip").apply(&mut html), Some(Encoding::Gzip));
        let field = |name: &str| -> Vec<_> {
            html.fields
                .get_all(name)
                .iter()
                .map(|value| value.to_str().unwrap())
                .collect()
        };
        assert_eq!(field("content-encoding"), ["gzip"]);
        assert_eq!(field("etag"), ["W/\"a\""]);
        assert_eq!(field("vary"), ["cookie", "accept-encoding"]);
        assert_eq!(field("accept-ranges"), [""; 0]);
    }

    #[test]
    fn vary_is_sent_to_clients_that_accept_no_encoding_too() {
        for vary in ["Accept-Encoding", "cookie, accept-encoding", "*"] {
            let mut html = head(200, &[HTML, ("vary", vary), ("etag", "\"a\"")], None);
            assert_eq!(accepted("identity").apply(&mut html), None);
            assert_eq!(html.fields["etag"], "\"a\"");
            assert_eq!(html.fields.get_all("vary").iter().collect::<Vec<_>>(), [vary]);
        }
        let mut html = head(200, &[HTML], None);
        assert_eq!(accepted("").apply(&mut html), None);
        assert_eq!(html.fields["vary"], "accept-encoding");
    }

    #[test]
    fn a_reply_whose_head_describes_its_exact_bytes_is_unchanged() {
        for (status, line, length) in [
            (200, ("content-encoding", "gzip"), None),
            (200, ("content-encoding", "identity"), None),
            (200, ("cache-control", "public, No-Transform"), None),
            (200, ("content-range", "bytes 0-1/2"), None),
            (200, ("repr-digest", "sha-256=:x:"), None),
            (206, ("x-a", "b"), None),
            (204, ("x-a", "b"), None),
            (200, ("x-a", "b"), Some(1023)),
        ] {
            let mut reply = head(status, &[HTML, line], length);
            let before = reply.fields.clone();
            assert_eq!(accepted("gzip, br").apply(&mut reply), None, "{status} {line:?}");
            assert_eq!(reply.fields, before, "{status} {line:?}");
        }
        for kind in [&[("content-type", "image/png")][..], &[]] {
            assert_eq!(accepted("gzip").apply(&mut head(200, kind, None)), None);
        }
        assert!(accepted("gzip").apply(&mut head(404, &[HTML], Some(1024))).is_some());
    }

    #[test]
    fn a_304_has_the_tag_of_the_compressed_response() {
        let mut same = head(304, &[("etag", "\"a\"")], None);
        assert_eq!(accepted("gzip").apply(&mut same), None);
        assert_eq!(
            (&same.fields["etag"], &same.fields["vary"]),
            (
                &HeaderValue::from_static("W/\"a\""),
                &HeaderValue::from_static("accept-encoding")
            )
        );
        assert!(!same.fields.contains_key("content-encoding"));
    }
}
