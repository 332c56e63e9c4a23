//! Which site's page has made a browser send a request.
//!
//! A browser says so: Sec-Fetch-Site (Fetch Metadata Request Headers §2.3), or Origin (RFC 6454 §7). Programs send neither.

use http::{HeaderMap, HeaderName, header};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a form may have been sent by a page of another site. `origin` is that of the reports.
pub(super) fn of_action(fields: &HeaderMap, origin: &str) -> Option<&'static str> {
    check(fields, origin, &["same-origin"])
}

/// Why a page of another site may have asked for something that goes on: the events of a watch, a live page. It must not begin them, although it could
/// not read them. A visitor may: by an address that is typed in.
pub(super) fn of_stream(fields: &HeaderMap, origin: &str) -> Option<&'static str> {
    check(fields, origin, &["same-origin", "none"])
}

fn check(fields: &HeaderMap, origin: &str, sites: &[&str]) -> Option<&'static str> {
    if let Some(site) = fields.get(FETCH_SITE) {
        let is_own = sites.iter().any(|own| site == own);
        return (!is_own).then_some("Sec-Fetch-Site is not same-origin");
    }
    let sent = fields.get(header::ORIGIN)?;
    let is_own = sent.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
    (!is_own).then_some("Origin is not that of the reports")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_pages_of_other_sites_send_is_known() {
        let origin = "http://localhost:8080";
        for (fields, is_action, is_stream) in [
            (&[][..], true, true),
            (&[("origin", "http://localhost:8080")], true, true),
            (&[("origin", "HTTP://Localhost:8080")], true, true),
            (&[("origin", "http://localhost")], false, false),
            (&[("origin", "https://localhost:8080")], false, false),
            (&[("origin", "null")], false, false),
            (&[("origin", "http://evil.test")], false, false),
            (
                &[("sec-fetch-site", "same-origin"), ("origin", "https://outside.test")],
                true,
                true,
            ),
            (&[("sec-fetch-site", "cross-site")], false, false),
            (
                &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:8080")],
                false,
                false,
            ),
            (&[("sec-fetch-site", "none")], false, true),
        ] {
            let pairs = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let fields: HeaderMap = pairs.collect();
            assert_eq!(of_action(&fields, origin).is_none(), is_action, "{fields:?}");
            assert_eq!(of_stream(&fields, origin).is_none(), is_stream, "{fields:?}");
        }
    }
}
