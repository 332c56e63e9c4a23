//! The request record: the message on CGIPLUSIN that hands a request to a persistent script process (WASD CGIplus).
//!
//! ```text
//! record mode   !            LF      struct mode   !!<n>  LF
//!               NAME=value   LF                    n bytes: { length: 16 bits, little-endian, counts text and NUL;
//!               …                                             NAME=value; NUL } …; a length of 0
//!               (empty line) LF
//! ```
//!
//! The server encodes it; decoding is for scripts in Rust and for tests.

use std::fmt;

use memchr::memchr;

use crate::variables::{LENGTH_BYTES, Variables, push_number};

/// Bytes in the largest struct block that [`decode_request`] accepts: room for the header fields and as much again.
const BLOCK_BYTES_MAX: usize = 16 << 20;

/// The encoding of request records; a script chooses it with the callout CGIPLUS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestEncoding {
    /// One line per variable, which a shell script can read (`CGIPLUS: record`).
    #[default]
    Record,
    /// One block with its length, which takes one read instead of many (`CGIPLUS: struct`).
    Struct,
}

/// How a script wants its requests to come; it says so with the callout CGIPLUS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestWish {
    /// The encoding; `None`: as before.
    pub encoding: Option<RequestEncoding>,
    /// By the socket in place of the pipe (`CGIPLUS: socket`).
    pub by_socket: bool,
}

/// Appends the record of one request to `out`.
pub fn encode_request(variables: &Variables, encoding: RequestEncoding, out: &mut Vec<u8>) {
    match encoding {
        RequestEncoding::Record => encode_lines(variables, out),
        RequestEncoding::Struct => encode_block(variables, out),
    }
}

fn encode_lines(variables: &Variables, out: &mut Vec<u8>) {
    out.reserve(variables.buffer.len() + "!\n\n".len());
    out.extend_from_slice(b"!\n");
    for text in variables.texts() {
        out.extend_from_slice(text);
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn encode_block(variables: &Variables, out: &mut Vec<u8>) {
    // The variables are stored as the entries of a block, which ends with the length 0.
    let bytes = variables.buffer.len() + LENGTH_BYTES;
    out.reserve(bytes + 24);
    out.extend_from_slice(b"!!");
    push_number(out, bytes as u64);
    out.push(b'\n');
    out.extend_from_slice(&variables.buffer);
    out.extend_from_slice(&[0; LENGTH_BYTES]);
}

/// A decoded request record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Names and values, in the order in which they came.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes of the input that were consumed, lines skipped before the record included.
    pub consumed: usize,
}

/// Why a request record cannot be decoded. Always the server's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRecordFault {
    /// `!!` is not followed by a number from 2 to 16 MiB.
    BadCount,
    /// The lengths in a struct block are inconsistent.
    BadLength,
    /// A variable has no `=`.
    NotAVariable,
}

impl fmt::Display for RequestRecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestRecordFault::BadCount => "the start record of a request has no valid count",
            RequestRecordFault::BadLength => "the lengths in a request's struct block do not add up",
            RequestRecordFault::NotAVariable => "a request's variable is not NAME=value",
        })
    }
}

impl std::error::Error for RequestRecordFault {}

/// Decodes the first request record in `input`; `None` if it is incomplete.
///
/// Lines before a start record are skipped: they are answers to callouts that the script did not read.
///
/// # Errors
/// The record is malformed: the server's fault.
pub fn decode_request(input: &[u8]) -> Result<Option<RequestRecord>, RequestRecordFault> {
    let mut position = 0;
    while let Some(length) = memchr(b'\n', &input[position..]) {
        let line = &input[position..position + length];
        position += length + 1;
        let request = match line {
            b"!" => decode_lines(&input[position..])?,
            [b'!', b'!', count @ ..] => decode_block(&input[position..], count)?,
            _ => continue,
        };
        return Ok(request.map(|request| RequestRecord {
            consumed: position + request.consumed,
            ..request
        }));
    }
    Ok(None)
}

fn decode_lines(input: &[u8]) -> Result<Option<RequestRecord>, RequestRecordFault> {
    let mut variables = Vec::new();
    let mut position = 0;
    while let Some(length) = memchr(b'\n', &input[position..]) {
        let line = &input[position..position + length];
        position += length + 1;
        if line.is_empty() {
            return Ok(Some(RequestRecord {
                variables,
                consumed: position,
            }));
        }
        variables.push(variable(line)?);
    }
    Ok(None)
}

fn decode_block(input: &[u8], count: &[u8]) -> Result<Option<RequestRecord>, RequestRecordFault> {
    let digits = str::from_utf8(count)
        .ok()
        .filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()));
    let count: usize = digits
        .and_then(|digits| digits.parse().ok())
        .ok_or(RequestRecordFault::BadCount)?;
    if !(2..=BLOCK_BYTES_MAX).contains(&count) {
        return Err(RequestRecordFault::BadCount);
    }
    let Some(mut block) = input.get(..count) else {
        return Ok(None);
    };
    let mut variables = Vec::new();
    loop {
        let (length, rest) = block.split_first_chunk::<2>().ok_or(RequestRecordFault::BadLength)?;
        match (usize::from(u16::from_le_bytes(*length)), rest) {
            (0, []) => {
                return Ok(Some(RequestRecord {
                    variables,
                    consumed: count,
                }));
            }
            (0, _) => return Err(RequestRecordFault::BadLength),
            (length, rest) => {
                let (text, rest) = rest.split_at_checked(length).ok_or(RequestRecordFault::BadLength)?;
                variables.push(variable(text.strip_suffix(&[0]).ok_or(RequestRecordFault::BadLength)?)?);
                block = rest;
            }
        }
    }
}

