//! Which paths a rule is for: `/exact`, `/prefix/*` (and `/prefix`), `*.cgi`, or a regular expression.
//!
//! Here: matching of decoded paths, what a match has captured, and when one pattern leaves nothing for another. `*` stands for
//! any run of characters, slashes too. Both kinds take time in proportion to the path: a text with stars in practice, because
//! it has few of them; a regular expression in any case, because it is an automaton that never goes back. Not here: what a
//! match means (`dispatch`).

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Memory that a compiled regular expression may take, bytes: expressions that people write need some thousand. Over it the
/// expression is refused. As much again is what each thread may remember of the paths it has seen; over that it forgets.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Which paths a rule is for.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// A text with stars.
    Wildcard(Wildcard),
    /// A regular expression.
    Regex(Regex),
}

/// A text with stars, cut at them.
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

    /// Reads a regular expression.
    ///
    /// # Errors
    /// What is wrong with it, and where; its author's to mend.
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

    /// What captures there are, from 1.
    #[must_use]
    pub fn captures_len(&self) -> usize {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.parts.len() - 1,
            Pattern::Regex(regex) => regex.captures_len() - 1,
        }
    }

    /// The number of the capture of this name.
    pub(super) fn capture_named(&self, name: &str) -> Option<usize> {
        match self {
            Pattern::Wildcard(_) => None,
            Pattern::Regex(regex) => regex.capture_names().position(|own| own == Some(name)),
        }
    }

    /// The text before the first star.
    pub fn prefix(&self) -> &str {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.prefix(),
            Pattern::Regex(_) => "",
        }
    }

    /// `/app/*` → `/app`: the path for which such a pattern is too, and only such a one.
    #[must_use]
    pub fn bare(&self) -> Option<&str> {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.begin()?.strip_suffix('/').filter(|bare| !bare.is_empty()),
            Pattern::Regex(_) => None,
        }
    }

    /// The text before the star, where that is all there is: `/app/*`, `/app*`.
    pub fn begin(&self) -> Option<&str> {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.begin(),
            Pattern::Regex(_) => None,
        }
    }

    /// What the first star stands for in this path (the empty text without a star), if the path matches.
    pub fn matches<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.matches(path).or_else(|| self.is_bare(path).then_some("")),
            Pattern::Regex(regex) => regex.is_match(path).then_some(""),
        }
    }

    fn is_bare(&self, path: &str) -> bool {
        self.bare() == Some(path)
    }

    /// What a path that matches is made of: all of it, then what was captured. A group of a regular expression that took no part is empty.
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

/// As it is written: `/a/*`, `regex ^/a`.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Wildcard(wildcard) => wildcard.fmt(out),
            Pattern::Regex(regex) => write!(out, "regex {regex}"),
        }
    }
}

impl Wildcard {
    /// Cuts a text at its stars.
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

    /// Whether the first star stands for the slash with which every path begins, and what follows it: it is the first letter,
    /// and what is written behind it cannot be the beginning of a path and leave it empty.
    pub(super) fn has_first_slash(&self) -> bool {
        match &self.parts[..] {
            [first, last] if last.is_empty() => first.is_empty(),
            [first, next, ..] => first.is_empty() && !next.is_empty() && !next.starts_with('/'),
            _ => false,
        }
    }

    /// The text before its only star, which is its end.
    fn begin(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [begin, end] if end.is_empty() => Some(begin),
            _ => None,
        }
    }

    /// What the first star stands for in this text (the empty text without a star), if it matches.
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

    /// The whole text, then what each star stands for: the shortest that fits, but for the last, which has what is left.
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
    // No chunk of `earlier` holds a star, so none can cut one of `later`.
    Wildcard::new(earlier).matches(later).is_some()
}

/// The words of a message of three lines: one that shows the expression, one that points into it, the reason.
fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    let [_, shown, pointer, reason] = lines[..] else {
        // An expression of several lines is shown with their numbers.
        let reason = lines.last().copied().unwrap_or_default();
        return reason.trim_start_matches("error: ").to_owned();
    };
    let column = pointer.chars().take_while(|letter| *letter == ' ').count();
    let place: String = shown.chars().skip(column).take(20).collect();
    format!("{}, at \"{place}\"", reason.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_stand_for_any_run() {
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
    fn a_folder_counts_without_its_slash() {
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
    fn a_bad_expression_is_told_with_its_place() {
        for (text, told) in [
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
            assert_eq!(Pattern::regex(text).unwrap_err(), told, "{text}");
        }
    }

    #[test]
    fn an_earlier_pattern_covers_what_it_matches_entirely() {
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
        /// Whatever the stars of a covered pattern stand for, the earlier one matches it; of any other pattern it leaves at
        /// least the path in which they stand for a letter of their own.
        #[test]
        fn covering_holds_for_every_path_and_for_no_less(
            earlier in "/[ab*]{0,5}",
            later in "/[ab*]{0,5}",
            fillings in proptest::collection::vec("[ab]{0,3}", 5),
        ) {
            let covered = covers(&earlier, &later);
            prop_assert_eq!(covered, covers(&earlier, &later.replace('*', "c")), "{} {}", &earlier, &later);
            let path = fillings.iter().fold(later, |path, filling| path.replacen('*', filling, 1));
            prop_assert!(!covered || covers(&earlier, &path), "{} must match {}", earlier, path);
        }

        /// Captures and the parts of the pattern, one after the other, are the path; the first is what `matches` says.
        #[test]
        fn captures_and_parts_make_up_the_path(pattern in "/[ab*]{0,5}", path in "/[ab]{0,8}") {
            let wildcard = Wildcard::new(&pattern);
            let captures = wildcard.captures(&path);
            prop_assert_eq!(captures.as_ref().map(|all| all.get(1).copied().unwrap_or("")), wildcard.matches(&path));
            if let Some(captures) = captures {
                let stars = captures[1..].iter().copied().chain([""]);
                let made: String = wildcard.parts.iter().map(String::as_str).zip(stars).flat_map(|(part, star)| [part, star]).collect();
                prop_assert_eq!(made, path);
            }
        }
    }
}
