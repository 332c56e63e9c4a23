//! The mistakes of a configuration: gathered while it is read, told all at once, each with its line.
//!
//! Here: the gathering, the order and the form of the messages. What is a mistake, and its mend, stands where it is found.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use sluice_settings::template::TEMPLATE_BYTES_MAX;

/// Mistakes that are told at once; a file with more of them is read again after mending these.
const MISTAKES_TOLD_MAX: usize = 20;

/// A configuration that is being read: its text, where it lies, and the mistakes found so far.
pub(crate) struct Document<'a> {
    /// The file as the user named it, for messages.
    pub(crate) name: &'a str,
    /// Its text.
    pub(crate) text: &'a str,
    /// The absolute folder that relative paths start from.
    pub(crate) folder: &'a Path,
    /// Looks what is at a path; tests put their own world here.
    pub(crate) look: &'a dyn Fn(&Path) -> Found,
    /// Reads a text that the configuration names, or says why it cannot.
    pub(crate) read: &'a dyn Fn(&Path) -> Result<String, String>,
    mistakes: RefCell<Vec<(usize, String)>>,
}

/// A value and the line on which it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Its line, from 1.
    pub(crate) line: usize,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A folder.
    Folder,
    /// A regular file that somebody may execute.
    Program,
    /// A regular file without any run bit.
    File,
    /// A device, a socket …
    Other,
    /// Nothing, or nothing that may be looked at: the system's reason.
    Nothing(String),
}

/// Why a configuration cannot be used: every mistake in the order of its lines, 20 at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigErrors {
    lines: Vec<String>,
}

impl<'a> Document<'a> {
    /// A configuration of which nothing was read yet.
    pub(crate) fn new(name: &'a str, text: &'a str, folder: &'a Path, look: &'a dyn Fn(&Path) -> Found) -> Self {
        Document {
            name,
            text,
            folder,
            look,
            read: &read_text,
            mistakes: RefCell::default(),
        }
    }

    /// The same document in a world that has these texts.
    #[cfg(test)]
    pub(crate) fn reading(self, read: &'a dyn Fn(&Path) -> Result<String, String>) -> Self {
        Document { read, ..self }
    }

    /// Notes a mistake on a line; line 0 means the file as a whole.
    pub(crate) fn complain(&self, line: usize, message: impl Into<String>) {
        self.mistakes.borrow_mut().push((line, message.into()));
    }

    /// The line, from 1, on which a byte of the text stands.
    pub(crate) fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// What stands in the text at `span`, shortened for a message.
    pub(crate) fn excerpt(&self, span: Range<usize>) -> String {
        let whole = self.text.get(span).unwrap_or_default();
        let first = whole.lines().next().unwrap_or_default();
        let short: String = first.chars().take(40).collect();
        if short.len() < whole.len() {
            format!("{short}…")
        } else {
            short
        }
    }

    /// Where a line is, as messages of the running server name it: `sluice.toml:12`.
    pub(crate) fn origin(&self, line: usize) -> String {
        format!("{}:{line}", self.name)
    }

    /// A path of the configuration: relative ones start from its folder.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        // Collected from its components: no trailing slash and no `/./` in what scripts are told.
        self.folder.join(path).components().collect()
    }

    /// Ends the reading: the value if there was no mistake, else all of them.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        let mut mistakes = self.mistakes.into_inner();
        if mistakes.is_empty() {
            return Ok(value);
        }
        mistakes.sort_by_key(|(line, _)| *line);
        mistakes.dedup();
        let more = mistakes.len().saturating_sub(MISTAKES_TOLD_MAX);
        let told = mistakes
            .iter()
            .take(MISTAKES_TOLD_MAX)
            .map(|(line, message)| match line {
                0 => format!("{}: {message}", self.name),
                line => format!("{}:{line}: {message}", self.name),
            });
        let mut lines: Vec<String> = told.collect();
        if more > 0 {
            lines.push(format!("{}: and {more} more", self.name));
        }
        Err(ConfigErrors { lines })
    }
}

impl Found {
    /// Looks at the file system. A name without any folder is a program's, and is looked for in PATH.
    pub(crate) fn at(path: &Path) -> Found {
        if path.components().count() == 1 && path.is_relative() {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let programs = std::env::split_paths(&folders).map(|folder| folder.join(path));
            let found = programs.map(|program| Found::at_path(&program));
            let nothing = Found::Nothing("is in no folder of PATH".to_owned());
            return found
                .into_iter()
                .find(|found| *found == Found::Program)
                .unwrap_or(nothing);
        }
        Found::at_path(path)
    }

    fn at_path(path: &Path) -> Found {
        match std::fs::metadata(path) {
            Err(error) => Found::Nothing(reason(&error)),
            Ok(about) if about.is_dir() => Found::Folder,
            Ok(about) if about.is_file() && is_program(&about) => Found::Program,
            Ok(about) if about.is_file() => Found::File,
            Ok(_) => Found::Other,
        }
    }
}

impl ConfigErrors {
    /// A configuration that could not even be read.
    pub(crate) fn one(message: String) -> ConfigErrors {
        ConfigErrors { lines: vec![message] }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// The system's reason in words, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Reads a text of at most a template's size.
fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let most = TEMPLATE_BYTES_MAX as u64 + 1;
    match File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)) {
        Ok(_) if text.len() as u64 == most => Err(format!("is larger than {} KiB", TEMPLATE_BYTES_MAX >> 10)),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err("is no UTF-8 text".to_owned()),
        Err(error) => Err(format!("cannot be read: {}", reason(&error))),
    }
}

/// Whether anybody at all may execute the file: the server may run as another user than the one who checks.
fn is_program(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    about.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document<'_> {
        Document::new("sluice.toml", text, Path::new("/etc/sluice"), &Found::at)
    }

    #[test]
    fn mistakes_are_told_by_line_and_the_file_itself_first() {
        let document = document("a\nb\n");
        document.complain(2, "second");
        document.complain(1, "first");
        document.complain(0, "all of it");
        document.complain(2, "second");
        let told = document.finish(()).unwrap_err().to_string();
        assert_eq!(
            told,
            "sluice.toml: all of it\nsluice.toml:1: first\nsluice.toml:2: second"
        );
    }

    #[test]
    fn no_more_than_twenty_mistakes_are_told() {
        let document = document("");
        (1..=23).for_each(|line| document.complain(line, "wrong"));
        let told = document.finish(()).unwrap_err().to_string();
        assert_eq!(told.lines().count(), 21);
        assert!(
            told.ends_with("sluice.toml:20: wrong\nsluice.toml: and 3 more"),
            "{told}"
        );
    }

    #[test]
    fn programs_without_a_folder_are_looked_for_in_path() {
        assert_eq!(Found::at(Path::new("sh")), Found::Program);
        assert!(matches!(Found::at(Path::new("no-such-program")), Found::Nothing(_)));
        assert_eq!(Found::at(Path::new("/")), Found::Folder);
    }

    #[test]
    fn excerpts_are_one_short_line() {
        let text = format!("a = [\n1]\nb = \"{}\"", "x".repeat(60));
        let document = document(&text);
        assert_eq!(document.excerpt(4..8), "[…");
        assert_eq!(document.excerpt(13..text.len()), format!("\"{}…", "x".repeat(39)));
    }

    #[test]
    fn relative_paths_start_from_the_folder_of_the_file() {
        let document = document("");
        assert_eq!(document.resolve("./htdocs/"), Path::new("/etc/sluice/htdocs"));
        assert_eq!(document.resolve("/srv/www/"), Path::new("/srv/www"));
    }
}
