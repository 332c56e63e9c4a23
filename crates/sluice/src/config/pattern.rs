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
            collapse_stars(pattern)
        ));
    }
    Ok(())
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
}
