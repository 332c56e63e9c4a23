//! The request record of CGIplus: variables of a request in, the record that tells a script of them out, and back.
//!
//! Properties: what is encoded is decoded, in both encodings; no value of a variable, whatever a client has put there, can end
//! the record or begin another variable; a record that is incomplete is neither accepted nor refused, and what follows a record
//! changes nothing.

use sluice_gateway::{RequestEncoding, RequestRecord, Variables, decode_request, encode_request};

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
