//! The request line of an exchange.

use http::uri::Scheme;
use http::{Method, Uri, Version};
use sluice_http::protocol::Protocol;

/// The request line (RFC 9112 §3), or its pseudo-header fields (RFC 9113 §8.3.1).
pub(crate) struct RequestLine {
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
}

impl RequestLine {
    /// The scheme of an absolute form (RFC 9112 §3.2.2). `None` for the other forms; HTTP/2, which sends a scheme with each request,
    /// has no such form.
    pub(crate) fn absolute_form(&self) -> Option<&Scheme> {
        self.uri.scheme().filter(|_| !self.version.is_multiplexed())
    }
}
