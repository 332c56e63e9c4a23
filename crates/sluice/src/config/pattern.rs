//! What a route's pattern may be.
//!
//! Matching requests, and comparing one pattern with another, is the server's (`rule::pattern`).

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
            collapse(pattern, "**", "*")
        ));
    }
    check_segments(pattern)
}

/// Checks that a path can have what stands between slashes: those that are sent are resolved before they are compared.
fn check_segments(pattern: &str) -> Result<(), String> {
    let pieces: Vec<&str> = pattern.split('/').collect();
    if let Some(wrong) = pieces.iter().find(|piece| matches!(**piece, "." | "..")) {
        return Err(format!(
            "a path never holds \"/{wrong}\" as a folder, because it is resolved before it is compared: write what it leads to"
        ));
    }
    // Empty pieces at both ends are the slashes there.
    let between = pieces.get(1..pieces.len().saturating_sub(1)).unwrap_or_default();
    if between.contains(&"") {
        return Err(format!(
            "a path never holds two slashes in a row, because they are made one before it is compared: write \"{}\"",
            collapse(pattern, "//", "/")
        ));
    }
    Ok(())
}

/// The text with each run of what `twice` begins as one.
fn collapse(pattern: &str, twice: &str, once: &str) -> String {
    let mut shorter = pattern.to_owned();
    while shorter.contains(twice) {
        shorter = shorter.replace(twice, once);
    }
    shorter
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for pattern in ["/c//d", "///c/d", "/c/d//"] {
            let told = check(pattern).unwrap_err();
            assert!(told.contains("two slashes in a row"), "{pattern}: {told}");
        }
        assert!(check("//c//d").unwrap_err().ends_with("write \"/c/d\""));
        for pattern in ["/a/../b", "/a/./b", "/..", "/a/.", "*/..", "/*/../*"] {
            let told = check(pattern).unwrap_err();
            assert!(told.contains("is resolved before it is compared"), "{pattern}: {told}");
        }
        for pattern in [
            "/",
            "/a",
            "/a/",
            "/a/*",
            "*.cgi",
            "/a b",
            "/é/*",
            "/*/x/*",
            "*/",
            "*/.*",
            "/.well-known/*",
            "/..a",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }
}
