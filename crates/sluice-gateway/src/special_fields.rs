//! The fields of a reply's head that mean something to the server: its names are read once to find out which of them a head has.
//!
//! Each lookup in a `HeaderMap` hashes a name, and the head of most replies has one or two of these fields.

use http::header::{CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, UPGRADE};
use http::{HeaderMap, HeaderName};

/// Names a file by its absolute path (Apache's mod_xsendfile, lighttpd).
pub const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");

/// Names a file by a URL path, which has a meaning only inside the server (nginx).
pub const X_ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");

/// Both fields.
pub const SEND_FILE_FIELDS: [HeaderName; 2] = [X_SENDFILE, X_ACCEL_REDIRECT];

/// `Status` (RFC 3875 §6.3.3).
pub(crate) static STATUS: HeaderName = HeaderName::from_static("status");

/// `Script-Control` (WASD).
pub(crate) static SCRIPT_CONTROL: HeaderName = HeaderName::from_static("script-control");

/// Fields about the connection between client and server (RFC 9110 §7.6.1).
pub(crate) static HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    UPGRADE,
    TE,
    TRAILER,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpecialFields {
    pub status: bool,
    pub control: bool,
    pub content_length: bool,
    pub transfer_encoding: bool,
    pub location: bool,
    pub hop_by_hop: bool,
    pub send_file: bool,
    pub repeated: bool,
}

impl SpecialFields {
    pub(crate) fn of(fields: &HeaderMap) -> SpecialFields {
        let mut special = SpecialFields {
            repeated: fields.keys_len() < fields.len(),
            ..SpecialFields::default()
        };
        for name in fields.keys() {
            match name.as_str() {
                "status" => special.status = true,
                "script-control" => special.control = true,
                "content-length" => special.content_length = true,
                "transfer-encoding" => special.transfer_encoding = true,
                "location" => special.location = true,
                _ if HOP_BY_HOP.contains(name) => special.hop_by_hop = true,
                _ => special.send_file |= SEND_FILE_FIELDS.contains(name),
            }
        }
        special
    }
}
