//! Ranges: which parts of a file a request asks for (RFC 9110 §14.1, §14.2).

use std::ops::Range;

use http::{HeaderMap, HeaderValue, header};

/// Most parts of a response, each of which costs some hundred bytes. For more, the whole file is sent.
const PARTS_MAX: usize = 16;

/// Most ranges in a field, before overlapping ones are merged. A field with more is ignored.
const SPECS_MAX: usize = 256;

/// The part of a file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole file, as without a range: 200.
    Whole,
    /// One range: 206.
    Part(Range<u64>),
    /// Several ranges: 206 with a multipart body. Two or more, in the order of the request, none empty or touching another.
    Parts(Vec<Range<u64>>),
    /// No range is satisfiable: 416.
    Nothing,
}

/// Evaluates the field Range for a file of `length` bytes.
///
/// A server may ignore the field (RFC 9110 §14.2). This one does for another unit than bytes, an invalid range, two fields, or too many ranges, because
/// the whole file is a correct response to any request and an error is not. Ranges that overlap or touch are merged (§15.3.7.2), so no byte is sent
/// twice and a response is never larger than the file plus the heads of its parts.
pub fn select(fields: &HeaderMap, length: u64) -> Selection {
    let mut values = fields.get_all(header::RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Selection::Whole;
    };
    let Some(specs) = value.to_str().ok().and_then(parse) else {
        return Selection::Whole;
    };
    let satisfiable = specs.iter().filter_map(|spec| spec.within(length));
    match merge(satisfiable).as_slice() {
        [] => Selection::Nothing,
        // A suffix of an empty file is satisfiable, but Content-Range cannot express it (§14.4).
        [part] if part.is_empty() => Selection::Whole,
        [part] => Selection::Part(part.clone()),
        parts if parts.len() > PARTS_MAX => Selection::Whole,
        parts => Selection::Parts(parts.to_vec()),
    }
}

/// The value of Content-Range for a part, which must not be empty; `length` is that of the whole file (RFC 9110 §14.4).
pub fn content_range(part: &Range<u64>, length: u64) -> HeaderValue {
    let last = part.end.saturating_sub(1);
    let text = format!("bytes {}-{last}/{length}", part.start);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("bytes"))
}

/// A range of the field (RFC 9110 §14.1.2).
#[derive(Clone, Copy)]
enum Spec {
    /// From a first byte to a last byte, or to the end.
    From { first: u64, last: Option<u64> },
    /// This many bytes at the end.
    Last(u64),
}

impl Spec {
    fn parse(text: &str) -> Option<Spec> {
        match text.split_once('-')? {
            ("", bytes) => number(bytes).map(Spec::Last),
            (first, "") => Some(Spec::From { first: number(first)?, last: None }),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Spec::From { first, last: Some(last) })
            }
        }
    }

    /// The range within a file of this length; `None` if it is not satisfiable.
    fn within(self, length: u64) -> Option<Range<u64>> {
        match self {
            Spec::From { first, last } => {
                let end = last.map_or(length, |last| last.saturating_add(1).min(length));
                (first < length).then_some(first..end)
            }
            Spec::Last(0) => None,
            Spec::Last(bytes) => Some(length.saturating_sub(bytes)..length),
        }
    }
}

/// The ranges of a field's value, at least one; `None` if the field is to be ignored.
fn parse(value: &str) -> Option<Vec<Spec>> {
    let (unit, set) = value.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    // Empty list elements are ignored (§5.6.1.2).
    let elements = set.split(',').map(|element| element.trim_matches([' ', '\t']));
    let mut specs = Vec::new();
    for element in elements.filter(|element| !element.is_empty()) {
        if specs.len() == SPECS_MAX {
            return None;
        }
        specs.push(Spec::parse(element)?);
    }
    (!specs.is_empty()).then_some(specs)
}

/// A number of any length. One that is too large saturates, because it is beyond the end of any file.
fn number(digits: &str) -> Option<u64> {
    let add = |number: u64, digit: u8| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(value))
    };
    digits.bytes().try_fold(0, add).filter(|_| !digits.is_empty())
}

