//! The differences between the versions of HTTP that matter above the connection.
//!
//! One method for each difference, so that a further version is described in one place.

use http::Version;

/// The properties of a version of HTTP.
pub trait Protocol {
    /// Whether a body of unknown length is sent in chunks (RFC 9112 §7.1).
    fn uses_chunked(&self) -> bool;

    /// Whether a connection is kept unless one side says otherwise (RFC 9112 §9.3): then its end delimits no body.
    fn keeps_connection(&self) -> bool;

    /// Whether a connection has several exchanges at a time, as streams (RFC 9113 §5), with frames and pseudo-header fields.
    fn is_multiplexed(&self) -> bool;
}

impl Protocol for Version {
    fn uses_chunked(&self) -> bool {
        *self == Version::HTTP_11
    }

    fn keeps_connection(&self) -> bool {
        *self >= Version::HTTP_11
    }

    fn is_multiplexed(&self) -> bool {
        *self >= Version::HTTP_2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_properties() {
        for (version, properties) in [
            (Version::HTTP_09, [false, false, false]),
            (Version::HTTP_10, [false, false, false]),
            (Version::HTTP_11, [true, true, false]),
            (Version::HTTP_2, [false, true, true]),
            (Version::HTTP_3, [false, true, true]),
        ] {
            let found = [
                version.uses_chunked(),
                version.keeps_connection(),
                version.is_multiplexed(),
            ];
            assert_eq!(found, properties, "{version:?}");
        }
    }
}