fn variable(text: &[u8]) -> Result<(Vec<u8>, Vec<u8>), RequestRecordFault> {
    let equals = memchr(b'=', text).ok_or(RequestRecordFault::NotAVariable)?;
    Ok((text[..equals].to_vec(), text[equals + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        let mut variables = Variables::default();
        for (name, value) in pairs {
            variables.set(name, value.as_bytes());
        }
        variables
    }

    fn encoded(variables: &Variables, encoding: RequestEncoding) -> Vec<u8> {
        let mut out = Vec::new();
        encode_request(variables, encoding, &mut out);
        out
    }

    #[test]
    fn record_mode_is_lines() {
        let variables = variables(&[("A", "1"), ("B", "")]);
        assert_eq!(encoded(&variables, RequestEncoding::Record), b"!\nA=1\nB=\n\n");
        assert_eq!(encoded(&Variables::default(), RequestEncoding::Record), b"!\n\n");
    }

    #[test]
    fn struct_mode_is_a_block_with_its_length() {
        let variables = variables(&[("A", "1"), ("BB", "")]);
        assert_eq!(
            encoded(&variables, RequestEncoding::Struct),
            b"!!14\n\x04\x00A=1\0\x04\x00BB=\0\0\0"
        );
        assert_eq!(encoded(&Variables::default(), RequestEncoding::Struct), b"!!2\n\0\0");
    }

    #[test]
    fn unread_answers_before_a_request_are_skipped() {
        let request = decode_request(b"200 OK\n\n400 x\n!\nA=1\n\nmore").unwrap().unwrap();
        assert_eq!(request.variables, [(b"A".to_vec(), b"1".to_vec())]);
        assert_eq!(request.consumed, 21);
    }

    #[test]
    fn a_malformed_record_is_a_fault() {
        assert_eq!(decode_request(b"!!x\n"), Err(RequestRecordFault::BadCount));
        assert_eq!(decode_request(b"!!\n"), Err(RequestRecordFault::BadCount));
        assert_eq!(decode_request(b"!!1\n\0"), Err(RequestRecordFault::BadCount));
        assert_eq!(decode_request(b"!!99999999999\n\0"), Err(RequestRecordFault::BadCount));
        assert_eq!(decode_request(b"!!4\n\0\0\0\0"), Err(RequestRecordFault::BadLength));
        assert_eq!(decode_request(b"!!6\n\x09\0A=1\0"), Err(RequestRecordFault::BadLength));
        assert_eq!(decode_request(b"!!6\n\x04\0A=1\0"), Err(RequestRecordFault::BadLength));
        assert_eq!(
            decode_request(b"!!8\n\x04\0A=12\0\0"),
            Err(RequestRecordFault::BadLength)
        );
        assert_eq!(decode_request(b"!\nA\n\n"), Err(RequestRecordFault::NotAVariable));
    }

    /// The block, each entry encoded by itself.
    fn block_of(variables: &Variables) -> Vec<u8> {
        let mut entries = Vec::new();
        for (name, value) in variables.iter() {
            let text = [name, b"=", value, b"\0"].concat();
            entries.extend_from_slice(&u16::try_from(text.len()).unwrap().to_le_bytes());
            entries.extend_from_slice(&text);
        }
        entries.extend_from_slice(&[0, 0]);
        [format!("!!{}\n", entries.len()).into_bytes(), entries].concat()
    }

    proptest! {
        #[test]
        fn the_stored_variables_are_those_of_a_block(
            pairs in prop::collection::vec(("[A-D]{1,2}", prop::collection::vec(0..12_u8, 0..300)), 0..30),
            region in any::<Option<(u64, u64)>>(),
        ) {
            let mut variables = Variables::default();
            for (name, value) in &pairs {
                // Replaces variables of the same name, and drops those with a NUL or a newline.
                variables.set(name, value);
            }
            let mut expected = variables.clone();
            if let Some((offset, bytes)) = region {
                variables.add_region(offset, bytes);
                expected.set("WWW_GATEWAY_REGION", format!("{offset} {bytes}").as_bytes());
            }
            prop_assert_eq!(encoded(&variables, RequestEncoding::Struct), block_of(&expected));
            let copy = variables.with_values(|_, _| None);
            prop_assert_eq!(encoded(&copy, RequestEncoding::Struct), block_of(&expected));
        }

        #[test]
        fn decoding_reverses_encoding(
            pairs in prop::collection::btree_map("[A-Z_]{1,8}", "[^\\x00\\n]{0,20}", 0..8),
            is_struct in any::<bool>(),
            rest in "[ -~]{0,5}",
        ) {
            let encoding = if is_struct { RequestEncoding::Struct } else { RequestEncoding::Record };
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let mut bytes = encoded(&variables(&pairs), encoding);
            let length = bytes.len();
            for cut in 0..length {
                prop_assert_eq!(decode_request(&bytes[..cut]), Ok(None));
            }
            bytes.extend_from_slice(rest.as_bytes());
            let request = decode_request(&bytes).unwrap().unwrap();
            let expected: Vec<(Vec<u8>, Vec<u8>)> =
                pairs.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
            prop_assert_eq!(request.variables, expected);
            prop_assert_eq!(request.consumed, length);
        }

        #[test]
        fn any_input_is_decoded_without_panic(
            start in prop::sample::select(vec![&b""[..], b"!\n", b"!!9\n", b"!!20\n"]),
            rest in prop::collection::vec(prop::sample::select(b"!=A\n\0\x01\x029".to_vec()), 0..40),
        ) {
            let input = [start, &rest].concat();
            if let Ok(Some(request)) = decode_request(&input) {
                prop_assert!(request.consumed <= input.len());
            }
        }
    }
}
