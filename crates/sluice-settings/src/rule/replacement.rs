//! The target of a redirect or a rewrite, with places for captures: `/new/$1?page=${name}`.
//!
//! `$1` is the first capture, `${1}` the same before a digit, `${name}` a named group, `*` the match of the first star,
//! `${query}` the query as sent. Captures are decoded text; each is encoded for its component of the URL, so that it cannot
//! begin a query, a parameter or a host. The query is inserted as sent, but never where it could name a host.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sluice_http::path_text::bytes_of;
use sluice_http::target;
use sluice_http::target::Target;

use crate::rule::pattern::Pattern;

/// Characters that are encoded in a host, so that a capture cannot end it.
const HOST: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.');

/// Characters that are encoded in a parameter of a query: those of a path, and those with a meaning in a query.
const PARAMETER: &AsciiSet = &target::PATH.add(b'&').add(b'+').add(b';').add(b'=');

/// A text with places for captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// The number of a capture, and the component that it is inserted in.
    Capture(usize, Component),
    /// The query as sent, and the component that it is inserted in.
    Query(Component),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Component {
    Host,
    Path,
    Query,
}

impl Replacement {
    /// Parses the target of a redirect: a path, or a whole URL.
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

    /// A text without places for captures, even if it contains `$` or `*`.
    #[must_use]
    pub fn literal(text: &str) -> Replacement {
        Replacement {
            text: text.to_owned(),
            parts: vec![Part::Literal(text.to_owned())],
        }
    }

    /// Parses the target of a rewrite: a path, and perhaps a query.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub fn rewrite(text: &str, pattern: &Pattern) -> Result<Replacement, String> {
        if !text.starts_with('/') {
            return Err("must be a path, \"/…\"; only a redirect leads to another host".to_owned());
        }
        if text.starts_with("//") {
            return Err("begins with two slashes: write one".to_owned());
        }
        if text.contains('#') {
            return Err("a \"#\" and what follows it is only for browsers: remove it".to_owned());
        }
        let replacement = Replacement::read(text, pattern)?;
        let stand_ins = vec!["x"; 1 + pattern.captures_len()];
        match Target::parse(&replacement.expand(&stand_ins, None)) {
            Ok(_) => Ok(replacement),
            Err(_) => Err("climbs above the root, or is not a path when decoded".to_owned()),
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
            let message = "a \"*\" receives what the first \"*\" of path matched: write \"$2\" for the match of the second, \"%2A\" for a star";
            return Err(message.to_owned());
        }
        let (mut component, mut rest) = match names_host(text) {
            true => (Component::Host, text),
            false => (Component::Path, text),
        };
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, after) = next_part(rest, pattern)?;
            match part {
                Part::Literal(literal) => {
                    // The first literal contains the two slashes before the host.
                    let beyond = match literal.split_once("//") {
                        Some((_, host)) if component == Component::Host && parts.is_empty() => host,
                        _ => &literal,
                    };
                    component = component_after(component, beyond);
                    parts.push(Part::Literal(literal));
                }
                Part::Capture(1, _) if component == Component::Host && begins_with_slash(pattern) => {
                    component = Component::Path;
                    parts.push(Part::Capture(1, component));
                }
                Part::Capture(..) if component == Component::Host && !has_owner(after) => {
                    return Err(
                        "the client could choose the host: write \"/\" before it, or a host's name after it (\".example.org\")"
                            .to_owned(),
                    );
                }
                Part::Capture(number, _) => parts.push(Part::Capture(number, component)),
                // Not only at the end of the host, because a slash in the query ends the host anywhere.
                Part::Query(_) if component == Component::Host => {
                    return Err(
                        "the client could choose the host by its query: write \"/\" or \"?\" before it".to_owned(),
                    );
                }
                Part::Query(_) => {
                    parts.push(Part::Query(component));
                    // A "?" in it may have begun a query; text that is encoded for a query is also correct in a path.
                    component = Component::Query;
                }
            }
            rest = after;
        }
        Ok(Replacement { text: text.to_owned(), parts })
    }

    /// Whether there are no places for captures.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    /// The text with the captures of a path (the whole path first) and the query of the request inserted.
    #[must_use]
    pub fn expand(&self, captures: &[&str], query: Option<&str>) -> String {
        let mut text = String::with_capacity(self.text.len() + 32);
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                // Browsers read a backslash in a path as a slash.
                Part::Query(Component::Path) => text.push_str(&query.unwrap_or_default().replace('\\', "%5C")),
                Part::Query(_) => text.push_str(query.unwrap_or_default()),
                Part::Capture(number, component) => {
                    let set = match component {
                        Component::Host => HOST,
                        Component::Path => target::PATH,
                        Component::Query => PARAMETER,
                    };
                    let captured = captures.get(*number).copied().unwrap_or_default();
                    text.extend(percent_encode(&bytes_of(captured), set));
                }
            }
        }
        // Two slashes begin a host (RFC 3986 §4.2), which the client would choose; browsers read `\` as `/` (WHATWG URL, "relative slash state").
        if ["//", "/\\"].iter().any(|start| text.starts_with(start)) && !names_host(&self.text) {
            text = format!("/{}", text.trim_start_matches(['/', '\\']));
        }
        text
    }

    /// The decoded path of the target on the same host, whatever the query; `None` if it names a host, or the query is part of the path.
    #[must_use]
    pub fn path(&self, captures: &[&str]) -> Option<String> {
        if names_host(&self.text) || self.parts.contains(&Part::Query(Component::Path)) {
            return None;
        }
        let text = self.expand(captures, None);
        Target::parse(&text).ok().map(|target| target.path.as_ref().to_owned())
    }
}

