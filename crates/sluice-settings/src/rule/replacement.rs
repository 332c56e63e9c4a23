//! The text that a redirect or a rewriting makes of what a pattern has captured: `/new/$1?page=${name}`.
//!
//! `$1` is the first capture, `${1}` the same before a digit, `${name}` a group of that name, `*` what the first star stands for,
//! `${query}` the query as it was sent. Captures are decoded text; each is encoded for the place where it is put, so that
//! nothing in it begins a query, a parameter or a host of its own. The query is put in as it is, where it cannot name a host.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sluice_http::target;
use sluice_http::target::Target;

use super::pattern::Pattern;

/// What cannot stand in a host: with these escaped it is none.
const HOST: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.');

/// What would end a parameter of a query, or be taken for something else in it.
const PARAMETER: &AsciiSet = &target::PATH.add(b'&').add(b'+').add(b';').add(b'=');

/// A text with places for captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    text: String,
    chunks: Vec<Chunk>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Chunk {
    Literal(String),
    /// The number of a capture, and where it is put.
    Capture(usize, Place),
    /// The query as it was sent, and where it is put.
    Query(Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host,
    Path,
    Query,
}

impl Replacement {
    /// Reads the target of a redirect: a path, or a whole address.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub fn redirect(text: &str, pattern: &Pattern) -> Result<Replacement, String> {
        let is_whole = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        if !text.starts_with('/') && !is_whole {
            return Err("must be a path (\"/…\") or a whole address (\"https://…\")".to_owned());
        }
        Replacement::read(text, pattern)
    }

    /// A text that nothing is put into, whatever it holds.
    #[must_use]
    pub fn literal(text: &str) -> Replacement {
        Replacement {
            text: text.to_owned(),
            chunks: vec![Chunk::Literal(text.to_owned())],
        }
    }

    /// Reads what a path is rewritten to: another path, and its query.
    ///
    /// # Errors
    /// As above.
    pub fn rewrite(text: &str, pattern: &Pattern) -> Result<Replacement, String> {
        if !text.starts_with('/') {
            return Err("must be a path, \"/…\"; only a redirect leads to another host".to_owned());
        }
        if text.starts_with("//") {
            return Err("begins with two slashes: write one".to_owned());
        }
        if text.contains('#') {
            return Err("a \"#\" and what follows it is for browsers, and means nothing here: remove it".to_owned());
        }
        let replacement = Replacement::read(text, pattern)?;
        let stand_ins = vec!["x"; 1 + pattern.captures_len()];
        match Target::parse(&replacement.expand(&stand_ins, None)) {
            Ok(_) => Ok(replacement),
            Err(_) => Err("climbs above the root, or is no path when decoded".to_owned()),
        }
    }

    fn read(text: &str, pattern: &Pattern) -> Result<Replacement, String> {
        if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(
                "must be written as it is sent: \"%20\" for a blank, percent-encoded UTF-8 for other letters"
                    .to_owned(),
            );
        }
        if text.matches('*').count() > 1 {
            let message = "a \"*\" receives what the first \"*\" of path matched: write \"$2\" for what the second did, \"%2A\" for a star";
            return Err(message.to_owned());
        }
        let (mut place, mut rest) = match names_host(text) {
            true => (Place::Host, text),
            false => (Place::Path, text),
        };
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (chunk, after) = next_piece(rest, pattern)?;
            match chunk {
                Chunk::Literal(literal) => {
                    // The first one holds the two slashes before the host.
                    let beyond = match literal.split_once("//") {
                        Some((_, host)) if place == Place::Host && chunks.is_empty() => host,
                        _ => &literal,
                    };
                    place = place_after(place, beyond);
                    chunks.push(Chunk::Literal(literal));
                }
                Chunk::Capture(1, _) if place == Place::Host && begins_with_slash(pattern) => {
                    place = Place::Path;
                    chunks.push(Chunk::Capture(1, place));
                }
                Chunk::Capture(..) if place == Place::Host && !has_owner(after) => {
                    return Err(
                        "the host would end with what the client chooses, and be anybody's: write \"/\" before it, or a host's name \
                         behind it (\".example.org\")"
                            .to_owned(),
                    );
                }
                Chunk::Capture(number, _) => chunks.push(Chunk::Capture(number, place)),
                // Not at its end alone: a slash in it ends the host anywhere.
                Chunk::Query(_) if place == Place::Host => {
                    return Err(
                        "the host would hold the query, which the client chooses, and be anybody's: write \"/\" or \"?\" before it"
                            .to_owned(),
                    );
                }
                Chunk::Query(_) => {
                    chunks.push(Chunk::Query(place));
                    // A "?" in it may have begun one; what is encoded for a query is the same text in a path.
                    place = Place::Query;
                }
            }
            rest = after;
        }
        Ok(Replacement {
            text: text.to_owned(),
            chunks,
        })
    }

    /// Nothing is put into it.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.chunks.iter().all(|chunk| matches!(chunk, Chunk::Literal(_)))
    }

    /// The text, with what was captured of a path (the whole of it first) and the request's query.
    #[must_use]
    pub fn expand(&self, captures: &[&str], query: Option<&str>) -> String {
        let mut text = String::with_capacity(self.text.len() + 32);
        for chunk in &self.chunks {
            match chunk {
                Chunk::Literal(literal) => text.push_str(literal),
                // Browsers read a backslash in a path as a slash.
                Chunk::Query(Place::Path) => text.push_str(&query.unwrap_or_default().replace('\\', "%5C")),
                Chunk::Query(_) => text.push_str(query.unwrap_or_default()),
                Chunk::Capture(number, place) => {
                    let set = match place {
                        Place::Host => HOST,
                        Place::Path => target::PATH,
                        Place::Query => PARAMETER,
                    };
                    let captured = captures.get(*number).copied().unwrap_or_default();
                    text.extend(utf8_percent_encode(captured, set));
                }
            }
        }
        // Two slashes would begin a host (RFC 3986 §4.2), and it would be the client that has chosen it. To browsers a backslash
        // is one of them (WHATWG URL, "relative slash state").
        if ["//", "/\\"].iter().any(|start| text.starts_with(start)) && !names_host(&self.text) {
            text = format!("/{}", text.trim_start_matches(['/', '\\']));
        }
        text
    }

    /// The decoded path that this leads to on the same host, whatever the query; none where it leads to another, or where
    /// the query is a part of the path.
    #[must_use]
    pub fn path(&self, captures: &[&str]) -> Option<String> {
        if names_host(&self.text) || self.chunks.contains(&Chunk::Query(Place::Path)) {
            return None;
        }
        let text = self.expand(captures, None);
        Target::parse(&text).ok().map(|target| target.path)
    }
}

