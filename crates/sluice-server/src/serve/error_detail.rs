//! Whether the client of an exchange is shown what the log says about a fault: names of files, and what a script has written to its standard error.
//!
//! `error_detail = "local"` is for the developer of a site, at the machine that it runs on. The connection then comes from a loopback
//! address, and so does every request that a proxy on this machine passes on, or a tunnel. A request therefore also has to look as a
//! browser or curl sends it to this machine: it names a host of this machine, and no field and no old version of HTTP says that it
//! was passed on, or sent by a page of another site (`Sec-Fetch-Site`), which could read the answer if a route permits that.
//!
//! A proxy that adds no field, and a tunnel, are not recognized: only `error_detail = false` helps there.

use http::{HeaderMap, HeaderName, Version};
use sluice_http::host::is_local;
use sluice_http::protocol::Protocol;
use sluice_settings::ErrorDetail;

use crate::serve::exchange::Exchange;

/// How the names of fields begin that only proxies and content delivery networks add.
const PROXY_PREFIXES: [&str; 12] = [
    "x-forwarded",
    "x-original",
    "x-real-",
    "x-envoy-",
    "x-azure-",
    "x-appengine-",
    "x-arr-",
    "x-amzn-",
    "x-amz-cf-",
    "x-proxy",
    "cf-",
    "fastly-",
];

const PROXY_FIELDS: [HeaderName; 18] = [
    http::header::FORWARDED,
    http::header::VIA,
    HeaderName::from_static("client-ip"),
    HeaderName::from_static("x-client-ip"),
    HeaderName::from_static("x-cluster-client-ip"),
    HeaderName::from_static("true-client-ip"),
    HeaderName::from_static("remote-addr"),
    HeaderName::from_static("x-remote-addr"),
    HeaderName::from_static("x-remote-ip"),
    HeaderName::from_static("x-host"),
    HeaderName::from_static("proxy-client-ip"),
    HeaderName::from_static("wl-proxy-client-ip"),
    HeaderName::from_static("fly-client-ip"),
    HeaderName::from_static("x-nf-client-connection-ip"),
    HeaderName::from_static("x-varnish"),
    HeaderName::from_static("surrogate-capability"),
    HeaderName::from_static("front-end-https"),
    HeaderName::from_static("cdn-loop"),
];

/// Which site's page made a browser send the request: `none` is the user, `same-origin` a page of this server (Fetch Metadata §2.3).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageDetail {
    Shown,
    /// A sentence for visitors.
    Hidden,
}

impl PageDetail {
    /// The detail for the client of an exchange. `fields` are those of its request, and `host` is the host that it names.
    pub(crate) fn of(setting: ErrorDetail, exchange: &Exchange, host: &str, fields: &HeaderMap) -> PageDetail {
        let is_shown = match setting {
            ErrorDetail::Off => false,
            ErrorDetail::All => true,
            ErrorDetail::Local => {
                let client = &exchange.client;
                client.is_of_this_machine() && is_direct(exchange.line.version, host, fields)
            }
        };
        if is_shown {
            PageDetail::Shown
        } else {
            PageDetail::Hidden
        }
    }
}

/// Whether no proxy seems to have passed a request on. Proxies use HTTP/1.0 if nobody says otherwise (nginx).
pub(crate) fn is_unproxied(version: Version, fields: &HeaderMap) -> bool {
    version.keeps_connection()
        && !PROXY_FIELDS.iter().any(|name| fields.contains_key(name))
        && !fields
            .keys()
            .any(|name| PROXY_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix)))
}

/// Whether a request looks as if its client had sent it to this machine itself.
fn is_direct(version: Version, host: &str, fields: &HeaderMap) -> bool {
    is_local(host)
        && is_unproxied(version, fields)
        && fields
            .get_all(FETCH_SITE)
            .iter()
            .all(|site| site == "none" || site == "same-origin")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_direct_request_to_this_machine_is_shown_details() {
        let fields = |name: &'static str| {
            let value = HeaderValue::from_static("x");
            HeaderMap::from_iter([(HeaderName::from_static(name), value)])
        };
        let plain = fields("accept");
        assert!(is_direct(Version::HTTP_11, "localhost", &plain));
        assert!(is_direct(Version::HTTP_2, "127.0.0.1", &plain));
        assert!(!is_direct(Version::HTTP_10, "localhost", &plain));
        assert!(!is_direct(Version::HTTP_11, "example.org", &plain));
        assert!(!is_direct(Version::HTTP_11, "", &plain));
        for name in [
            "x-forwarded-for",
            "x-forwarded-port",
            "forwarded",
            "via",
            "x-real-ip",
            "x-envoy-external-address",
            "x-proxyuser-ip",
            "x-azure-clientip",
            "cf-connecting-ip",
        ] {
            assert!(!is_direct(Version::HTTP_11, "localhost", &fields(name)), "{name}");
        }
    }

    #[test]
    fn a_request_that_a_page_of_another_site_made_is_shown_no_details() {
        for (site, expected) in [
            ("none", true),
            ("same-origin", true),
            ("same-site", false),
            ("cross-site", false),
            ("", false),
        ] {
            let fields = HeaderMap::from_iter([(FETCH_SITE, HeaderValue::from_static(site))]);
            assert_eq!(is_direct(Version::HTTP_11, "localhost", &fields), expected, "{site}");
        }
    }
}
