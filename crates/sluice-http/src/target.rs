//! The target of a request: its path, decoded once and normalized, and its query as sent.
//!
//! The only place where a path is decoded or encoded. All later code uses the result: it begins with `/`, has no `.`, `..` or empty segments, and no NUL.
//! Bytes that are not UTF-8 are in it as `path_text` says.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::uri::InvalidUri;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode, utf8_percent_encode};
use thiserror::Error;

use crate::path_text::{bytes_of, text_of};

/// Characters that must be encoded in a path (RFC 3986 §3.3), and `%`, which would begin an escape.
pub const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A decoded path and the raw query after it. A copy shares its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path, decoded; `..` resolved, slashes merged; ends with `/` if the path as sent did.
    pub path: Arc<str>,
    /// The query as sent, without the `?`.
    pub query: Option<Arc<str>>,
    /// Path and query as sent (REQUEST_URI).
    pub raw: Arc<str>,
}

/// Why a request target is not a path; the client's fault (400), or the script's in a local redirect.
#[derive(Clone, Debug, Error)]
#[error("request target {target:?}: {problem}")]
pub struct TargetError {
    /// The target, as sent.
    pub target: Box<str>,
    /// The problem of the target.
    pub problem: TargetProblem,
}

/// A problem of a request target.
#[derive(Clone, Debug, Error)]
pub enum TargetProblem {
    /// The target does not begin with a slash.
    #[error("does not begin with a slash")]
    NoSlash,
    /// A `%` in its path does not begin an escape of two hexadecimal digits (RFC 3986 §2.1).
    #[error("has a % without two hexadecimal digits after it")]
    BadEscape,
    /// The decoded path holds a NUL or a newline, which no variable can hold.
    #[error("holds a NUL or a newline, which no variable can hold")]
    NulOrNewline,
    /// The path climbs above the root.
    #[error("climbs above the root")]
    AboveRoot,
    /// The target is `*` or an authority, with a method that needs a path (RFC 9112 §3.2).
    #[error("not a path")]
    NotAPath,
    /// The target is not a URI reference.
    #[error("{0}")]
    NotAUri(Arc<InvalidUri>),
}

impl TargetError {
    /// For results: boxed, because it is rare and large.
    pub fn boxed(target: &str, problem: TargetProblem) -> Box<TargetError> {
        Box::new(TargetError { target: target.into(), problem })
    }
}

/// For messages: the decoded path, and the query.
impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.path)?;
        match &self.query {
            Some(query) => write!(out, "?{query}"),
            None => Ok(()),
        }
    }
}

impl Target {
    /// The target of a request; otherwise the client's fault (400). `http://host?query` has the path `/` (RFC 9110 §4.2.3).
    pub fn from_uri(uri: &Uri) -> Result<Target, Box<TargetError>> {
        let raw = uri.path_and_query().map_or("", |target| target.as_str());
        match raw.as_bytes() {
            [] => Target::parse("/"),
            [b'?', ..] if uri.authority().is_some() => Target::parse(&format!("/{raw}")),
            _ => Target::parse(raw),
        }
    }

    /// Parses a path and query, percent-encoded: those of a request line, of a script's local redirect, or of a rewrite. Each `%` of
    /// the path must begin an escape; the query is not checked, because many applications send a bare `%` there.
    pub fn parse(raw: &str) -> Result<Target, Box<TargetError>> {
        match Target::verbatim(raw) {
            Some(target) => Ok(target),
            None => Target::parse_any(raw),
        }
    }

    /// The target of the usual case, a path that stands for itself, found in one pass. Otherwise `None`.
    fn verbatim(raw: &str) -> Option<Target> {
        let (mut before, mut end) = (b' ', raw.len());
        for (at, byte) in raw.bytes().enumerate() {
            if byte == b'?' {
                end = at;
                break;
            }
            let is_verbatim = match before {
                // Empty segments and those that begin with a dot.
                b'/' => byte.is_ascii_graphic() && !matches!(byte, b'%' | b'#' | b'/' | b'.'),
                b' ' => byte == b'/',
                _ => byte.is_ascii_graphic() && !matches!(byte, b'%' | b'#'),
            };
            if !is_verbatim {
                return None;
            }
            before = byte;
        }
        let query = raw.get(end + 1..);
        if before == b' ' || query.is_some_and(|query| query.contains('#')) {
            return None;
        }
        let whole = Arc::<str>::from(raw);
        Some(Target {
            path: match query {
                None => Arc::clone(&whole),
                Some(_) => raw[..end].into(),
            },
            query: query.map(Into::into),
            raw: whole,
        })
    }

    fn parse_any(raw: &str) -> Result<Target, Box<TargetError>> {
        check_escapes(raw)?;
        Target::parse_lenient(raw)
    }

    /// Parses as `parse` does, but a `%` that begins no escape stands for itself: scripts do not encode the paths of files.
    pub fn parse_lenient(raw: &str) -> Result<Target, Box<TargetError>> {
        let bad = |problem| TargetError::boxed(raw, problem);
        // A request must not have a fragment (RFC 9112 §3.2); a local redirect may have one.
        let whole = raw.split('#').next().unwrap_or_default();
        let (path, query) = match whole.split_once('?') {
            Some((path, query)) => (path, Some(query.into())),
            None => (whole, None),
        };
        if !path.starts_with('/') {
            return Err(bad(TargetProblem::NoSlash));
        }
        let path = text_of(percent_decode_str(path).into());
        if path.contains(['\0', '\n']) {
            return Err(bad(TargetProblem::NulOrNewline));
        }
        let path = resolve(&path).ok_or_else(|| bad(TargetProblem::AboveRoot))?;
        Ok(Target { path: path.into(), query, raw: whole.into() })
    }
}

