//! The syntax of media types (RFC 9110 §8.3.1).

/// Whether a text is `type/subtype`, perhaps with parameters.
pub(super) fn is_media_type(text: &str) -> bool {
    let mut parts = text.split(';').map(str::trim);
    let is_type = |name: &str| {
        name.split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
    };
    let is_parameter = |parameter: &str| {
        let is_value = |value: &str| is_token(value.trim_matches('"'));
        parameter
            .split_once('=')
            .is_some_and(|(name, value)| is_token(name) && is_value(value))
    };
    parts.next().is_some_and(is_type) && parts.all(is_parameter)
}

/// Whether a text is a token (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}
