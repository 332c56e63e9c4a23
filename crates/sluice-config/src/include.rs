//! `include`: from patterns such as `sites/*.toml` to the files that they name.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sluice_settings::notation::reason;

use super::document::Document;

/// Files that a configuration includes; more are a pattern that was not meant so.
const FILES_MAX: usize = 1000;

/// A file to include.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IncludeFile {
    /// The absolute path.
    pub(super) path: PathBuf,
    /// The name in messages: relative to the place from which the main file was named.
    pub(super) name: String,
    /// The line of the key `include`.
    pub(super) line: usize,
    /// Whether a wildcard has found it.
    pub(super) is_matched: bool,
}

/// The files of some patterns: in the order of the patterns, and those of one pattern in the order of their names. A file that is
/// named twice is included once, and the file that includes is left out. The error is a message about a pattern.
pub(super) fn expand(patterns: &[String], line: usize, document: &Document<'_>) -> Result<Vec<IncludeFile>, String> {
    let mut files: Vec<IncludeFile> = Vec::new();
    let own = document.path();
    for pattern in patterns {
        let found =
            paths(pattern, line, document).map_err(|message| format!("\"{}\": {message}", pattern.escape_debug()))?;
        for relative in found {
            let path = document.resolve(line, &relative);
            if path != own && files.iter().all(|file| file.path != path) {
                let beside = Path::new(document.name).parent().unwrap_or(Path::new(""));
                let name = beside.join(relative).display().to_string();
                let is_matched = pattern.contains(['*', '?']);
                files.push(IncludeFile { path, name, line, is_matched });
            }
        }
        if files.len() > FILES_MAX {
            return Err(format!("\"{pattern}\": names more than {FILES_MAX} files"));
        }
    }
    Ok(files)
}

/// The paths that a pattern matches, sorted; they are relative if the pattern is.
fn paths(pattern: &str, line: usize, document: &Document<'_>) -> Result<Vec<String>, String> {
    if pattern.is_empty() {
        return Err("must be the path of a file, or a pattern such as \"sites/*.toml\"".to_owned());
    }
    if pattern.contains(['[', ']', '{', '}']) || pattern.contains("**") {
        let message =
            "the wildcards are * and ?, which stand for letters of one name: write a list of several patterns instead";
        return Err(message.to_owned());
    }
    let mut found = vec![String::new()];
    let mut is_certain = true;
    for (number, part) in pattern.split('/').enumerate() {
        let separator = if number == 0 { "" } else { "/" };
        if !part.contains(['*', '?']) {
            found.iter_mut().for_each(|path| *path += &format!("{separator}{part}"));
            if !is_certain {
                found.retain(|path| !document.is_missing(&document.resolve(line, path)));
            }
            continue;
        }
        let mut deeper = Vec::new();
        for path in &found {
            let directory = format!("{path}{separator}");
            let names = match names(&directory, document) {
                Ok(names) => names,
                Err(error) if is_certain => return Err(refusal(&directory, &error, document)),
                // What a wildcard has matched need not be a directory.
                Err(error) if error.kind() == ErrorKind::NotADirectory => continue,
                // What is missing may have protected a site.
                Err(error) => {
                    document.report(line, format!("include: {}", refusal(&directory, &error, document)));
                    continue;
                }
            };
            let mut matching: Vec<_> = names.into_iter().filter(|name| matches(part, name)).collect();
            matching.sort_unstable();
            deeper.extend(matching.iter().map(|name| format!("{path}{separator}{name}")));
        }
        (found, is_certain) = (deeper, false);
    }
    Ok(found)
}

fn names(directory: &str, document: &Document<'_>) -> io::Result<Vec<String>> {
    document.files.names(&document.resolve(document.whole, directory))
}

/// The message about a directory that cannot be read.
fn refusal(directory: &str, error: &io::Error, document: &Document<'_>) -> String {
    let path = document.resolve(document.whole, directory);
    match error.kind() {
        ErrorKind::NotFound => format!(
            "no directory {} ({}): create it or fix the path",
            path.display(),
            reason(error)
        ),
        _ => format!("{} cannot be read: {}", path.display(), reason(error)),
    }
}

/// Whether a name matches a pattern of one path segment. As in glob(7), wildcards match no leading dot, so that temporary files of editors are left out.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    // The last star, and how far it extends: if the rest does not match, it takes one character more.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[read] => (at, read) = (at + 1, read + 1),
            _ => match star {
                Some((position, end)) => {
                    star = Some((position, end + 1));
                    (at, read) = (position + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_letters_of_one_name_but_no_leading_dot() {
        for (pattern, name, expected) in [
            ("*.toml", "a.toml", true),
            ("*.toml", "a.toml~", false),
            ("*.toml", ".a.toml", false),
            (".*", ".a", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("??-*.toml", "10-é.toml", true),
            ("??-*.toml", "1-x.toml", false),
            ("*a", "aaab", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
