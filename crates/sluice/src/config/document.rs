//! A configuration file while it is read: its text, its directory, and the mistakes found so far.
//!
//! All mistakes are reported at once, in the order of their lines. Here: collecting and formatting them. Not here: what counts as
//! a mistake; the code that finds one writes its message.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use sluice_settings::template::TEMPLATE_BYTES_MAX;

use super::description::Described;

/// Mistakes reported at once; the rest are only counted.
const MISTAKES_SHOWN_MAX: usize = 20;

/// A configuration file that is being read.
pub(crate) struct Document<'a> {
    /// The file as the user named it, for messages.
    pub(crate) name: &'a str,
    /// The keys that such a file may have.
    pub(crate) keys: &'static dyn Described,
    /// Its text.
    pub(crate) text: &'a str,
    /// Directory of the file, absolute: relative paths in the file start there.
    pub(crate) directory: &'a Path,
    /// Says what is at a path; tests substitute a file system of their own.
    pub(crate) inspect: &'a dyn Fn(&Path) -> FileKind,
    /// Reads a template that the configuration names. The error is a reason that follows the path: `cannot be read: …`.
    pub(crate) read_template: &'a dyn Fn(&Path) -> Result<String, String>,
    mistakes: RefCell<Vec<(usize, String)>>,
}

/// A value and its line in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Its line, from 1.
    pub(crate) line: usize,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A directory.
    Directory,
    /// A regular file with an execute bit.
    Program,
    /// A regular file without an execute bit.
    File,
    /// A device, a socket or the like.
    Other,
    /// Nothing, or nothing accessible: the system's reason.
    Missing(String),
}

/// The mistakes of a configuration in the order of their lines, 20 at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigErrors {
    lines: Vec<String>,
}

impl<'a> Document<'a> {
    /// A document without any mistakes yet, on the real file system.
    pub(crate) fn new(keys: &'static dyn Described, name: &'a str, text: &'a str, directory: &'a Path) -> Self {
        Document {
            name,
            keys,
            text,
            directory,
            inspect: &FileKind::at,
            read_template: &read_text,
            mistakes: RefCell::default(),
        }
    }

    /// The same document on a file system that consists of these two functions.
    #[cfg(test)]
    pub(crate) fn on(
        self,
        inspect: &'a dyn Fn(&Path) -> FileKind,
        read_template: &'a dyn Fn(&Path) -> Result<String, String>,
    ) -> Self {
        Document {
            inspect,
            read_template,
            ..self
        }
    }

    /// Records a mistake on a line; line 0 means the file as a whole.
    pub(crate) fn report(&self, line: usize, message: impl Into<String>) {
        self.mistakes.borrow_mut().push((line, message.into()));
    }

    /// The line, from 1, of a byte offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// The first line of the text at `span`, shortened to 40 characters, for a message.
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

    /// The position of a line as the running server's messages name it: `sluice.toml:12`.
    pub(crate) fn origin(&self, line: usize) -> String {
        format!("{}:{line}", self.name)
    }

    /// Makes a path of the configuration absolute: relative ones start from the file's directory.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        // Collected from its components, so that scripts get no trailing slash and no `/./`.
        self.directory.join(path).components().collect()
    }

    /// Ends the reading: the value if there was no mistake, or else all mistakes.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        let mut mistakes = self.mistakes.into_inner();
        if mistakes.is_empty() {
            return Ok(value);
        }
        mistakes.sort_by_key(|(line, _)| *line);
        mistakes.dedup();
        let more = mistakes.len().saturating_sub(MISTAKES_SHOWN_MAX);
        let shown = mistakes
            .iter()
            .take(MISTAKES_SHOWN_MAX)
            .map(|(line, message)| match line {
                0 => format!("{}: {message}", self.name),
                line => format!("{}:{line}: {message}", self.name),
            });
        let mut lines: Vec<String> = shown.collect();
        if more > 0 {
            lines.push(format!("{}: and {more} more", self.name));
        }
        Err(ConfigErrors { lines })
    }
}

