//! Whether the client of an exchange is shown what the log says about a fault: names of files, and what a script has written to its
//! standard error.
//!
//! `error_detail = "local"` is for the developer of a site, at the machine that it runs on. The connection then comes from a loopback
//! address, and so does every request that a proxy on this machine passes on, or a tunnel. A request therefore also has to look as a
//! browser or curl sends it to this machine: it names a host of this machine, and no field and no old version of HTTP says that it
//! was passed on. Where that is not certain nothing is shown.

use http::{HeaderMap, HeaderName, Version};
use sluice_http::host::is_local;
use sluice_settings::ErrorDetail;

use crate::serve::exchange::Exchange;

/// Fields that proxies add, besides those that begin with `x-forwarded`.
const PROXY_FIELDS: [HeaderName; 9] = [
    http::header::FORWARDED,
    http::header::VIA,
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("x-client-ip"),
    HeaderName::from_static("x-cluster-client-ip"),
    HeaderName::from_static("x-original-host"),
    HeaderName::from_static("true-client-ip"),
    HeaderName::from_static("cf-connecting-ip"),
    HeaderName::from_static("cdn-loop"),
];

/// What an error page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageDetail {
    /// What the log says, too.
    Shown,
    /// A sentence for visitors.
    Hidden,
}

impl PageDetail {
    /// What the client of an exchange is shown. `fields` are those of its request, and `host` is the host that it names.
    pub(crate) fn of(setting: ErrorDetail, exchange: &Exchange, host: &str, fields: &HeaderMap) -> PageDetail {
        let is_shown = match setting {
            ErrorDetail::Off => false,
            ErrorDetail::All => true,
            ErrorDetail::Local => {
                let client = &exchange.client;
                let addresses = [client.peer, client.endpoints.client.ip()];
                addresses.iter().all(|ip| ip.to_canonical().is_loopback())
                    && !client.endpoints.is_unix
                    && is_direct(exchange.line.version, host, fields)
            }
        };
        if is_shown {
            PageDetail::Shown
        } else {
            PageDetail::Hidden
        }
    }
}

/// Whether a request looks as if its client had sent it to this machine itself. Proxies use HTTP/1.0 if nobody says otherwise (nginx).
fn is_direct(version: Version, host: &str, fields: &HeaderMap) -> bool {
    version >= Version::HTTP_11
        && is_local(host)
        && !PROXY_FIELDS.iter().any(|name| fields.contains_key(name))
        && !fields.keys().any(|name| name.as_str().starts_with("x-forwarded"))
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
        for name in ["x-forwarded-for", "x-forwarded-port", "forwarded", "via", "x-real-ip"] {
            assert!(!is_direct(Version::HTTP_11, "localhost", &fields(name)), "{name}");
        }
    }
}