/// Merges ranges that overlap or touch, at the place of the first of them (§15.3.7.2).
fn merge(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut numbered: Vec<_> = ranges.enumerate().collect();
    numbered.sort_unstable_by_key(|(number, range)| (range.start, *number));
    let mut merged: Vec<(usize, Range<u64>)> = Vec::new();
    for (number, range) in numbered {
        match merged.last_mut() {
            Some((first, before)) if range.start <= before.end => {
                before.end = before.end.max(range.end);
                *first = number.min(*first);
            }
            _ => merged.push((number, range)),
        }
    }
    merged.sort_unstable_by_key(|(number, _)| *number);
    merged.into_iter().map(|(_, range)| range).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selected(value: &str, length: u64) -> Selection {
        let value = HeaderValue::from_str(value).unwrap();
        select(&HeaderMap::from_iter([(header::RANGE, value)]), length)
    }

    #[test]
    fn one_range_is_one_part() {
        for (value, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-9", 0..10),
            ("bytes=3-", 3..10),
            ("bytes=9-9", 9..10),
            ("bytes=3-3000", 3..10),
            ("bytes=-1", 9..10),
            ("bytes=-10", 0..10),
            ("bytes=-3000", 0..10),
            ("Bytes=2-3", 2..4),
            ("bytes= 2-3 ", 2..4),
            ("bytes=,,2-3,\t,", 2..4),
            ("bytes=002-0003", 2..4),
            ("bytes=2-99999999999999999999999999", 2..10),
            // 2^64 + 7.
            ("bytes=2-18446744073709551623", 2..10),
            ("bytes=-99999999999999999999999999", 0..10),
        ] {
            assert_eq!(selected(value, 10), Selection::Part(part), "{value}");
        }
    }

    #[test]
    fn an_invalid_field_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a",
            "bytes=1",
            "bytes=3-2",
            "bytes=0-1,3-2",
            "bytes=0-1;3-4",
            "bytes=0 - 1",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=--1",
            "bytes=1-2-3",
            "bytes=0x1-2",
            "bytes =0-1",
            "bytes:0-1",
            "0-1",
            "lines=0-1",
            "bytes=0-1,bytes=2-3",
        ] {
            assert_eq!(selected(value, 10), Selection::Whole, "{value}");
        }
        let mut twice = HeaderMap::new();
        twice.append(header::RANGE, HeaderValue::from_static("bytes=0-1"));
        twice.append(header::RANGE, HeaderValue::from_static("bytes=0-1"));
        assert_eq!(select(&twice, 10), Selection::Whole);
        assert_eq!(select(&HeaderMap::new(), 10), Selection::Whole);
        let binary = HeaderValue::from_bytes(b"bytes=0-1\xff").unwrap();
        assert_eq!(
            select(&HeaderMap::from_iter([(header::RANGE, binary)]), 10),
            Selection::Whole
        );
    }

    #[test]
    fn ranges_beyond_the_end_are_not_satisfiable() {
        for value in [
            "bytes=10-",
            "bytes=10-11",
            "bytes=-0",
            "bytes=99999999999999999999999999-",
            "bytes=11-,-0",
        ] {
            assert_eq!(selected(value, 10), Selection::Nothing, "{value}");
        }
        assert_eq!(
            selected("bytes=10-,2-3,-0", 10),
            Selection::Part(2..4),
            "one satisfiable range is enough"
        );
        assert_eq!(selected("bytes=0-", 0), Selection::Nothing);
        assert_eq!(selected("bytes=-5", 0), Selection::Whole);
    }

    #[test]
    fn parts_are_merged_and_keep_the_order_of_the_request() {
        for (value, parts) in [
            ("bytes=0-1,4-5", vec![0..2, 4..6]),
            ("bytes=8-,0-1,4-5", vec![8..10, 0..2, 4..6]),
            ("bytes=-1,0-0", vec![9..10, 0..1]),
            ("bytes=8-9,0-1,3-6,2-4", vec![8..10, 0..7]),
            ("bytes=0-0,2-2,4-4,100-", vec![0..1, 2..3, 4..5]),
        ] {
            assert_eq!(selected(value, 10), Selection::Parts(parts), "{value}");
        }
        assert_eq!(selected("bytes=5-9,0-4", 10), Selection::Part(0..10), "they touch");
        assert_eq!(selected("bytes=0-,1-,2-,3-", 10), Selection::Part(0..10));
        assert_eq!(selected("bytes=2-7,3-4,4-4,2-2", 10), Selection::Part(2..8));
    }

    #[test]
    fn for_too_many_parts_or_ranges_the_whole_file_is_sent() {
        let apart = |count: u64| {
            let ranges: Vec<_> = (0..count).map(|at| format!("{0}-{0}", at * 2)).collect();
            selected(&format!("bytes={}", ranges.join(",")), 1_000_000)
        };
        assert!(matches!(apart(16), Selection::Parts(parts) if parts.len() == 16));
        assert_eq!(apart(17), Selection::Whole);
        assert_eq!(apart(1000), Selection::Whole);
        let overlapping = |count: usize| selected(&format!("bytes={}", vec!["0-5"; count].join(",")), 10);
        assert_eq!(overlapping(256), Selection::Part(0..6));
        assert_eq!(overlapping(257), Selection::Whole);
    }

    #[test]
    fn content_range_names_first_and_last_byte() {
        assert_eq!(content_range(&(0..1), 10), "bytes 0-0/10");
        assert_eq!(content_range(&(500..1000), 1234), "bytes 500-999/1234");
    }

    /// A range, and a naive test whether it names a byte.
    #[derive(Clone, Debug)]
    enum Asked {
        Between(u64, u64),
        From(u64),
        Last(u64),
    }

    impl Asked {
        fn text(&self) -> String {
            match self {
                Asked::Between(first, last) => format!("{first}-{last}"),
                Asked::From(first) => format!("{first}-"),
                Asked::Last(bytes) => format!("-{bytes}"),
            }
        }

        fn names(&self, at: u64, length: u64) -> bool {
            match self {
                Asked::Between(first, last) => *first <= at && at <= *last,
                Asked::From(first) => *first <= at,
                Asked::Last(bytes) => length - at <= *bytes,
            }
        }
    }

    fn asked() -> impl Strategy<Value = Asked> {
        prop_oneof![
            8 => (0..70_u64, 0..5_u64).prop_map(|(first, more)| Asked::Between(first, first + more)),
            1 => (0..70_u64).prop_map(Asked::From),
            1 => (0..70_u64).prop_map(Asked::Last),
        ]
    }

    proptest! {
        #[test]
        fn exactly_the_requested_bytes_are_sent_and_once(
            asked in prop::collection::vec(asked(), 1..40),
            length in 1..60_u64,
        ) {
            let texts: Vec<_> = asked.iter().map(Asked::text).collect();
            let is_asked = |at: u64| asked.iter().any(|asked| asked.names(at, length));
            let parts = match selected(&format!("bytes={}", texts.join(", ")), length) {
                Selection::Nothing => Vec::new(),
                Selection::Part(part) => vec![part],
                Selection::Parts(parts) => parts,
                Selection::Whole => {
                    let begins = |at: &u64| is_asked(*at) && (*at == 0 || !is_asked(at - 1));
                    prop_assert!((0..length).filter(begins).count() > PARTS_MAX);
                    return Ok(());
                }
            };
            prop_assert!(parts.len() <= PARTS_MAX);
            for at in 0..length {
                let holders = parts.iter().filter(|part| part.contains(&at)).count();
                prop_assert_eq!(holders, usize::from(is_asked(at)), "byte {}", at);
            }
            for part in &parts {
                prop_assert!(part.start < part.end && part.end <= length, "{:?}", part);
                prop_assert!(parts.iter().all(|other| other.end != part.start), "{:?} touch", parts);
            }
            // The position of the first range that names any byte of a part.
            let position = |part: &Range<u64>| asked.iter().position(|asked| part.clone().any(|at| asked.names(at, length)));
            prop_assert!(parts.is_sorted_by_key(position), "{:?}", parts);
        }

        #[test]
        fn no_value_panics_or_leaves_the_file(set in "[0-9, \t-]{0,40}", length in any::<u64>()) {
            let inside = |part: &Range<u64>| part.start < part.end && part.end <= length;
            match selected(&format!("bytes={set}"), length) {
                Selection::Part(part) => prop_assert!(inside(&part)),
                Selection::Parts(parts) => prop_assert!(parts.iter().all(inside)),
                Selection::Whole | Selection::Nothing => {}
            }
        }
    }
}
