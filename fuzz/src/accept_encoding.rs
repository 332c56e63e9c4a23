//! The field Accept-Encoding: which content codings a client takes, in its order of preference.
//!
//! Properties: the order is that of a second, simpler reading of the field; nothing is chosen that the client refuses or does not
//! name; case, and how a list is spread over fields, change nothing.

use http::{HeaderMap, HeaderValue, header};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::accept::Accepted;

use crate::input::Input;

/// All lines of the field together, beyond which nothing is read.
const LIST_BYTES_MAX: usize = 4096;

/// Input: a line for each field Accept-Encoding.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut fields = HeaderMap::new();
    let mut lines = Vec::new();
    while !input.is_empty() {
        let line = input.line();
        if let Ok(value) = HeaderValue::from_bytes(line) {
            fields.append(header::ACCEPT_ENCODING, value);
            lines.push(str::from_utf8(line).unwrap_or_default());
        }
    }
    let accepted = Accepted::read(&fields);
    let ranked: Vec<(Encoding, u16)> = accepted.rank(&Encoding::ALL).into_iter().flatten().collect();
    assert!(ranked.is_sorted_by(|one, other| one.1 >= other.1));
    assert!(ranked.iter().all(|(_, weight)| (1..=1000).contains(weight)));
    for encoding in Encoding::ALL {
        let alone = accepted.rank(&[encoding]).into_iter().flatten().next();
        let in_all = ranked.iter().find(|(other, _)| *other == encoding).copied();
        assert_eq!(alone, in_all, "what else is offered changes nothing");
    }
    let list = lines.join(",");
    // The bytes of a line that is not text count, too.
    if bytes.len() < LIST_BYTES_MAX {
        check_against_reference(&list, &ranked);
        let loud = list.to_ascii_uppercase();
        let entries: Vec<&str> = list.split(',').collect();
        for variant in [vec![&list[..]], vec![&loud], entries] {
            let value = |line: &&str| HeaderValue::from_bytes(line.as_bytes()).expect("a part of a value is one");
            let fields: HeaderMap = variant
                .iter()
                .map(|line| (header::ACCEPT_ENCODING, value(line)))
                .collect();
            assert_eq!(Accepted::read(&fields), accepted, "{variant:?}");
        }
    }
}

/// Each coding has the weight of the first entry that names it and has a valid weight, or else that of `*`.
fn check_against_reference(list: &str, ranked: &[(Encoding, u16)]) {
    let weight_of = |names: &[&str]| {
        list.split(',').find_map(|entry| {
            let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
            let is_named = names.iter().any(|other| name.trim().eq_ignore_ascii_case(other));
            is_named.then(|| weight(parameters)).flatten()
        })
    };
    let others = weight_of(&["*"]);
    let least = weight_of(&["identity"]).or(others).unwrap_or(0);
    for encoding in Encoding::ALL {
        let names: &[&str] = match encoding {
            Encoding::Brotli => &["br"],
            Encoding::Zstd => &["zstd"],
            Encoding::Gzip => &["gzip", "x-gzip"],
        };
        let expected = weight_of(names)
            .or(others)
            .filter(|weight| *weight > 0 && *weight >= least);
        let found = ranked
            .iter()
            .find(|(other, _)| *other == encoding)
            .map(|(_, weight)| *weight);
        assert_eq!(found, expected, "{encoding} in {list:?}");
    }
}

/// `q=0.5` in thousandths; 1000 without one, `None` if it is malformed (RFC 9110 §12.4.2).
fn weight(parameters: &str) -> Option<u16> {
    let mut weights = parameters.split(';').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value.trim())
    });
    let Some(text) = weights.next() else {
        return Some(1000);
    };
    let is_valid = match text.as_bytes() {
        [b'0' | b'1'] | [b'0' | b'1', b'.'] => true,
        [b'0', b'.', digits @ ..] => digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit),
        [b'1', b'.', zeros @ ..] => zeros.len() <= 3 && zeros.iter().all(|zero| *zero == b'0'),
        _ => false,
    };
    let digits: String = text.chars().filter(|digit| *digit != '.').collect();
    let thousandths = format!("{digits:0<4}").parse().ok();
    is_valid.then_some(thousandths).flatten()
}
