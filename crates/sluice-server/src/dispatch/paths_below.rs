//! The paths below those of a route's pattern, for a route that refuses or requires something: what lies below has it, too.

use std::sync::Arc;

use sluice_settings::rule::{Pattern, Wildcard};
use sluice_settings::suffix_of;

/// The most leading parts of a path that are matched against the regular expression of a refusal or requirement. Real trees are not deeper, and
/// without a limit the time would grow with the square of the path's length.
const REGEX_PARTS_MAX: usize = 32;

/// The paths below those of a route's pattern, and scripts by suffix whose endings are written in other letters.
pub(crate) struct PathsBelow {
    /// `None` for a regular expression.
    below: Option<Wildcard>,
    /// The suffixes of the site's scripts, which are run in any case: a route for `*.php` means `x.PHP`, too.
    suffixes: Arc<[String]>,
}

impl PathsBelow {
    pub(crate) fn of(pattern: &Pattern) -> PathsBelow {
        PathsBelow {
            below: match pattern {
                Pattern::Wildcard(path) => Some(Wildcard::new(&format!("{path}/*"))),
                Pattern::Regex(_) => None,
            },
            suffixes: Arc::default(),
        }
    }

    pub(crate) fn note_suffixes(&mut self, suffixes: &Arc<[String]>) {
        self.suffixes = Arc::clone(suffixes);
    }

    /// Whether this path lies below one of the pattern, from which it was made, or is one with its endings in lower case.
    pub(crate) fn has(&self, pattern: &Pattern, path: &str) -> bool {
        let is_lower = |path: String| pattern.matches(&path).is_some() || self.is_below(pattern, &path);
        self.is_below(pattern, path) || with_lower_endings(path, &self.suffixes).is_some_and(is_lower)
    }

    fn is_below(&self, pattern: &Pattern, path: &str) -> bool {
        match &self.below {
            Some(below) => below.matches(path).is_some(),
            None => leading_parts(path)
                .take(REGEX_PARTS_MAX)
                .any(|part| pattern.matches(part).is_some()),
        }
    }
}

/// The path with those endings of its parts in lower case that are suffixes of scripts. `None` if they are.
fn with_lower_endings(path: &str, suffixes: &[String]) -> Option<String> {
    if suffixes.is_empty() || !path.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let lower = |part: &str| match suffix_of(suffixes, part) {
        Some(suffix) => format!("{}{suffix}", &part[..part.len() - suffix.len()]),
        None => part.to_owned(),
    };
    let parts: Vec<_> = path.split('/').map(lower).collect();
    Some(parts.join("/")).filter(|lower| lower != path)
}

/// The leading parts of a path: `/a/b/c` → `/a`, `/a/b`, `/a/b/c`.
pub(crate) fn leading_parts(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/')
        .map(|(at, _)| at)
        .skip(1)
        .chain([path.len()])
        .map(|end| &path[..end])
}
