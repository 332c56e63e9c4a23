//! The request record: the message on CGIPLUSIN that hands a request to a persistent script process (WASD CGIplus).
//!
//! ```text
//! record mode   !            LF      struct mode   !!<n>  LF
//!               NAME=value   LF                    n bytes: { length: 16 bits, little-endian, counts text and NUL;
//!               …                                             NAME=value; NUL } …; a length of 0
//!               (empty line) LF
//! ```

use crate::variables::{LENGTH_BYTES, Variables, push_number};

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

    }
}
