//! Compressing what a script says, where its route allows it.
//!
//! Here: which replies are compressed, and what their heads say then. Not here: the compressing (`write::encoded_body`). A script
//! that has a mind of its own about its bytes is left alone: one that names an encoding, parts, a digest, or `no-transform`.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sluice_gateway::ReplyHead;
use sluice_http::encoding::Encoding;
use sluice_http::encoding::accept::Ranked;
use sluice_settings::compression::Compression;

/// Fields that are about the very bytes of a reply (RFC 9110 §8.4, §14.4; RFC 9530).
const ABOUT_BYTES: [HeaderName; 6] = [
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// The forms in which the client of a request takes the reply.
pub(crate) struct Offer {
    compression: Arc<Compression>,
    ranked: Ranked,
}

impl Offer {
    /// To a request with these fields.
    pub(crate) fn new(compression: &Arc<Compression>, fields: &HeaderMap) -> Offer {
        Offer {
            compression: Arc::clone(compression),
            ranked: compression.rank(fields),
        }
    }

    /// How the body is to be compressed, if at all; the head says so then. HEAD is answered as GET would be, so nothing counts that
    /// only the body could tell: a reply without Content-Length is compressed, however short it turns out to be.
    pub(crate) fn take_up(&self, head: &mut ReplyHead) -> Option<Encoding> {
        let best = self.ranked[0].map(|(encoding, _)| encoding);
        if head.status == StatusCode::NOT_MODIFIED {
            // What it is said of may have been compressed: its tag is the one that was sent with that (RFC 9111 §4.3.4).
            vary(&mut head.fields);
            if best.is_some() {
                weaken_tag(&mut head.fields);
            }
            return None;
        }
        if !self.is_for(head) {
            return None;
        }
        vary(&mut head.fields);
        let encoding = best?;
        weaken_tag(&mut head.fields);
        head.fields.remove(header::ACCEPT_RANGES);
        let token = HeaderValue::from_static(encoding.token());
        head.fields.insert(header::CONTENT_ENCODING, token);
        Some(encoding)
    }

    /// Whether the reply may be compressed, for clients that take it.
    fn is_for(&self, head: &ReplyHead) -> bool {
        let fields = &head.fields;
        let has_content = !head.status.is_informational()
            && !matches!(
                head.status,
                StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT
            );
        let is_long = head
            .content_length
            .is_none_or(|bytes| bytes >= self.compression.least_bytes);
        let kind = fields.get(header::CONTENT_TYPE);
        has_content
            && is_long
            && kind.is_some_and(|kind| self.compression.is_for(kind))
            && !ABOUT_BYTES.iter().any(|name| fields.contains_key(name))
            && !lists(fields, &header::CACHE_CONTROL, "no-transform")
    }
}

/// Tells caches that another client might get another form (RFC 9110 §12.5.5).
fn vary(fields: &mut HeaderMap) {
    let is_told = lists(fields, &header::VARY, "*") || lists(fields, &header::VARY, "accept-encoding");
    if !is_told {
        fields.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// The same tag now stands for several forms, which mean the same but are not the same bytes (RFC 9110 §8.8.1).
fn weaken_tag(fields: &mut HeaderMap) {
    if let Some(tag) = fields.get_mut(header::ETAG)
        && !tag.as_bytes().starts_with(b"W/")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        *tag = weak;
    }
}

/// Whether a field lists a word.
fn lists(fields: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let lines = fields.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .any(|entry| entry.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use sluice_gateway::ScriptControl;

    use super::*;
    use sluice_settings::CompressionSettings;

    fn head(status: u16, lines: &[(&'static str, &'static str)], content_length: Option<u64>) -> ReplyHead {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        ReplyHead {
            status: StatusCode::from_u16(status).unwrap(),
            fields,
            content_length,
            control: ScriptControl::default(),
            dropped: Vec::new(),
        }
    }

    fn offer(accept: &'static str) -> Offer {
        let compression = Arc::new(Compression::new(&CompressionSettings::default()));
        let field = (header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
        Offer::new(&compression, &HeaderMap::from_iter([field]))
    }

    const HTML: (&str, &str) = ("content-type", "text/html");

    #[test]
    fn a_head_says_what_was_done_to_its_body() {
        let told = [HTML, ("etag", "\"a\""), ("accept-ranges", "bytes"), ("vary", "cookie")];
        let mut html = head(200, &told, Some(5000));
        assert_eq!(offer("gzip").take_up(&mut html), Some(Encoding::Gzip));
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
    fn who_takes_none_is_told_that_others_may() {
        for vary in ["Accept-Encoding", "cookie, accept-encoding", "*"] {
            let mut html = head(200, &[HTML, ("vary", vary), ("etag", "\"a\"")], None);
            assert_eq!(offer("identity").take_up(&mut html), None);
            assert_eq!(html.fields["etag"], "\"a\"");
            assert_eq!(html.fields.get_all("vary").iter().collect::<Vec<_>>(), [vary]);
        }
        let mut html = head(200, &[HTML], None);
        assert_eq!(offer("").take_up(&mut html), None);
        assert_eq!(html.fields["vary"], "accept-encoding");
    }

    #[test]
    fn what_is_about_its_very_bytes_is_left_alone() {
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
            assert_eq!(offer("gzip, br").take_up(&mut reply), None, "{status} {line:?}");
            assert_eq!(reply.fields, before, "{status} {line:?}");
        }
        for kind in [&[("content-type", "image/png")][..], &[]] {
            assert_eq!(offer("gzip").take_up(&mut head(200, kind, None)), None);
        }
        assert!(offer("gzip").take_up(&mut head(404, &[HTML], Some(1024))).is_some());
    }

    #[test]
    fn what_is_not_modified_has_the_tag_of_what_was_sent() {
        let mut same = head(304, &[("etag", "\"a\"")], None);
        assert_eq!(offer("gzip").take_up(&mut same), None);
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
