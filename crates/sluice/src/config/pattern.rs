//! What a route's pattern may be, and when an earlier route leaves nothing for a later one.
//!
//! Matching requests is the server's (`dispatch::route`). Here a pattern is only compared with another one.

/// Checks the form of a pattern; the refusal holds the mend.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() {
        return Err("the pattern is empty; \"/*\" matches every path".into());
    }
    if !pattern.starts_with(['/', '*']) {
        return Err(format!("a pattern begins with \"/\" or \"*\": write \"/{pattern}\""));
    }
    if let Some(wrong) = pattern
        .chars()
        .find(|letter| matches!(letter, '?' | '#') || letter.is_control())
    {
        return Err(format!(
            "a path never holds {wrong:?}: a pattern is compared with the path alone, without its query"
        ));
    }
    if pattern.contains("**") {
        return Err(format!(
            "\"*\" matches slashes too: write \"{}\"",
            collapse_stars(pattern)
        ));
    }
    Ok(())
}

/// Whether every path that `later` matches is matched by `earlier` too.
///
/// `*` stands for any run of characters, so this holds exactly when `earlier` matches the text of `later` with each `*` in
/// it taken as a letter that only a `*` can match.
pub(crate) fn covers(earlier: &str, later: &str) -> bool {
    let mut pieces = earlier.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = later.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        // The leftmost place leaves most for the pieces that follow. No piece holds a star, so none can cut one of `later`.
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// The text with each run of stars as one.
fn collapse_stars(pattern: &str) -> String {
    let mut shorter = pattern.to_owned();
    while shorter.contains("**") {
        shorter = shorter.replace("**", "*");
    }
    shorter
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn malformed_patterns_are_refused_with_the_mend() {
        let cases = [
            ("", "the pattern is empty; \"/*\" matches every path"),
            (
                "cgi-bin/*",
                "a pattern begins with \"/\" or \"*\": write \"/cgi-bin/*\"",
            ),
            ("/a/**", "\"*\" matches slashes too: write \"/a/*\""),
            (
                "/a?b=*",
                "a path never holds '?': a pattern is compared with the path alone, without its query",
            ),
        ];
        for (pattern, message) in cases {
            assert_eq!(check(pattern), Err(message.into()), "{pattern}");
        }
        for pattern in ["/", "/a", "/a/*", "*.cgi", "/a b", "/é/*", "/*/x/*"] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
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
    }
}
