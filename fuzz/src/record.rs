//! The request record of CGIplus: variables of a request in, the record that tells a script of them out, and back.
//!
//! Properties: what is encoded is decoded, in both encodings; no value of a variable, whatever a client has put there, can end
//! the record or begin another variable; a record that is incomplete is neither accepted nor refused, and what follows a record
//! changes nothing.

use sluice_gateway::{RequestEncoding, Variables, encode_request};

/// Input: a record, possibly malformed, for `decode`; the same bytes, as `NAME=value` texts with `;` between, for `encode`.
pub fn check(bytes: &[u8]) {
    check_decode(bytes);
    for encoding in [RequestEncoding::Record, RequestEncoding::Struct] {
        check_round_trip(bytes, encoding);
    }
}

fn check_decode(bytes: &[u8]) {
    let decoded = decode_request(bytes);
    let more = [bytes, b"!\nA=1\n\n"].concat();
    match &decoded {
        Ok(Some(request)) => {
            assert!(request.consumed <= bytes.len());
            let texts: usize = request
                .variables
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            assert!(texts <= request.consumed, "no byte is invented");
            assert_eq!(
                decode_request(&bytes[..request.consumed]),
                decoded,
                "what follows changes nothing"
            );
            for length in [0, request.consumed / 2, request.consumed - 1] {
                assert_eq!(
                    decode_request(&bytes[..length]),
                    Ok(None),
                    "the first {length} bytes are incomplete"
                );
            }
        }
        Err(_) => assert_eq!(decode_request(&more), decoded, "what follows changes nothing"),
        Ok(None) => {}
    }
}

fn check_round_trip(bytes: &[u8], encoding: RequestEncoding) {
    let mut variables = Variables::default();
    for text in bytes.split(|byte| *byte == b';') {
        let equals = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
        let name = String::from_utf8_lossy(&text[..equals]);
        variables.set(&name, text.get(equals + 1..).unwrap_or_default());
    }
    let mut record = Vec::new();
    encode_request(&variables, encoding, &mut record);
    let expected = RequestRecord {
        variables: pairs(&variables),
        consumed: record.len(),
    };
    assert_eq!(decode_request(&record), Ok(Some(expected.clone())));
    assert_eq!(decode_request(&record[..record.len() - 1]), Ok(None));
    // The next record follows at once.
    record.extend_from_within(..);
    assert_eq!(decode_request(&record), Ok(Some(expected)));
}

fn pairs(variables: &Variables) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    for (name, value) in &pairs {
        assert!(!name.is_empty() && !name.contains(&b'='));
        assert!(
            ![name, value]
                .iter()
                .any(|text| text.contains(&0) || text.contains(&b'\n'))
        );
        assert_eq!(pairs.iter().filter(|(other, _)| other == name).count(), 1);
    }
    pairs
}

/// Bytes in the largest struct block that is accepted.
const BLOCK_BYTES_MAX: usize = 16 << 20;

/// A decoded request record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestRecord {
    /// Names and values, in the order in which they came.
    pub(crate) variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes of the input that were consumed, lines skipped before the record included.
    pub(crate) consumed: usize,
}

/// Why a request record cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRecordFault {
    /// `!!` is not followed by a number from 2 to 16 MiB.
    BadCount,
    /// The lengths in a struct block are inconsistent.
    BadLength,
    /// A variable has no `=`.
    NotAVariable,
}

/// Decodes the first request record in `input`; `None` if it is incomplete.
///
/// Lines before a start record are skipped: they are answers to callouts that the script did not read.
///
/// # Errors
/// The record is malformed.
pub(crate) fn decode_request(input: &[u8]) -> Result<Option<RequestRecord>, RequestRecordFault> {
    let mut position = 0;
    while let Some(length) = input[position..].iter().position(|byte| *byte == b'\n') {
        let line = &input[position..position + length];
        position += length + 1;
        let request = match line {
            b"!" => decode_lines(&input[position..])?,
            [b'!', b'!', count @ ..] => decode_block(&input[position..], count)?,
            _ => continue,
        };
        return Ok(request.map(|request| RequestRecord { consumed: position + request.consumed, ..request }));
    }
    Ok(None)
}

fn decode_lines(input: &[u8]) -> Result<Option<RequestRecord>, RequestRecordFault> {
    let mut variables = Vec::new();
    let mut position = 0;
    while let Some(length) = input[position..].iter().position(|byte| *byte == b'\n') {
        let line = &input[position..position + length];
        position += length + 1;
        if line.is_empty() {
            return Ok(Some(RequestRecord { variables, consumed: position }));
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
                return Ok(Some(RequestRecord { variables, consumed: count }));
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
    let equals = text
        .iter()
        .position(|byte| *byte == b'=')
        .ok_or(RequestRecordFault::NotAVariable)?;
    Ok((text[..equals].to_vec(), text[equals + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    proptest! {
        #[test]
        fn any_bytes_and_any_variables_hold_the_properties(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            texts in "([A-Z_]{1,8}=[^\\x00\\n;]{0,20};){0,8}",
            count in 0..99_u32,
        ) {
            check(&bytes);
            check(texts.as_bytes());
            check(format!("!!{count}\n{texts}").as_bytes());
            check(format!("!\n{}\n", texts.replace(';', "\n")).as_bytes());
        }
    }
}
