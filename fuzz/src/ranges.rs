//! Ranges: the field Range and the length of a file in, the parts to send out.
//!
//! Properties: no part is empty, lies outside the file, overlaps or touches another, so that never more bytes are sent than the
//! file has; together the parts are exactly what a second reading of the field asks for; a part asked for by its own
//! Content-Range is that part.

use std::ops::Range;

use http::{HeaderMap, HeaderValue, header};
use sluice_http::ranges::{Selection, content_range, select};

use crate::input::Input;

/// The bounds that the module documents: over them the whole file is sent.
const PARTS_MAX: usize = 16;
const SPECS_MAX: usize = 256;

/// Input: a line with the file's length, then a line for each field Range.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let length = String::from_utf8_lossy(input.line()).trim().parse().unwrap_or(1000);
    let mut fields = HeaderMap::new();
    while !input.is_empty() {
        if let Ok(value) = HeaderValue::from_bytes(input.line()) {
            fields.append(header::RANGE, value);
        }
    }
    let selection = select(&fields, length);
    let parts = match &selection {
        Selection::Whole | Selection::Nothing => Vec::new(),
        Selection::Part(part) => vec![part.clone()],
        Selection::Parts(parts) => {
            assert!((2..=PARTS_MAX).contains(&parts.len()));
            parts.clone()
        }
    };
    check_parts(&parts, length);
    let wanted = sole(&fields).and_then(|value| wanted(value, length));
    match (&selection, wanted) {
        (Selection::Whole, None) => {}
        (Selection::Whole, Some(wanted)) => {
            let empty_file = length == 0 && wanted.len() == 1;
            assert!(empty_file || wanted.len() > PARTS_MAX, "{wanted:?} of {length} bytes");
        }
        (Selection::Nothing, Some(wanted)) => assert_eq!(wanted, [], "of {length} bytes"),
        (_, Some(wanted)) => {
            let mut sorted = parts;
            sorted.sort_unstable_by_key(|part| part.start);
            assert_eq!(sorted, wanted, "of {length} bytes");
        }
        (selection, None) => panic!("{selection:?} for a field that is to be ignored"),
    }
}

fn check_parts(parts: &[Range<u64>], length: u64) {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable_by_key(|part| part.start);
    assert!(sorted.iter().all(|part| part.start < part.end && part.end <= length));
    assert!(sorted.windows(2).all(|pair| pair[0].end < pair[1].start));
    for part in parts {
        let value = content_range(part, length);
        let text = value.to_str().expect("digits");
        let range = text
            .strip_prefix("bytes ")
            .and_then(|text| text.strip_suffix(&format!("/{length}")));
        let asked = format!("bytes={}", range.expect("a range and the length"));
        let fields = HeaderMap::from_iter([(header::RANGE, HeaderValue::try_from(asked).expect("digits"))]);
        assert_eq!(select(&fields, length), Selection::Part(part.clone()));
    }
}

fn sole(fields: &HeaderMap) -> Option<&str> {
    let mut values = fields.get_all(header::RANGE).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}

/// The ranges that a value asks for, in the order of the file, overlapping and touching ranges joined; `None` if it is to be ignored.
fn wanted(value: &str, length: u64) -> Option<Vec<Range<u64>>> {
    let (unit, set) = value.split_once('=')?;
    let specs: Vec<&str> = set
        .split(',')
        .map(blank_trimmed)
        .filter(|spec| !spec.is_empty())
        .collect();
    if !unit.eq_ignore_ascii_case("bytes") || specs.is_empty() || specs.len() > SPECS_MAX {
        return None;
    }
    let mut wanted = Vec::new();
    for spec in specs {
        wanted.extend(within(spec, u128::from(length))?);
    }
    wanted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in wanted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    Some(joined)
}

/// The bytes that one range names in a file; `Some(None)` if there are none, `None` if it is no range.
#[expect(clippy::option_option, reason = "three cases, each named above")]
fn within(spec: &str, length: u128) -> Option<Option<Range<u64>>> {
    let (first, last) = spec.split_once('-')?;
    let (start, end) = match (first, last) {
        ("", last) => {
            let bytes = number(last)?;
            if bytes == 0 {
                return Some(None);
            }
            // The end of an empty file is there (RFC 9110 §14.1.2).
            (length.saturating_sub(bytes), length)
        }
        (first, "") => (number(first)?, length),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            (first, (last + 1).min(length))
        }
    };
    let is_suffix = first.is_empty();
    if start >= length && !is_suffix {
        return Some(None);
    }
    let bound = |at: u128| u64::try_from(at).expect("within the file");
    Some(Some(bound(start)..bound(end)))
}

/// Digits, of any number; what does not fit into 64 bits is beyond the end of any file.
fn number(digits: &str) -> Option<u128> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    let number = match significant.len() {
        0 => 0,
        1..=20 => significant.parse().expect("20 digits fit into 128 bits"),
        _ => u128::from(u64::MAX),
    };
    Some(number.min(u64::MAX.into()))
}

fn blank_trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}
