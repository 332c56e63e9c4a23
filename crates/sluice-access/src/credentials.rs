//! The credentials of a request: the field Authorization with the scheme Basic (RFC 7617).

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use crate::hash::PASSWORD_BYTES_MAX;
use crate::users::NAME_BYTES_MAX;

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name, as UTF-8 (RFC 7617 §2.1).
    pub name: String,
    /// The password.
    pub password: Vec<u8>,
}

impl Credentials {
    /// Reads a value of Authorization. `None` if it has another scheme, is malformed, or is longer than any name and password may be.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Credentials> {
        const BYTES_MAX: usize = (NAME_BYTES_MAX + 1 + PASSWORD_BYTES_MAX) * 4 / 3 + 16;
        let text = after_scheme(value, b"basic ", BYTES_MAX)?;
        let bytes = BASE64.decode(text).ok()?;
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let name = std::str::from_utf8(&bytes[..colon]).ok()?;
        // An empty name is that of a token.
        let is_valid = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
        is_valid.then(|| Credentials {
            name: name.to_owned(),
            password: bytes[colon + 1..].to_vec(),
        })
    }

    /// Reads a token: a value of Authorization with the scheme Bearer (RFC 6750 §2.1). The name is empty. `None` for other values.
    #[must_use]
    pub fn token(value: &[u8]) -> Option<Credentials> {
        let token = after_scheme(value, b"bearer ", 8192)?;
        let is_valid = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
        is_valid.then(|| Credentials { name: String::new(), password: token.to_vec() })
    }
}

/// The text after a scheme, which is in lower case; `None` if there are more than so many bytes.
fn after_scheme<'v>(value: &'v [u8], scheme: &[u8], most: usize) -> Option<&'v [u8]> {
    let (own, text) = value.split_at_checked(scheme.len())?;
    let text = text.trim_ascii();
    (own.eq_ignore_ascii_case(scheme) && text.len() <= most).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_password_are_separated_at_the_first_colon() {
        let encoded = |text: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text));
        for (text, name, password) in [
            ("ann:secret", "ann", "secret"),
            ("ann:a:b", "ann", "a:b"),
            ("ann:", "ann", ""),
            ("änne:pässword", "änne", "pässword"),
        ] {
            let read = Credentials::parse(encoded(text).as_bytes()).unwrap();
            assert_eq!(
                (read.name.as_str(), read.password.as_slice()),
                (name, password.as_bytes())
            );
        }
        assert!(Credentials::parse(b"bAsIc YTpi").is_some() && Credentials::parse(b"Basic  YTpi ").is_some());
        assert!(Credentials::parse(b"Basic YW46Yg").is_some(), "without padding");
    }

    #[test]
    fn other_values_are_no_credentials() {
        for value in [
            "",
            "Basic",
            "Basic ",
            "Basic !!!!",
            "Basic YWJj",
            "Basic OmdvZA==",
            "Bearer YTpi",
            "Digest username=a",
            "Basic gGE6Yg==",
        ] {
            assert!(Credentials::parse(value.as_bytes()).is_none(), "{value}");
        }
        assert_eq!(Credentials::token(b"BEARER a.b-c=").unwrap().password, b"a.b-c=");
        assert!(
            [&b"Bearer "[..], b"Bearer a b", b"Basic YTpi"]
                .iter()
                .all(|value| Credentials::token(value).is_none())
        );
        let long = format!("Basic {}", "YWFh".repeat(10_000));
        assert!(Credentials::parse(long.as_bytes()).is_none());
    }
}