/// The first chunk of a text that is not empty, and the rest.
fn next_piece<'t>(text: &'t str, pattern: &Pattern) -> Result<(Chunk, &'t str), String> {
    if let Some(after) = text.strip_prefix('*') {
        return match pattern {
            Pattern::Regex(_) => Err(
                "a regular expression has no \"*\" to receive: write \"$1\" for its first group, \"%2A\" for a star"
                    .to_owned(),
            ),
            _ if pattern.captures_len() == 0 => {
                Err("its \"*\" receives what the \"*\" of path matched, but path has none".to_owned())
            }
            Pattern::Wildcard(_) => Ok((Chunk::Capture(1, Place::Path), after)),
        };
    }
    if let Some(after) = text.strip_prefix("$$") {
        return Ok((Chunk::Literal("$".to_owned()), after));
    }
    if let Some(inner) = text.strip_prefix("${") {
        let Some((name, after)) = inner.split_once('}') else {
            return Err("a \"${\" without its \"}\"; a \"$\" itself is written \"$$\"".to_owned());
        };
        return Ok((named(name, pattern)?, after));
    }
    let after = text.strip_prefix('$').unwrap_or_default();
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let (number, after) = after.split_at(digits);
        return Ok((numbered(number, pattern)?, after));
    }
    // A "$" that nothing follows which could be meant is a letter.
    let length = text[1..].find(['*', '$']).map_or(text.len(), |at| at + 1);
    let (literal, after) = text.split_at(length);
    Ok((Chunk::Literal(literal.to_owned()), after))
}

fn named(name: &str, pattern: &Pattern) -> Result<Chunk, String> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return numbered(name, pattern);
    }
    match (pattern.capture_named(name), name) {
        (Some(number), _) => Ok(Chunk::Capture(number, Place::Path)),
        (None, "query") => Ok(Chunk::Query(Place::Path)),
        (None, _) => Err(format!(
            "${{{name}}}: there is no group of that name, (?<{name}>…), in a regex"
        )),
    }
}

