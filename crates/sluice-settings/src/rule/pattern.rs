//! The paths of a route: `/exact`, `/prefix/*` (and `/prefix`), `*.cgi`, or a regular expression.
//!
//! `*` stands for any run of characters, slashes too. Matching takes time linear in the length of the path: for stars
//! in practice, because there are few; for a regular expression always, because it is a finite automaton.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled regular expression; usual ones need some thousand. Also the limit of each thread's matching cache, which is cleared when full.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The paths of a route.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// A text with stars.
    Wildcard(Wildcard),
    /// A regular expression.
    Regex(Regex),
}

/// A text with stars, split at the stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    parts: Vec<String>,
}

impl Pattern {
    /// Every path.
    #[must_use]
    pub fn any() -> Pattern {
        Pattern::from("/*")
    }

    /// Parses a regular expression.
    ///
    /// # Errors
    /// What is wrong with it and where, for its author to fix.
    pub fn regex(text: &str) -> Result<Pattern, String> {
        match RegexBuilder::new(text)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build()
        {
            Ok(regex) => Ok(Pattern::Regex(regex)),
            Err(regex::Error::CompiledTooBig(_)) => {
                Err("would need more than 1 MiB of memory: make it shorter".to_owned())
            }
            Err(error) => Err(one_line(&error.to_string())),
        }
    }

    /// The number of captures, without the whole path.
    #[must_use]
    pub fn captures_len(&self) -> usize {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.parts.len() - 1,
            Pattern::Regex(regex) => regex.captures_len() - 1,
        }
    }

    /// The number of the capture with this name.
    pub(super) fn capture_named(&self, name: &str) -> Option<usize> {
        match self {
            Pattern::Wildcard(_) => None,
            Pattern::Regex(regex) => regex.capture_names().position(|own| own == Some(name)),
        }
    }

    /// The text before the first star; empty for a regular expression.
    pub fn prefix(&self) -> &str {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.prefix(),
            Pattern::Regex(_) => "",
        }
    }

    /// The path without a slash that a pattern such as `/app/*` matches too: `/app`. `None` for other patterns.
    #[must_use]
    pub fn bare(&self) -> Option<&str> {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.begin()?.strip_suffix('/').filter(|bare| !bare.is_empty()),
            Pattern::Regex(_) => None,
        }
    }

    /// The text before the only star at the end: `/app/` of `/app/*`. `None` for other patterns.
    pub fn begin(&self) -> Option<&str> {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.begin(),
            Pattern::Regex(_) => None,
        }
    }

    /// The text that the first star matches, empty without a star; `None` if the path does not match.
    pub fn matches<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self {
            Pattern::Wildcard(wildcard) => match wildcard.begin() {
                Some(begin) => path.strip_prefix(begin).or_else(|| self.is_bare(path).then_some("")),
                None => wildcard.matches(path),
            },
            Pattern::Regex(regex) => regex.is_match(path).then_some(""),
        }
    }

    fn is_bare(&self, path: &str) -> bool {
        self.bare() == Some(path)
    }

    /// The whole path, then its captures; `None` if the path does not match. A group that did not participate is empty.
    #[must_use]
    pub fn captures<'p>(&self, path: &'p str) -> Option<Vec<&'p str>> {
        match self {
            Pattern::Wildcard(_) if self.is_bare(path) => Some(vec![path, ""]),
            Pattern::Wildcard(wildcard) => wildcard.captures(path),
            Pattern::Regex(regex) => {
                let groups = regex.captures(path)?;
                Some(
                    groups
                        .iter()
                        .map(|group| group.map_or("", |group| group.as_str()))
                        .collect(),
                )
            }
        }
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Pattern {
        Pattern::Wildcard(Wildcard::new(text))
    }
}

/// The text as written, for messages: `/a/*`, `regex ^/a`.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.fmt(out),
            Pattern::Regex(regex) => write!(out, "regex {regex}"),
        }
    }
}

impl Wildcard {
    /// Splits a text at its stars.
    #[must_use]
    pub fn new(text: &str) -> Wildcard {
        Wildcard {
            parts: text.split('*').map(str::to_owned).collect(),
        }
    }