impl FileKind {
    /// Inspects the file system. A bare name, without any directory, is a program and is looked up in PATH.
    pub(crate) fn at(path: &Path) -> FileKind {
        if path.components().count() == 1 && path.is_relative() {
            let directories = std::env::var_os("PATH").unwrap_or_default();
            let programs = std::env::split_paths(&directories).map(|directory| directory.join(path));
            let found = programs.map(|program| FileKind::at_path(&program));
            let missing = FileKind::Missing("is in no directory of PATH".to_owned());
            return found
                .into_iter()
                .find(|found| *found == FileKind::Program)
                .unwrap_or(missing);
        }
        FileKind::at_path(path)
    }

    fn at_path(path: &Path) -> FileKind {
        match std::fs::metadata(path) {
            Err(error) => FileKind::Missing(reason(&error)),
            Ok(about) if about.is_dir() => FileKind::Directory,
            Ok(about) if about.is_file() && is_program(&about) => FileKind::Program,
            Ok(about) if about.is_file() => FileKind::File,
            Ok(_) => FileKind::Other,
        }
    }
}

impl ConfigErrors {
    /// A configuration that could not be read at all.
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

/// The system's reason in words, without the error number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Reads a template of at most `TEMPLATE_BYTES_MAX` bytes.
fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let most = TEMPLATE_BYTES_MAX as u64 + 1;
    match File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)) {
        Ok(_) if text.len() as u64 == most => Err(format!("is larger than {} KiB", TEMPLATE_BYTES_MAX >> 10)),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err("is not UTF-8 text".to_owned()),
        Err(error) => Err(format!("cannot be read: {}", reason(&error))),
    }
}

/// Whether any execute bit is set; any, because `sluice check` may run as another user than the server.
fn is_program(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    about.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::super::root::ROOT;
    use super::*;

    fn document(text: &str) -> Document<'_> {
        Document::new(&ROOT, "sluice.toml", text, Path::new("/etc/sluice"))
    }

    #[test]
    fn mistakes_are_sorted_by_line_and_those_of_the_whole_file_come_first() {
        let document = document("a\nb\n");
        document.report(2, "second");
        document.report(1, "first");
        document.report(0, "all of it");
        document.report(2, "second");
        let shown = document.finish(()).unwrap_err().to_string();
        assert_eq!(
            shown,
            "sluice.toml: all of it\nsluice.toml:1: first\nsluice.toml:2: second"
        );
    }

    #[test]
    fn no_more_than_twenty_mistakes_are_shown() {
        let document = document("");
        (1..=23).for_each(|line| document.report(line, "wrong"));
        let shown = document.finish(()).unwrap_err().to_string();
        assert_eq!(shown.lines().count(), 21);
        assert!(
            shown.ends_with("sluice.toml:20: wrong\nsluice.toml: and 3 more"),
            "{shown}"
        );
    }

    #[test]
    fn programs_without_a_directory_are_looked_up_in_path() {
        assert_eq!(FileKind::at(Path::new("sh")), FileKind::Program);
        assert!(matches!(
            FileKind::at(Path::new("no-such-program")),
            FileKind::Missing(_)
        ));
        assert_eq!(FileKind::at(Path::new("/")), FileKind::Directory);
    }

    #[test]
    fn excerpts_are_one_short_line() {
        let text = format!("a = [\n1]\nb = \"{}\"", "x".repeat(60));
        let document = document(&text);
        assert_eq!(document.excerpt(4..8), "[…");
        assert_eq!(document.excerpt(13..text.len()), format!("\"{}…", "x".repeat(39)));
    }

    #[test]
    fn relative_paths_start_from_the_directory_of_the_file() {
        let document = document("");
        assert_eq!(document.resolve("./htdocs/"), Path::new("/etc/sluice/htdocs"));
        assert_eq!(document.resolve("/srv/www/"), Path::new("/srv/www"));
    }
}
