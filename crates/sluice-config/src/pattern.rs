//! The syntax of a route's pattern.

/// Checks the syntax of a pattern. The error says what to write instead.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() {
        return Err("the pattern is empty; \"/*\" matches every path".into());
    }
    if let Some(hint) = nginx_location(pattern) {
        return Err(hint);
    }
    if !pattern.starts_with(['/', '*']) {
        return Err(format!("a pattern begins with \"/\" or \"*\": write \"/{pattern}\""));
    }
    if let Some(wrong) = pattern
        .chars()
        .find(|letter| matches!(letter, '?' | '#') || letter.is_control())
    {
        return Err(format!(
            "a path never contains {wrong:?}: a pattern is compared with the path only, without the query"
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

/// Suggests a path or regex for the words of a `location` of nginx, or for a regular expression written as a path.
fn nginx_location(pattern: &str) -> Option<String> {
    let (operator, rest) = pattern.split_once(' ').unwrap_or(("", pattern));
    let rest = rest.trim_start();
    let path = match operator {
        "=" => format!("path = \"{rest}\""),
        "^~" => format!("path = \"{}*\"", rest.trim_end_matches('*')),
        "~*" => format!("regex = '(?i){rest}'"),
        _ => match pattern.strip_prefix('~').unwrap_or(pattern).trim_start() {
            regex if pattern.starts_with('~') || regex.starts_with("^/") => format!("regex = '{regex}'"),
            _ => return None,
        },
    };
    let what = if path.starts_with("regex") {
        "a regular expression"
    } else {
        "this location of nginx"
    };
    Some(format!("{what} is written {path}, in place of this path"))
}

/// Checks that a path can have these segments: paths of requests are normalized before they are compared.
fn check_segments(pattern: &str) -> Result<(), String> {
    let segments: Vec<&str> = pattern.split('/').collect();
    if let Some(wrong) = segments.iter().find(|segment| matches!(**segment, "." | "..")) {
        return Err(format!(
            "a path never contains the segment \"{wrong}\", because it is normalized before it is compared: write the normalized path"
        ));
    }
    // Empty segments at both ends are the leading and the trailing slash.
    let between = segments.get(1..segments.len().saturating_sub(1)).unwrap_or_default();
    if between.contains(&"") {
        return Err(format!(
            "a path never contains two slashes in a row, because they are merged before it is compared: write \"{}\"",
            collapse(pattern, "//", "/")
        ));
    }
    Ok(())
}

/// The text with each run of `once` merged; `twice` is `once` repeated.
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
    fn malformed_patterns_are_refused_with_a_hint() {
        let cases = [
            ("", "the pattern is empty; \"/*\" matches every path"),
            (
                "cgi-bin/*",
                "a pattern begins with \"/\" or \"*\": write \"/cgi-bin/*\"",
            ),
            (
                "~ ^/x",
                "a regular expression is written regex = '^/x', in place of this path",
            ),
            (
                "~* \\.php$",
                "a regular expression is written regex = '(?i)\\.php$', in place of this path",
            ),
            (
                "^/x$",
                "a regular expression is written regex = '^/x$', in place of this path",
            ),
            (
                "= /x",
                "this location of nginx is written path = \"/x\", in place of this path",
            ),
            (
                "^~ /x/",
                "this location of nginx is written path = \"/x/*\", in place of this path",
            ),
            ("/a/**", "\"*\" matches slashes too: write \"/a/*\""),
            (
                "/a?b=*",
                "a path never contains '?': a pattern is compared with the path only, without the query",
            ),
        ];
        for (pattern, message) in cases {
            assert_eq!(check(pattern), Err(message.into()), "{pattern}");
        }
        for pattern in ["/c//d", "///c/d", "/c/d//"] {
            let message = check(pattern).unwrap_err();
            assert!(message.contains("two slashes in a row"), "{pattern}: {message}");
        }
        assert!(check("//c//d").unwrap_err().ends_with("write \"/c/d\""));
        for pattern in ["/a/../b", "/a/./b", "/..", "/a/.", "*/..", "/*/../*"] {
            let message = check(pattern).unwrap_err();
            assert!(
                message.contains("is normalized before it is compared"),
                "{pattern}: {message}"
            );
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