    /// The text before the first star.
    pub fn prefix(&self) -> &str {
        &self.parts[0]
    }

    /// Whether the first star always matches the slash at the start of a path: it comes first, and is not empty because the text after it begins no path.
    pub(super) fn has_first_slash(&self) -> bool {
        match &self.parts[..] {
            [first, last] if last.is_empty() => first.is_empty(),
            [first, next, ..] => first.is_empty() && !next.is_empty() && !next.starts_with('/'),
            _ => false,
        }
    }

    /// The text before the only star, if that is at the end.
    fn begin(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [begin, end] if end.is_empty() => Some(begin),
            _ => None,
        }
    }

    /// The text that the first star matches, empty without a star; `None` if the text does not match.
    pub fn matches<'p>(&self, text: &'p str) -> Option<&'p str> {
        let rest = text.strip_prefix(self.prefix())?;
        let Some((last, middle)) = self.parts[1..].split_last() else {
            return rest.is_empty().then_some("");
        };
        let mut cursor = 0;
        let mut star_end = None;
        for part in middle {
            let at = cursor + rest[cursor..].find(part.as_str())?;
            star_end.get_or_insert(at);
            cursor = at + part.len();
        }
        let tail = rest[cursor..].strip_suffix(last.as_str())?;
        Some(&rest[..star_end.unwrap_or(tail.len())])
    }

    /// The whole text, then the match of each star: the shortest possible, and the rest for the last star.
    fn captures<'p>(&self, text: &'p str) -> Option<Vec<&'p str>> {
        let mut captures = vec![text];
        let mut rest = text.strip_prefix(self.prefix())?;
        let Some((last, middle)) = self.parts[1..].split_last() else {
            return rest.is_empty().then_some(captures);
        };
        for part in middle {
            let (star, after) = rest.split_once(part.as_str())?;
            captures.push(star);
            rest = after;
        }
        captures.push(rest.strip_suffix(last.as_str())?);
        Some(captures)
    }
}

impl fmt::Display for Wildcard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.parts.join("*"))
    }
}

/// Whether every text that `later` matches is matched by `earlier` too.
///
/// `*` stands for any run of characters, so this holds exactly when `earlier` matches the text of `later` with each `*` in
/// it taken as a letter that only a `*` can match.
#[must_use]
pub fn covers(earlier: &str, later: &str) -> bool {
    // The parts of `earlier` contain no star, so none can match across a star of `later`.
    Wildcard::new(earlier).matches(later).is_some()
}