/// Checks that each `%` in a path begins an escape (RFC 3986 §2.1). An error is the client's fault (400).
pub fn check_escapes(raw: &str) -> Result<(), Box<TargetError>> {
    let mut rest = raw.split(['?', '#']).next().unwrap_or_default();
    while let Some((_, after)) = rest.split_once('%') {
        match after.as_bytes() {
            [first, second, ..] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => rest = &after[2..],
            _ => return Err(TargetError::boxed(raw, TargetProblem::BadEscape)),
        }
    }
    Ok(())
}

/// Whether the path of a path and query has a segment `.` or `..`, encoded or not.
pub fn has_dot_segment(raw: &str) -> bool {
    let path = raw.split(['?', '#']).next().unwrap_or_default();
    percent_decode_str(path)
        .decode_utf8_lossy()
        .split('/')
        .any(|segment| matches!(segment, "." | ".."))
}

/// Encodes a decoded path for a URL.
pub fn encode(path: &str) -> String {
    percent_encode(&bytes_of(path), PATH).to_string()
}

/// Encodes what a client should have encoded and what may be invisible: controls, and all outside ASCII.
pub fn encode_invisible(path: &str) -> Cow<'_, str> {
    utf8_percent_encode(path, CONTROLS).into()
}

/// Removes dot segments (RFC 3986 §5.2.4) from a decoded path, and empty segments too, because `//cgi-bin/x` would otherwise
/// bypass the routes for `/cgi-bin/x`. `None` if the path climbs above the root.
fn resolve(path: &str) -> Option<Cow<'_, str>> {
    if is_plain(path) {
        return Some(path.into());
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop()?;
            }
            name => kept.push(name),
        }
    }
    let is_directory = matches!(path.rsplit('/').next(), Some("" | "." | ".."));
    let mut resolved = String::with_capacity(path.len());
    for segment in &kept {
        resolved.push('/');
        resolved.push_str(segment);
    }
    if is_directory || kept.is_empty() {
        resolved.push('/');
    }
    Some(resolved.into())
}

/// Whether there is nothing to resolve, the usual case.
fn is_plain(path: &str) -> bool {
    !path.as_bytes().windows(2).any(|pair| pair == b"//" || pair == b"/.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(raw: &str) -> Option<Arc<str>> {
        Target::parse(raw).ok().map(|target| target.path)
    }

    proptest::proptest! {
        #[test]
        fn a_target_taken_verbatim_is_the_one_of_the_full_parser(raw in "[/.a%?#~ \\x00-\\x7f\u{e9}]{0,8}|(/[a.%~-]{0,3}){1,4}[?#]?") {
            if let Some(target) = Target::verbatim(&raw) {
                proptest::prop_assert_eq!(Some(target), Target::parse_any(&raw).ok());
            }
        }
    }

    #[test]
    fn usual_paths_are_taken_verbatim_and_no_others() {
        for (raw, expected) in [
            ("/", true),
            ("/a/b.txt", true),
            ("/a/", true),
            ("", false),
            ("a", false),
            ("*", false),
            ("/a?b", true),
            ("/?", true),
            ("/a?b=%?/../", true),
            ("/a?b#c", false),
            ("/a#c?b", false),
            ("?a", false),
            ("/a/..?b", false),
            ("/a%20", false),
            ("/a//b", false),
            ("/a/.b", false),
            ("/\u{e9}", false),
        ] {
            assert_eq!(Target::verbatim(raw).is_some(), expected, "{raw}");
        }
    }

    #[test]
    fn paths_are_decoded_once_and_resolved() {
        for (raw, expected) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/./b/", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("//cgi-bin///x", "/cgi-bin/x"),
            ("/a%2fb", "/a/b"),
            ("/%252e%252e/x", "/%2e%2e/x"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a%20b?c%20d", "/a b"),
            ("/%ff/%C3%A4/..", "/\u{10ffff}/"),
        ] {
            assert_eq!(path(raw).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn paths_with_nul_or_above_the_root_are_refused() {
        for raw in [
            "/..",
            "/../etc/passwd",
            "/a/../../x",
            "/%2e%2e/x",
            "/..%2fx",
            "/a%00b",
            "/a%0ab",
            "*",
            "x",
        ] {
            assert_eq!(path(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_request_with_a_percent_sign_that_begins_no_escape_is_refused() {
        let is_target = |raw: &str| Target::from_uri(&raw.parse().unwrap()).is_ok();
        for raw in ["/%zz", "/%", "/a%4", "/%4g/b", "/%%41", "/100%.txt"] {
            assert!(!is_target(raw), "{raw}");
        }
        for raw in ["/%41", "/%2F%e2%82%ac", "/?%zz", "/a?100%", "/"] {
            assert!(is_target(raw), "{raw}");
        }
        assert_eq!(path("/100%.txt"), None);
        let lenient = Target::parse_lenient("/100%.txt%20").unwrap();
        assert_eq!(&*lenient.path, "/100%.txt ");
    }

    #[test]
    fn an_absolute_form_without_a_path_means_the_root() {
        for (uri, raw, query) in [
            ("http://a.test", "/", None),
            ("http://a.test?", "/?", Some("")),
            ("http://a.test?x/y", "/?x/y", Some("x/y")),
        ] {
            let target = Target::from_uri(&uri.parse().unwrap()).unwrap();
            assert_eq!(
                (&*target.path, &*target.raw, target.query.as_deref()),
                ("/", raw, query),
                "{uri}"
            );
        }
    }

    #[test]
    fn query_is_not_decoded() {
        let target = Target::parse("/x?a=%41+b&c#frag").unwrap();
        assert_eq!(target.query.as_deref(), Some("a=%41+b&c"));
        assert_eq!(&*target.raw, "/x?a=%41+b&c");
    }
}
