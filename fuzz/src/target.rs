//! The target of a request: the raw path and query in, the decoded path out.
//!
//! Properties: the path begins with `/`, has no `.`, `..` or empty segment, no NUL and no newline; it is what a second, simpler
//! resolver makes of the target; encoded again, it means the same; the query is untouched.

use http::Uri;
use sluice_http::path_text::text_of;
use sluice_http::target::{Target, encode, has_dot_segment};

/// Input: the target as it stands in a request line.
pub fn check(bytes: &[u8]) {
    if let Ok(raw) = str::from_utf8(bytes) {
        check_raw(raw);
    }
    // What an HTTP parser accepts is a part of the above, and means the same.
    if let Ok(uri) = Uri::try_from(bytes) {
        let parsed = Target::from_uri(&uri).ok();
        let raw = uri.path_and_query().map_or("", |target| target.as_str());
        // Without a path, the absolute form means the root.
        let is_without_path = raw.is_empty() || (raw.starts_with('?') && uri.authority().is_some());
        let whole = if is_without_path {
            format!("/{raw}")
        } else {
            raw.to_owned()
        };
        assert_eq!(parsed, Target::parse(&whole).ok());
    }
}

fn check_raw(raw: &str) {
    let whole = raw.split('#').next().unwrap_or_default();
    let (path, query) = match whole.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (whole, None),
    };
    let expected = resolve(path.as_bytes());
    let is_escaped = |part: &str| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    let lenient = Target::parse_lenient(raw).ok();
    let strict = Target::parse(raw).ok();
    let has_valid_escapes = path.split('%').skip(1).all(is_escaped);
    assert_eq!(strict, lenient.clone().filter(|_| has_valid_escapes), "{raw:?}");
    let Some(target) = lenient else {
        assert_eq!(expected, None, "{raw:?} was refused");
        return;
    };
    assert_eq!(Some(&*target.path), expected.as_deref(), "{raw:?}");
    assert_eq!(target.query.as_deref(), query);
    assert_eq!(&*target.raw, whole);
    check_path(&target.path);
}

fn check_path(path: &str) {
    assert!(path.starts_with('/') && !path.contains(['\0', '\n']), "{path:?}");
    let inner = path[1..].strip_suffix('/').unwrap_or(&path[1..]);
    if !inner.is_empty() {
        assert!(
            inner.split('/').all(|segment| !matches!(segment, "" | "." | "..")),
            "{path:?}"
        );
    }
    assert!(path == "/" || !path.ends_with("//"));
    let encoded = encode(path);
    assert!(!has_dot_segment(&encoded));
    assert!(
        encoded
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#')
    );
    let again = Target::parse(&encoded).ok().map(|target| target.path);
    assert_eq!(again.as_deref(), Some(path), "{encoded:?}");
}

/// The meaning of a path, by RFC 3986 §5.2.4 with empty segments dropped; `None` if it has no meaning.
fn resolve(raw: &[u8]) -> Option<String> {
    let decoded = text_of(decode(raw).into()).into_owned();
    let path = decoded.strip_prefix('/').filter(|_| raw.starts_with(b"/"))?;
    if path.contains(['\0', '\n']) {
        return None;
    }
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()?),
            segment => kept.push(segment),
        }
    }
    let is_directory = kept.is_empty() || ["", "/", "/.", "/.."].contains(&&decoded[last_slash(&decoded)..]);
    Some(format!(
        "/{}{}",
        kept.join("/"),
        if is_directory && !kept.is_empty() { "/" } else { "" }
    ))
}

fn last_slash(path: &str) -> usize {
    path.rfind('/').unwrap_or_default()
}

/// Percent-decoding (RFC 3986 §2.1); what is no escape stands for itself.
fn decode(raw: &[u8]) -> Vec<u8> {
    let digit = |at: usize| raw.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        match (raw[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(16 * high + low).expect("two hexadecimal digits"));
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}
