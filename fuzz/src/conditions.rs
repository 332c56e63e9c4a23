//! Conditions: the fields If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since and If-Range in, the evaluation out.
//!
//! Properties: a file's own validators, sent back, mean what RFC 9110 §13 says; an entity tag that does not occur in a field is
//! not found there; dates do not matter where tags are given; a weak tag never allows a part to be sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_http::conditions::{Evaluation, Validators, evaluate, is_same_version, names};

use crate::input::Input;

/// Input: the file's length, its time of change and the present time in milliseconds (8 bytes each, little-endian), then a line
/// for each field: one character that says which, the value.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let length = input.long();
    let modified = time(input.long());
    let now = time(input.long());
    let mut strong = Validators::new(length, modified, now);
    let mut fields = HeaderMap::new();
    while !input.is_empty() {
        if let Some((name, value)) = input.line().split_first()
            && let Ok(value) = HeaderValue::from_bytes(value.trim_ascii())
        {
            fields.append(name_of(*name), value);
        }
    }
    for _ in 0..2 {
        check_own(&strong);
        check_fields(&fields, &strong);
        strong.weaken();
    }
    assert!(strong.etag.as_bytes().starts_with(b"W/\""));
}

/// From 1935 to 6394: httpdate panics from the year 10000 on, which only a wrong clock of the machine could reach, because a
/// time of change is not shown if it is later than the present.
fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis % (1 << 47)) - Duration::from_millis(1 << 40)
}

fn name_of(letter: u8) -> HeaderName {
    match letter {
        b'm' => IF_MATCH,
        b'n' => IF_NONE_MATCH,
        b's' => IF_MODIFIED_SINCE,
        b'u' => IF_UNMODIFIED_SINCE,
        b'r' => IF_RANGE,
        _ => RANGE,
    }
}

fn with(name: HeaderName, value: &HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(name, value.clone())])
}

/// The file's own validators, sent back one by one.
fn check_own(file: &Validators) {
    let is_strong = !file.etag.as_bytes().starts_with(b"W/");
    let etag = &file.etag;
    assert_eq!(evaluate(&with(IF_NONE_MATCH, etag), file), Evaluation::NotModified);
    assert!(names(&with(IF_NONE_MATCH, etag), file));
    let matched = if is_strong {
        Evaluation::Perform
    } else {
        Evaluation::Failed
    };
    assert_eq!(evaluate(&with(IF_MATCH, etag), file), matched);
    assert_eq!(is_same_version(&with(IF_RANGE, etag), file), is_strong);
    let date = &file.last_modified;
    assert_eq!(evaluate(&with(IF_MODIFIED_SINCE, date), file), Evaluation::NotModified);
    assert_eq!(evaluate(&with(IF_UNMODIFIED_SINCE, date), file), Evaluation::Perform);
    assert_eq!(is_same_version(&with(IF_RANGE, date), file), is_strong);
    assert_eq!(evaluate(&HeaderMap::new(), file), Evaluation::Perform);
    assert!(is_same_version(&HeaderMap::new(), file));
}

fn check_fields(fields: &HeaderMap, file: &Validators) {
    let evaluation = evaluate(fields, file);
    // Which of the fields decides (§13.2.2).
    for (tags, date) in [(IF_MATCH, IF_UNMODIFIED_SINCE), (IF_NONE_MATCH, IF_MODIFIED_SINCE)] {
        if fields.contains_key(tags) {
            let mut without = fields.clone();
            without.remove(date);
            assert_eq!(evaluate(&without, file), evaluation);
        }
    }
    let is_weak = file.etag.as_bytes().starts_with(b"W/");
    let opaque = file.etag.as_bytes().strip_prefix(b"W/").unwrap_or(file.etag.as_bytes());
    let has_own = |name: &HeaderName| {
        fields
            .get_all(name)
            .iter()
            .any(|value| value == "*" || value.as_bytes().windows(opaque.len()).any(|text| text == opaque))
    };
    if names(fields, file) {
        assert!(has_own(&IF_NONE_MATCH) && evaluation != Evaluation::Perform);
    }
    if fields.contains_key(IF_MATCH) && !has_own(&IF_MATCH) {
        assert_eq!(evaluation, Evaluation::Failed);
    }
    if fields.contains_key(IF_NONE_MATCH) && !has_own(&IF_NONE_MATCH) {
        assert_ne!(evaluation, Evaluation::NotModified);
    }
    if fields.get_all(IF_NONE_MATCH).iter().any(|value| value == "*") {
        assert_ne!(evaluation, Evaluation::Perform);
    }
    if fields.contains_key(IF_RANGE) && (is_weak || fields.get_all(IF_RANGE).iter().count() > 1) {
        assert!(!is_same_version(fields, file));
    }
}
