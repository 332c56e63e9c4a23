//! A route's pattern: `/exact`, `/prefix/*`, `*.cgi`.
//!
//! Here: matching of decoded paths, `*` being any run of characters, slashes too. Linear in practice: a pattern has few
//! stars, and the last one takes what is left. Not here: what a match means (`route`, `locate`).

/// A pattern, cut at its stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<String>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Pattern {
        Pattern {
            parts: text.split('*').map(str::to_owned).collect(),
        }
    }

    /// The text before the first star.
    pub(crate) fn prefix(&self) -> &str {
        &self.parts[0]
    }

    /// What the pattern's first star stands for in this path (the empty text without a star), if the path matches.
    pub(crate) fn matches<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(self.prefix())?;
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
}

#[cfg(test)]
mod tests {
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
            assert_eq!(Pattern::new(pattern).matches(path), expected, "{pattern} {path}");
        }
    }
}