/// Turns a message of three lines (the expression, a pointer into it, the reason) into one line.
fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    let [_, shown, pointer, reason] = lines[..] else {
        // For an expression of several lines, the message has their numbers.
        let reason = lines.last().copied().unwrap_or_default();
        return reason.trim_start_matches("error: ").to_owned();
    };
    let column = pointer.chars().take_while(|letter| *letter == ' ').count();
    let at: String = shown.chars().skip(column).take(20).collect();
    format!("{}, at \"{at}\"", reason.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_match_any_run_of_characters() {
        for (pattern, path, expected) in [
            ("/a", "/a", Some("")),
            ("/a", "/ab", None),
            ("/cgi-bin/*", "/cgi-bin/x/y", Some("x/y")),
            ("/cgi-bin/*", "/cgi-bin/", Some("")),
            ("/cgi-bin/*", "/cgi-bin", None),
            ("*.cgi", "/d/x.cgi", Some("/d/x")),
            ("*.cgi", "/d/x.cgi/more", None),
            ("/~*/pub/*", "/~ann/pub/x", Some("ann")),
            ("/a*a", "/a", None),
        ] {
            assert_eq!(Wildcard::new(pattern).matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_directory_matches_without_its_slash() {
        for (pattern, path, expected) in [
            ("/a/*", "/a", true),
            ("/a/b/*", "/a/b", true),
            ("/a/b/*", "/a", false),
            ("/a/*.do", "/a", false),
            ("/a/*/*", "/a", false),
            ("/a*", "/", false),
            ("/*", "", false),
        ] {
            assert_eq!(
                Pattern::from(pattern).matches(path).is_some(),
                expected,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn each_star_and_each_group_is_captured() {
        let captures = |pattern: &Pattern, path| pattern.captures(path).map(|all| all.join("|"));
        for (pattern, path, expected) in [
            ("/a", "/a", Some("/a")),
            ("/~*/pub/*", "/~ann/pub/x/pub/y", Some("/~ann/pub/x/pub/y|ann|x/pub/y")),
            ("/*/*.html", "/a/b/c.html", Some("/a/b/c.html|a|b/c")),
            ("/*b", "/abab", Some("/abab|aba")),
            ("/*b", "/aba", None),
        ] {
            assert_eq!(captures(&pattern.into(), path).as_deref(), expected, "{pattern} {path}");
        }
        assert_eq!(captures(&"/a/*".into(), "/a").as_deref(), Some("/a|"));
        let regex = Pattern::regex(r"^/(?<lang>de|en)/(x)?(\d+)$").unwrap();
        assert_eq!(captures(&regex, "/de/42").as_deref(), Some("/de/42|de||42"));
        assert_eq!(captures(&regex, "/fr/42"), None);
        assert_eq!((regex.captures_len(), regex.capture_named("lang")), (3, Some(1)));
    }

    #[test]
    fn an_invalid_expression_is_reported_with_its_position() {
        for (text, expected) in [
            ("^/a(b", "unclosed group, at \"(b\""),
            (
                "^/[z-a]",
                "invalid character class range, the start must be <= the end, at \"z-a]\"",
            ),
            (
                "(?=x)",
                "look-around, including look-ahead and look-behind, is not supported, at \"(?=x)\"",
            ),
            ("(?x)\n(", "unclosed group"),
            (
                "(\\w{1000}){1000}",
                "would need more than 1 MiB of memory: make it shorter",
            ),
        ] {
            assert_eq!(Pattern::regex(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn a_pattern_covers_another_if_it_matches_all_its_paths() {
        let cases = [
            ("/*", "/a", true),
            ("/*", "/a/*", true),
            ("/a/*", "/a/b/*", true),
            ("/a/*", "/a/*.cgi", true),
            ("/a", "/a", true),
            ("*.cgi", "/a/*.cgi", true),
            ("/a/*/b", "/a/*/c/b", true),
            ("*", "*.cgi", true),
            ("/a/*", "/a", false),
            ("/a/b", "/a/*", false),
            ("/a/*", "/*", false),
            ("*.cgi", "/cgi-bin/*", false),
            ("/a*a", "/a", false),
            ("/*b*", "/a*", false),
        ];
        for (earlier, later, expected) in cases {
            assert_eq!(covers(earlier, later), expected, "{earlier} {later}");
        }
    }

    proptest! {
        /// Every path of a covered pattern matches the earlier one. Of a pattern that is not covered, at least the path with
        /// an unused letter for each star does not match.
        #[test]
        fn covering_holds_for_every_path_and_only_then(
            earlier in "/[ab*]{0,5}",
            later in "/[ab*]{0,5}",
            fillings in proptest::collection::vec("[ab]{0,3}", 5),
        ) {
            let covered = covers(&earlier, &later);
            prop_assert_eq!(covered, covers(&earlier, &later.replace('*', "c")), "{} {}", &earlier, &later);
            let path = fillings.iter().fold(later, |path, filling| path.replacen('*', filling, 1));
            prop_assert!(!covered || covers(&earlier, &path), "{} must match {}", earlier, path);
        }

        /// Captures and parts of the pattern in turn make up the path; the first capture is the result of `matches`.
        #[test]
        fn captures_and_parts_make_up_the_path(pattern in "/[ab*]{0,5}", path in "/[ab]{0,8}") {
            let wildcard = Wildcard::new(&pattern);
            let captures = wildcard.captures(&path);
            prop_assert_eq!(captures.as_ref().map(|all| all.get(1).copied().unwrap_or("")), wildcard.matches(&path));
            if let Some(captures) = captures {
                let stars = captures[1..].iter().copied().chain([""]);
                let joined: String = wildcard.parts.iter().map(String::as_str).zip(stars).flat_map(|(part, star)| [part, star]).collect();
                prop_assert_eq!(joined, path);
            }
        }
    }
}