fn numbered(number: &str, pattern: &Pattern) -> Result<Chunk, String> {
    let most = pattern.captures_len();
    match number.parse::<usize>() {
        Ok(number) if number <= most => Ok(Chunk::Capture(number, Place::Path)),
        _ => {
            let there_are = match (most, pattern) {
                (0, Pattern::Wildcard(_)) => "path has no \"*\"".to_owned(),
                (0, Pattern::Regex(_)) => "the regex has no group".to_owned(),
                (_, Pattern::Wildcard(_)) => format!("path has only {most} \"*\""),
                (1, Pattern::Regex(_)) => "the regex has only 1 group".to_owned(),
                (_, Pattern::Regex(_)) => format!("the regex has only {most} groups"),
            };
            Err(format!(
                "${number} receives nothing, because {there_are}; a \"$\" itself is written \"$$\""
            ))
        }
    }
}

/// A whole address, or one without its scheme (RFC 3986 §4.2).
fn names_host(text: &str) -> bool {
    text.starts_with("//") || !text.starts_with('/')
}

/// Where a text goes on after a literal.
fn place_after(place: Place, literal: &str) -> Place {
    match place {
        Place::Query => Place::Query,
        _ if literal.contains(['?', '#']) => Place::Query,
        Place::Host if literal.contains('/') => Place::Path,
        place => place,
    }
}

/// Whether a host that goes on so belongs to somebody whoever writes what stands before: a dot, and at least two labels after it.
fn has_owner(after: &str) -> bool {
    let host = after.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let Some(owner) = host.strip_prefix('.') else {
        return false;
    };
    let is_label = |label: &str| !label.is_empty() && !label.contains(['$', '*']);
    owner.split('.').rev().take(2).filter(|label| is_label(label)).count() == 2
}

/// Whether what the first star of this pattern stands for begins with the slash that every path begins with. It does not in
/// `*/x`, where it may be empty.
fn begins_with_slash(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Wildcard(wildcard) => wildcard.has_first_slash(),
        Pattern::Regex(_) => false,
    }
}

