//! The settings of a route that serves a directory: how its files are sent, which are scripts, and what answers where a path leads to no file.

use std::path::PathBuf;

use crate::record_format::RecordFormat;
use crate::rule::Replacement;
use crate::settings::script::ScriptSettings;

/// A directory that a route serves.
#[derive(Clone, Debug)]
pub struct DirectorySettings {
    /// The directory.
    pub path: PathBuf,
    /// The record format of its files; `None` for files of bytes.
    pub records: Option<RecordSettings>,
    /// Whether directories in it without an index page are listed; `None` for the site's setting.
    pub listing: Option<bool>,
    /// How the scripts among its files run; `None` if there are none.
    pub scripts: Option<SuffixScripts>,
    /// The candidates that are tried, in their order, where a path leads to nothing in the directory.
    pub fallback: Vec<Fallback>,
}

impl DirectorySettings {
    /// A directory of files without records, scripts and fallback.
    pub fn new(path: PathBuf) -> DirectorySettings {
        DirectorySettings {
            path,
            records: None,
            listing: None,
            scripts: None,
            fallback: Vec::new(),
        }
    }
}

/// The scripts among the files of a directory.
#[derive(Clone, Debug)]
pub struct SuffixScripts {
    /// The endings of their names, each with its dot, in lower case. They are compared without regard to case.
    pub suffixes: Vec<String>,
    /// How they run. Those whose suffix has no interpreter are executed themselves.
    pub script: ScriptSettings,
}

impl SuffixScripts {
    /// The suffix of a script's name; `None` if it is not the name of a script.
    #[must_use]
    pub fn suffix_of(&self, name: &str) -> Option<&str> {
        suffix_of(&self.suffixes, name)
    }
}

/// The first suffix, in lower case, with which a name ends in any case. A name that is only a suffix (`.php`) has none.
#[must_use]
pub fn suffix_of<'s>(suffixes: &'s [String], name: &str) -> Option<&'s str> {
    let ends_with = |suffix: &&String| {
        let begin = name.len().checked_sub(suffix.len()).filter(|begin| *begin > 0);
        begin.is_some_and(|begin| name.as_bytes()[begin..].eq_ignore_ascii_case(suffix.as_bytes()))
    };
    suffixes.iter().find(ends_with).map(String::as_str)
}

/// The answer that is tried where a path leads to nothing in the directory of its route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Another path of the site, and perhaps another query.
    Path(Replacement),
    /// The next routes, with the same path.
    NextRoute,
}

/// Files of records, which are sent as lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// How the records are stored in a file.
    pub format: RecordFormat,
    /// Whether the lines are kept.
    pub convert: Convert,
}

/// Whether the lines that were made of a file's records are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Convert {
    /// They are not: each request converts the file again.
    #[default]
    Off,
    /// They are kept in the file cache, within its limits.
    Cache,
    /// They are kept in the file cache, and the file is rewritten as stream-LF.
    Rewrite,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_found_in_any_case_at_the_end_of_a_name() {
        let suffixes = [".php".to_owned(), ".cgi".to_owned()];
        for (name, expected) in [
            ("x.php", Some(".php")),
            ("X.PhP", Some(".php")),
            ("a.php.cgi", Some(".cgi")),
            ("x.php.jpg", None),
            ("xphp", None),
            (".php", None),
            ("é.php", Some(".php")),
            ("éphp", None),
            ("", None),
        ] {
            assert_eq!(suffix_of(&suffixes, name), expected, "{name}");
        }
    }
}