/// The first part of a text, which is not empty, and the rest of the text.
fn next_part<'t>(text: &'t str, pattern: &Pattern) -> Result<(Part, &'t str), String> {
    if let Some(after) = text.strip_prefix('*') {
        return match pattern {
            Pattern::Regex(_) => Err(
                "a regular expression has no \"*\" to receive: write \"$1\" for its first group, \"%2A\" for a star"
                    .to_owned(),
            ),
            _ if pattern.captures_len() == 0 => {
                Err("its \"*\" receives what the \"*\" of path matched, but path has none".to_owned())
            }
            Pattern::Wildcard(_) => Ok((Part::Capture(1, Component::Path), after)),
        };
    }
    if let Some(after) = text.strip_prefix("$$") {
        return Ok((Part::Literal("$".to_owned()), after));
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
    // Any other "$" is literal.
    let length = text[1..].find(['*', '$']).map_or(text.len(), |at| at + 1);
    let (literal, after) = text.split_at(length);
    Ok((Part::Literal(literal.to_owned()), after))
}

fn named(name: &str, pattern: &Pattern) -> Result<Part, String> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return numbered(name, pattern);
    }
    match (pattern.capture_named(name), name) {
        (Some(number), _) => Ok(Part::Capture(number, Component::Path)),
        (None, "query") => Ok(Part::Query(Component::Path)),
        (None, _) => Err(format!(
            "${{{name}}}: there is no group of that name, (?<{name}>…), in a regex"
        )),
    }
}

fn numbered(number: &str, pattern: &Pattern) -> Result<Part, String> {
    let most = pattern.captures_len();
    match number.parse::<usize>() {
        Ok(number) if number <= most => Ok(Part::Capture(number, Component::Path)),
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

/// Whether a text is a URL with a host, perhaps without its scheme (RFC 3986 §4.2).
fn names_host(text: &str) -> bool {
    text.starts_with("//") || !text.starts_with('/')
}

/// The component of the text after a literal.
fn component_after(component: Component, literal: &str) -> Component {
    match component {
        Component::Query => Component::Query,
        _ if literal.contains(['?', '#']) => Component::Query,
        Component::Host if literal.contains('/') => Component::Path,
        component => component,
    }
}

/// Whether a host with this end has a fixed owner whatever precedes it: it has a dot and at least two labels.
fn has_owner(after: &str) -> bool {
    let host = after.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let Some(owner) = host.strip_prefix('.') else {
        return false;
    };
    let is_label = |label: &str| !label.is_empty() && !label.contains(['$', '*']);
    owner.split('.').rev().take(2).filter(|label| is_label(label)).count() == 2
}

/// Whether the match of the pattern's first star begins with the slash of every path. In `*/x` it does not, because it may be empty.
fn begins_with_slash(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Wildcard(wildcard) => wildcard.has_first_slash(),
        Pattern::Regex(_) => false,
    }
}

/// The text as written.
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
    fn captures_are_inserted_by_number_and_name() {
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
    fn captures_are_encoded_for_their_component() {
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
            let error = Replacement::redirect(to, &Pattern::from("/old*")).unwrap_err();
            assert!(error.contains("the client could choose the host"), "{to}: {error}");
        }
        // Every path begins with a slash, which the star matches unless the text after the star can.
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
            let error = Replacement::redirect(to, &Pattern::from(pattern)).unwrap_err();
            assert!(error.contains("the client could choose the host"), "{pattern}: {error}");
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
            // A capture after the query may be a part of it.
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
    fn a_path_that_contains_the_query_is_unknown() {
        let path = |to| Replacement::redirect(to, &Pattern::any()).unwrap().path(&["/a", "a"]);
        assert_eq!(path("/${query}"), None);
        assert_eq!(path("/x/$1?${query}").as_deref(), Some("/x/a"));
        assert_eq!(path("https://example.org/"), None);
    }

    #[test]
    fn unknown_captures_are_refused() {
        let regex = Pattern::regex("^/(a)").unwrap();
        for (to, pattern, expected) in [
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
            assert!(error.contains(expected), "{to}: {error}");
        }
        for (to, expected) in [
            ("https://a.org/", "only a redirect"),
            ("/a#b", "only for browsers"),
            ("/../$1", "climbs above the root"),
            ("/%zz", "not a path when decoded"),
            ("//a/$1", "write one"),
        ] {
            let error = Replacement::rewrite(to, &Pattern::any()).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    proptest! {
        /// Any captured path is inserted into the path, and decodes to the same text.
        #[test]
        fn captures_are_read_back(path in "/[ -~é]{0,20}") {
            let Ok(from) = Target::parse(&target::encode(&path)) else { return Ok(()) };
            let text = expand("/x/*", &Pattern::any(), &from.path, None);
            let to = Target::parse(&text).unwrap();
            prop_assert_eq!(&*to.path, format!("/x{}", from.path));
            prop_assert_eq!(to.query, None);
        }
    }
}