/// As it was written.
impl fmt::Display for Replacement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expand(to: &str, pattern: &Pattern, path: &str, query: Option<&str>) -> String {
        let replacement = Replacement::redirect(to, pattern).unwrap();
        replacement.expand(&pattern.captures(path).unwrap(), query)
    }

    #[test]
    fn captures_are_put_where_they_are_named() {
        let stars = Pattern::from("/*/a-*");
        for (to, expected) in [
            ("/new/$2/$1", "/new/y/x"),
            ("/new/*", "/new/x"),
            ("/new/${1}1", "/new/x1"),
            ("/new$0", "/new/x/a-y"),
            ("/$$1/$x$", "/$1/$x$"),
            ("/n?a=$1&${query}", "/n?a=x&q=1"),
            ("https://$1.example.org/$2", "https://x.example.org/y"),
            ("//example.org//$1", "//example.org//x"),
        ] {
            assert_eq!(expand(to, &stars, "/x/a-y", Some("q=1")), expected, "{to}");
        }
        let regex = Pattern::regex(r"^/(?<year>\d{4})/(.*)$").unwrap();
        assert_eq!(expand("/$2?y=${year}", &regex, "/2026/a", None), "/a?y=2026");
    }

    #[test]
    fn a_capture_stays_what_it_is() {
        let pattern = Pattern::from("/old*");
        for (to, path, expected) in [
            ("/p/*", "/old a?b#c%/d", "/p/%20a%3Fb%23c%25/d"),
            ("/p?x=*", "/olda&b=c+d", "/p?x=a%26b%3Dc%2Bd"),
            (
                "https://u-$1.example.org/",
                "/old.evil.org/",
                "https://u-.evil.org%2F.example.org/",
            ),
            ("/*", "/old/evil.org", "/evil.org"),
            ("/p/*", "/old\r\nSet-Cookie: x", "/p/%0D%0ASet-Cookie:%20x"),
        ] {
            assert_eq!(expand(to, &pattern, path, None), expected, "{to} {path}");
        }
    }

    #[test]
    fn no_client_chooses_the_host() {
        for to in [
            "https://example.org*",
            "https://example.org$1",
            "https://$1/",
            "https://example.org:$1/x",
            "//example.org$1",
            "https://example.org${query}",
            "https://${query}.example.org/",
            "//${query}",
            "https://$1example.org/",
            "https://example$1.com/",
            "https://a.$1.com/",
        ] {
            let told = Replacement::redirect(to, &Pattern::from("/old*")).unwrap_err();
            assert!(told.contains("and be anybody's"), "{to}: {told}");
        }
        // Every path begins with a slash, and the star has it unless what follows the star may.
        for (pattern, path, expected) in [
            ("*", "/a b", "https://example.org/a%20b"),
            ("*.html", "/a.html", "https://example.org/a"),
            ("*a*", "/a/b", "https://example.org/"),
        ] {
            assert_eq!(
                expand("https://example.org*", &Pattern::from(pattern), path, None),
                expected
            );
        }
        for pattern in ["*/*", "*/", "*/a"] {
            let to = if pattern == "*/*" {
                "https://example.org$1$2"
            } else {
                "https://example.org$1"
            };
            let told = Replacement::redirect(to, &Pattern::from(pattern)).unwrap_err();
            assert!(told.contains("and be anybody's"), "{pattern}: {told}");
        }
    }

    #[test]
    fn no_query_begins_a_host() {
        for (to, query, expected) in [
            ("/${query}", "\\\\evil.example", "/%5C%5Cevil.example"),
            ("/${query}", "//evil.example", "/evil.example"),
            ("/${query}", "/\\evil.example", "/%5Cevil.example"),
            ("/\\${query}", "evil.example", "/evil.example"),
            ("/a?b=${query}", "c\\d", "/a?b=c\\d"),
            (
                "https://example.org/${query}",
                "/evil.example",
                "https://example.org//evil.example",
            ),
            (
                "https://example.org?${query}",
                ".evil.example",
                "https://example.org?.evil.example",
            ),
            // Behind it a capture may be a part of a query.
            ("/${query}&a=$1", "x?y", "/x?y&a=b%26c"),
        ] {
            assert_eq!(
                expand(to, &Pattern::from("/*"), "/b&c", Some(query)),
                expected,
                "{to} {query}"
            );
        }
    }

    #[test]
    fn where_a_query_is_part_of_the_path_the_path_is_not_known() {
        let path = |to| Replacement::redirect(to, &Pattern::any()).unwrap().path(&["/a", "a"]);
        assert_eq!(path("/${query}"), None);
        assert_eq!(path("/x/$1?${query}").as_deref(), Some("/x/a"));
        assert_eq!(path("https://example.org/"), None);
    }

    #[test]
    fn what_there_is_not_cannot_be_put_anywhere() {
        let regex = Pattern::regex("^/(a)").unwrap();
        for (to, pattern, told) in [
            ("/$2", Pattern::from("/*"), "path has only 1 \"*\""),
            ("/$1", Pattern::from("/a"), "path has no \"*\""),
            ("/*", Pattern::from("/a"), "but path has none"),
            ("/*/*", Pattern::from("/*/*"), "write \"$2\""),
            ("/$2", regex.clone(), "the regex has only 1 group"),
            ("/${name}", regex.clone(), "there is no group of that name"),
            ("/${name", regex.clone(), "without its \"}\""),
            ("/*", regex.clone(), "write \"$1\""),
            ("/é", regex, "percent-encoded UTF-8"),
            ("a", Pattern::any(), "must be a path"),
        ] {
            let error = Replacement::redirect(to, &pattern).unwrap_err();
            assert!(error.contains(told), "{to}: {error}");
        }
        for (to, told) in [
            ("https://a.org/", "only a redirect"),
            ("/a#b", "means nothing here"),
            ("/../$1", "climbs above the root"),
            ("/%ff", "no path when decoded"),
            ("//a/$1", "write one"),
        ] {
            let error = Replacement::rewrite(to, &Pattern::any()).unwrap_err();
            assert!(error.contains(told), "{to}: {error}");
        }
    }

    proptest! {
        /// Whatever a path holds, it lands in the path, and is the same there when decoded.
        #[test]
        fn captures_are_read_back(path in "/[ -~é]{0,20}") {
            let Ok(from) = Target::parse(&target::encode(&path)) else { return Ok(()) };
            let text = expand("/x/*", &Pattern::any(), &from.path, None);
            let to = Target::parse(&text).unwrap();
            prop_assert_eq!(to.path, format!("/x{}", from.path));
            prop_assert_eq!(to.query, None);
        }
    }
}
