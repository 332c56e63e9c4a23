//! Conditional requests: whether a request is performed for this version of a file (RFC 9110 §13).
//!
//! GET and HEAD honour all five fields; OPTIONS honours none (§13.2.1).

use std::iter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// A file that was modified less than this ago may change again at the same time: the clock of file systems is coarse.
const MTIME_RELIABLE_AFTER: Duration = Duration::from_secs(1);

/// Whether the next change of a file will change its time: it was `modified` before, and long enough ago.
pub fn has_reliable_mtime(modified: SystemTime, now: SystemTime) -> bool {
    now.duration_since(modified)
        .is_ok_and(|age| age >= MTIME_RELIABLE_AFTER)
}

/// The validators of one version of a file (RFC 9110 §8.8).
#[derive(Clone)]
pub struct Validators {
    /// The field ETag.
    pub etag: HeaderValue,
    /// The field Last-Modified.
    pub last_modified: HeaderValue,
    /// Last-Modified, in seconds since 1970.
    modified: u64,
    /// No other version has the same validators, so parts of two versions cannot be mistaken for parts of one.
    is_strong: bool,
}

/// The result of evaluating the conditions of a request (RFC 9110 §13.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// The conditions hold, or there are none.
    Perform,
    /// The client has this version: 304.
    NotModified,
    /// The client wants another version: 412.
    Failed,
}

impl Validators {
    /// The validators of a file of `bytes` bytes, last `modified` then, as read `now`.
    pub fn new(bytes: u64, modified: SystemTime, now: SystemTime) -> Validators {
        let is_strong = has_reliable_mtime(modified, now);
        let (sign, distance) = match modified.duration_since(UNIX_EPOCH) {
            Ok(after) => ("", after),
            Err(before) => ("-", before.duration()),
        };
        // Size, and time in nanoseconds, change with the content if the time is reliable (§8.8.1).
        let weak = if is_strong { "" } else { "W/" };
        let etag = format!("{weak}\"{bytes:x}-{sign}{:x}\"", distance.as_nanos());
        // Not later than the response itself (§8.8.2.1), and not before 1970, which httpdate cannot write.
        let shown = modified.min(now).max(UNIX_EPOCH);
        let value = |text: String| HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Validators {
            etag: value(etag),
            last_modified: value(httpdate::fmt_http_date(shown)),
            modified: whole_seconds(shown),
            is_strong,
        }
    }

    /// Makes the tag weak: it stands for bytes that may differ but mean the same (§8.8.1).
    pub fn weaken(&mut self) {
        if self.is_strong {
            self.is_strong = false;
            let tag = [b"W/", self.etag.as_bytes()].concat();
            self.etag = HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("W/\"\""));
        }
    }

    /// The tag with its quotes, without `W/`.
    fn opaque_tag(&self) -> &[u8] {
        let tag = self.etag.as_bytes();
        tag.strip_prefix(b"W/").unwrap_or(tag)
    }

    /// The weak comparison: weak and strong tags of the same text (RFC 9110 §8.8.3.2).
    fn match_weakly(&self, tag: &Tag<'_>) -> bool {
        tag.opaque == self.opaque_tag()
    }

    /// The strong comparison: only strong tags.
    fn match_strongly(&self, tag: &Tag<'_>) -> bool {
        self.is_strong && !tag.is_weak && self.match_weakly(tag)
    }
}

/// Evaluates the conditions of a GET or HEAD request. Tags take precedence over dates (RFC 9110 §13.2.2, steps 1 to 4).
///
/// An invalid date counts as absent (§13.1.3, §13.1.4). The RFC does not define invalid lists of tags: here one ends at its first invalid entry.
pub fn evaluate(fields: &HeaderMap, file: &Validators) -> Evaluation {
    // If-Match, or else If-Unmodified-Since (§13.1.1, §13.1.4).
    let is_wanted = lists(fields, header::IF_MATCH, |tag| file.match_strongly(tag))
        .or_else(|| Some(file.modified <= sole_date(fields, header::IF_UNMODIFIED_SINCE)?));
    if is_wanted == Some(false) {
        return Evaluation::Failed;
    }
    // If-None-Match, or else If-Modified-Since (§13.1.2, §13.1.3).
    let is_known = lists(fields, header::IF_NONE_MATCH, |tag| file.match_weakly(tag))
        .or_else(|| Some(file.modified <= sole_date(fields, header::IF_MODIFIED_SINCE)?));
    if is_known == Some(true) {
        return Evaluation::NotModified;
    }
    Evaluation::Perform
}

/// Whether If-None-Match lists the tag of this version; `*` does not count.
pub fn names(fields: &HeaderMap, file: &Validators) -> bool {
    let lines = fields.get_all(header::IF_NONE_MATCH).iter();
    lines
        .flat_map(|line| tags(line.as_bytes()))
        .any(|tag| file.match_weakly(&tag))
}

/// Whether a range may be honoured: If-Range names this version, or is absent (RFC 9110 §13.1.5, and step 5 of §13.2.2). If not, the client gets the
/// whole file. A date must be equal, and counts only if the validators are strong, because a file may change twice within a second.
pub fn is_same_version(fields: &HeaderMap, file: &Validators) -> bool {
    if !fields.contains_key(header::IF_RANGE) {
        return true;
    }
    let Some(value) = sole(fields, header::IF_RANGE) else {
        return false;
    };
    match Tag::parse(value.as_bytes()) {
        Some((tag, rest)) => rest.is_empty() && file.match_strongly(&tag),
        None => file.is_strong && http_date(value) == Some(file.modified),
    }
}

/// Whether a field lists a tag that matches, or is `*`, which every file matches; `None` if there is no such field.
fn lists(fields: &HeaderMap, name: HeaderName, matches: impl Fn(&Tag<'_>) -> bool) -> Option<bool> {
    let mut lines = fields.get_all(name).iter().peekable();
    lines.peek()?;
    Some(lines.any(|line| line == "*" || tags(line.as_bytes()).any(|tag| matches(&tag))))
}

/// The value of a field that occurs exactly once.
fn sole(fields: &HeaderMap, name: HeaderName) -> Option<&HeaderValue> {
    let mut values = fields.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn sole_date(fields: &HeaderMap, name: HeaderName) -> Option<u64> {
    http_date(sole(fields, name)?)
}

/// A date in seconds since 1970, in any of the three formats (RFC 9110 §5.6.7).
fn http_date(value: &HeaderValue) -> Option<u64> {
    let date = httpdate::parse_http_date(value.to_str().ok()?).ok()?;
    Some(whole_seconds(date))
}

fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// An entity tag, with its quotes (RFC 9110 §8.8.3).
struct Tag<'a> {
    is_weak: bool,
    opaque: &'a [u8],
}

impl Tag<'_> {
    /// The tag at the start of a text, and the rest of the text.
    fn parse(text: &[u8]) -> Option<(Tag<'_>, &[u8])> {
        let (is_weak, quoted) = match text.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, text),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let length = inner.iter().position(|byte| *byte == b'"')?;
        let is_plain = inner[..length].iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        let (opaque, rest) = quoted.split_at(length + 2);
        is_plain.then_some((Tag { is_weak, opaque }, rest))
    }
}

/// The tags of a list. A tag may contain a comma, so the list cannot be split at commas.
fn tags(mut list: &[u8]) -> impl Iterator<Item = Tag<'_>> {
    iter::from_fn(move || {
        let separators = list.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b','));
        let (tag, rest) = Tag::parse(&list[separators.count()..])?;
        list = rest.trim_ascii_start();
        matches!(list.first(), None | Some(b',')).then_some(tag)
    })
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
