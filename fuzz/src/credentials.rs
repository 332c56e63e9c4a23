//! The field Authorization: names and passwords (Basic), tokens (Bearer).
//!
//! Properties: a name and a password are found again as they were encoded, with and without padding, whatever the case of the scheme;
//! a value is read as one scheme at most; a name has no control characters and is never empty, a token is printable.

use sluice_access::credentials::Credentials;
use sluice_access::users::NAME_BYTES_MAX;

use crate::input::Input;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes of a password that is encoded here; longer ones may be refused.
const PASSWORD_BYTES_MAX: usize = 512;

/// Input: a byte (1: a value of the field as it is; 0: a line with a name, and then a password, which are encoded; 2: without padding).
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    if flags & 1 == 1 {
        return check_value(input.rest());
    }
    let name = str::from_utf8(input.line()).unwrap_or_default();
    let password = input.rest();
    let mut text = name.as_bytes().to_vec();
    text.push(b':');
    text.extend_from_slice(password);
    let mut value = b"bAsIc ".to_vec();
    value.extend(encoded(&text));
    if flags & 2 == 2 {
        while value.ends_with(b"=") {
            value.pop();
        }
    }
    check_value(&value);
    let is_valid = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && password.len() <= PASSWORD_BYTES_MAX
        && !name.contains(':')
        && !name.chars().any(char::is_control);
    if is_valid {
        let read = Credentials::parse(&value).expect("credentials");
        assert_eq!((read.name.as_str(), read.password.as_slice()), (name, password));
    }
}

fn check_value(value: &[u8]) {
    let (basic, token) = (Credentials::parse(value), Credentials::token(value));
    assert!(basic.is_none() || token.is_none());
    if let Some(basic) = basic {
        assert!(!basic.name.is_empty() && basic.name.len() <= NAME_BYTES_MAX);
        assert!(!basic.name.chars().any(char::is_control) && !basic.name.contains(':'));
    }
    if let Some(token) = token {
        assert!(token.name.is_empty() && !token.password.is_empty());
        assert!(token.password.iter().all(u8::is_ascii_graphic));
    }
}

/// Base64 (RFC 4648 §4).
fn encoded(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() { b'=' } else { digit });
        }
    }
    text
}
