//! A configuration file while it is read: its text, its directory, and the mistakes found so far.
//!
//! All mistakes are reported at once, in the order of their lines. The lines of all files are numbered in one sequence, so that a line tells its file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::block_places::BlockPlaces;
use super::description::Described;
use super::file_kind::FileKind;
use super::mistake::{ConfigErrors, Mistake};
use super::source_files::Files;

/// Mistakes reported at once; the rest are only counted.
const MISTAKES_SHOWN_MAX: usize = 20;

/// A bit of the spans of values that an included file has from a block of the main file. No file is as long.
pub(crate) const OF_MAIN: usize = 1 << (usize::BITS - 1);

/// A configuration file that is being read.
pub(crate) struct Document<'a> {
    /// The file as the user named it, for messages.
    pub(crate) name: &'a str,
    /// The keys that such a file may have.
    pub(crate) keys: &'static dyn Described,
    /// The text of the file.
    pub(crate) text: &'a str,
    /// The offsets of its newlines.
    newlines: Vec<usize>,
    /// Directory of the file, absolute: relative paths in the file start there.
    pub(crate) directory: &'a Path,
    /// The files that the configuration names; tests have files of their own.
    pub(crate) files: &'a dyn Files,
    /// The number of the line before the first one of this file: 0 for the main file. It stands for the file as a whole.
    pub(crate) whole: usize,
    /// The main file, for an included one.
    main: Option<&'a Document<'a>>,
    report: Rc<Report>,
}

/// The findings and facts that the files of a configuration share.
#[derive(Default)]
struct Report {
    /// The files in the order of their lines.
    files: RefCell<Vec<NumberedFile>>,
    mistakes: RefCell<Vec<(usize, String)>>,
    /// Mistakes for `check`, with which a server starts all the same.
    lacks: RefCell<Vec<(Lack, usize, String)>>,
    /// The blocks of all files.
    blocks: BlockPlaces,
    /// The directory of the engines. `None` if the configuration names none.
    sdk: RefCell<Option<PathBuf>>,
    /// Whether `[server.script_owners]` permits owners of scripts as their users.
    permits_owners: std::cell::Cell<bool>,
}

/// A reason for which a server starts without a part of its configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    /// A program or directory that does not exist.
    Missing,
    /// A program or directory that the permissions hide from the user of this process.
    Denied,
    /// A setting that is left out until the configuration is read again.
    Skipped,
}

/// A file and the numbers of its lines.
struct NumberedFile {
    name: String,
    /// The directory of the file, absolute.
    directory: PathBuf,
    /// The number before its first line.
    whole: usize,
    /// The number of its last line.
    last: usize,
}

/// A value and its line. The lines of several files are numbered in one sequence (`Document::whole`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl<T> At<T> {
    pub(crate) fn new(value: T, line: usize) -> At<T> {
        At { value, line }
    }
}

impl<'a> Document<'a> {
    /// The main file, without any mistakes yet.
    pub(crate) fn new(
        keys: &'static dyn Described,
        name: &'a str,
        text: &'a str,
        directory: &'a Path,
        files: &'a dyn Files,
    ) -> Self {
        let report = Rc::<Report>::default();
        Document {
            name,
            keys,
            text,
            newlines: newlines(text).collect(),
            directory,
            files,
            main: None,
            whole: report.add(name, text, directory),
            report,
        }
    }

    /// A file that this one includes; its lines follow those of all files so far.
    pub(crate) fn include<'b>(
        &'b self,
        keys: &'static dyn Described,
        name: &'b str,
        text: &'b str,
        directory: &'b Path,
    ) -> Document<'b> {
        Document {
            name,
            keys,
            text,
            newlines: newlines(text).collect(),
            directory,
            main: Some(self),
            whole: self.report.add(name, text, directory),
            report: Rc::clone(&self.report),
            ..*self
        }
    }

    /// Returns what is at a path. Whose it is, is noted, too: the process that reads the bundle may find something else there.
    pub(crate) fn kind(&self, path: &Path) -> FileKind {
        let _noted = self.files.source().tolerates(&[path]);
        self.files.kind(path)
    }

    /// Whether nothing is at a path.
    pub(crate) fn is_missing(&self, path: &Path) -> bool {
        matches!(self.files.kind(path), FileKind::Missing(_))
    }

    /// The directory of the engines, if the configuration has named it.
    pub(crate) fn sdk(&self) -> Option<PathBuf> {
        self.report.sdk.borrow().clone()
    }

    /// Whether scripts may run as the owners of their files, as far as the file was read.
    pub(crate) fn permits_owners(&self) -> bool {
        self.report.permits_owners.get()
    }

    /// Notes that scripts may run as the owners of their files. `[server]` comes before the routes.
    pub(crate) fn permit_owners(&self) {
        self.report.permits_owners.set(true);
    }

    /// Sets the directory of the engines, for the scripts that are read afterwards.
    pub(crate) fn set_sdk(&self, directory: PathBuf) {
        *self.report.sdk.borrow_mut() = Some(directory);
    }

    /// Records a mistake on a line of any of the files; `whole` means the file as a whole.
    pub(crate) fn report(&self, line: usize, message: impl Into<String>) {
        self.report.mistakes.borrow_mut().push((line, message.into()));
    }

    /// Records something that a server starts without, while it is a mistake for `check`.
    pub(crate) fn report_lack(&self, lack: Lack, line: usize, message: impl Into<String>) {
        self.report.lacks.borrow_mut().push((lack, line, message.into()));
    }

    /// Records that a program or directory does not exist.
    pub(crate) fn report_missing(&self, line: usize, message: impl Into<String>) {
        self.report_lack(Lack::Missing, line, message);
    }

    /// Takes the messages about what a server starts without, each with its file and line. They are no longer mistakes then.
    pub(crate) fn take_lacks(&self) -> Vec<String> {
        let mut lacks = self.sorted_lacks();
        lacks.dedup();
        let shown = lacks.into_iter().map(|(lack, line, message)| {
            let meanwhile = match lack {
                Lack::Missing => "until it exists the answer is 503",
                Lack::Denied => "until that changes the answer is 503",
                Lack::Skipped => "it is left out until the next reload",
            };
            format!("{}: {message}; {meanwhile}", self.origin(line))
        });
        shown.collect()
    }

    fn sorted_lacks(&self) -> Vec<(Lack, usize, String)> {
        let mut lacks = self.report.lacks.take();
        lacks.sort_by_key(|(lack, line, _)| (*lack, *line));
        lacks
    }

    /// The number of messages so far about what a server starts without.
    pub(crate) fn lacks(&self) -> usize {
        self.report.lacks.borrow().len()
    }

    /// Forgets the messages that came after the first `number` ones: nobody needs what they are about.
    pub(crate) fn forget_lacks_after(&self, number: usize) {
        self.report.lacks.borrow_mut().truncate(number);
    }

    /// Records a fault of a file that only one site or route needs. Where it is tolerated, the server does `instead`; otherwise it is a mistake.
    pub(crate) fn report_fault(&self, line: usize, file: &Path, message: &str, instead: &str) {
        let what = format!("{}: {message}", self.origin(line));
        let source = self.files.source();
        if !source.tolerate(&what, &[file], || format!("{what}; {instead}")) {
            self.report(line, message);
        }
    }

    /// Whether a server starts, which goes on without the files that only one site or route needs.
    pub(crate) fn is_start(&self) -> bool {
        self.files.source().is_tolerant()
    }

    /// The places of the blocks of all files.
    pub(crate) fn blocks(&self) -> &BlockPlaces {
        &self.report.blocks
    }

    /// Whether a mistake was recorded, in any of the files.
    pub(crate) fn has_mistakes(&self) -> bool {
        !self.report.mistakes.borrow().is_empty()
    }

    /// Reads each value of a table. A message about one is reported on its line, and the value is left out.
    pub(crate) fn each_pair<T>(
        &self,
        pairs: Vec<(String, At<String>)>,
        mut read: impl FnMut(&str, &At<String>) -> Result<T, String>,
    ) -> BTreeMap<String, T> {
        let mut all = BTreeMap::new();
        for (name, value) in pairs {
            match read(&name, &value) {
                Ok(read) => drop(all.insert(name, read)),
                Err(message) => self.report(value.line, message),
            }
        }
        all
    }

    /// The line of a byte offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        let (document, offset) = self.of(offset);
        document.whole + document.line_here(offset)
    }

    /// The line, from 1, of an offset in the text of this file.
    fn line_here(&self, offset: usize) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < offset)
    }

    /// The file of an offset, which is the main one for values of its blocks, and the offset in it.
    fn of(&self, offset: usize) -> (&Document<'a>, usize) {
        match self.main.filter(|_| offset & OF_MAIN != 0) {
            Some(main) => (main, offset & !OF_MAIN),
            None => (self, offset),
        }
    }

    /// A line of any of the files, for a message about this one: `line 12`, or `line 12 of sites/wiki.toml`.
    pub(crate) fn shown_line(&self, line: usize) -> String {
        self.shown_line_beside(line, self.whole)
    }

    /// The same, for a message about another line.
    pub(crate) fn shown_line_beside(&self, line: usize, other: usize) -> String {
        let (name, number) = self.report.place(line);
        match self.is_same_file(line, other) {
            true => format!("line {number}"),
            false => format!("line {number} of {name}"),
        }
    }

    /// Whether two lines are in one file.
    pub(crate) fn is_same_file(&self, line: usize, other: usize) -> bool {
        self.report.place(line).0 == self.report.place(other).0
    }

    /// The text of the line of a byte offset.
    pub(crate) fn line_text(&self, offset: usize) -> &str {
        let (document, offset) = self.of(offset);
        let before = document.newlines[..document.line_here(offset) - 1].last();
        let rest = document.text.get(before.map_or(0, |newline| newline + 1)..);
        rest.and_then(|rest| rest.lines().next()).unwrap_or_default()
    }

    /// The first line of the text at `span`, shortened to 40 characters, for a message.
    pub(crate) fn excerpt(&self, span: Range<usize>) -> String {
        let ((document, start), (_, end)) = (self.of(span.start), self.of(span.end));
        let whole = document.text.get(start..end).unwrap_or_default();
        let first = whole.lines().next().unwrap_or_default();
        let short: String = first.chars().take(100).collect();
        if short.len() < whole.len() {
            format!("{short}…")
        } else {
            short
        }
    }

    /// The position of a line as the running server's messages name it: `sluice.toml:12`.
    pub(crate) fn origin(&self, line: usize) -> String {
        let (name, line) = self.report.place(line);
        format!("{name}:{line}")
    }

    /// The path of this file, absolute.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory
            .join(Path::new(self.name).file_name().unwrap_or_default())
    }

    /// Makes a path of the configuration absolute: relative ones start from the directory of the file with this line.
    pub(crate) fn resolve(&self, line: usize, path: &str) -> PathBuf {
        // Collected from its components, so that scripts get no trailing slash and no `/./`.
        self.report.directory(line).join(path).components().collect()
    }

    /// Ends the reading: the value if there was no mistake, or else all mistakes.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        let mut mistakes = self.report.mistakes.take();
        let lacks = self.sorted_lacks().into_iter();
        mistakes.extend(lacks.map(|(_, line, message)| (line, message)));
        if mistakes.is_empty() {
            return Ok(value);
        }
        mistakes.sort_by_key(|(line, _)| *line);
        mistakes.dedup();
        let more = mistakes.len().saturating_sub(MISTAKES_SHOWN_MAX);
        let shown = mistakes.into_iter().take(MISTAKES_SHOWN_MAX).map(|(line, message)| {
            let shown = |used: usize| self.shown_line_beside(used, line);
            let message = self.report.blocks.name_in(message, line, shown);
            let (name, line) = self.report.place(line);
            Mistake {
                file: Some(name),
                line: (line > 0).then_some(line),
                message,
            }
        });
        let mut mistakes: Vec<Mistake> = shown.collect();
        if more > 0 {
            mistakes.push(Mistake {
                file: Some(self.name.to_owned()),
                line: None,
                message: format!("and {more} more"),
            });
        }
        Err(ConfigErrors { mistakes })
    }
}

impl Report {
    /// Adds a file after the others. Returns the number before its first line.
    fn add(&self, name: &str, text: &str, directory: &Path) -> usize {
        let mut files = self.files.borrow_mut();
        let whole = files.last().map_or(0, |file| file.last + 1);
        files.push(NumberedFile {
            name: name.to_owned(),
            directory: directory.to_owned(),
            whole,
            last: whole + 1 + newlines(text).count(),
        });
        whole
    }

    /// The directory of the file of a line.
    fn directory(&self, line: usize) -> PathBuf {
        let files = self.files.borrow();
        let file = files.iter().rfind(|file| file.whole <= line);
        file.map_or_else(Default::default, |file| file.directory.clone())
    }

    /// The file of a line, and the line's number in it, from 1; 0 for the file as a whole.
    fn place(&self, line: usize) -> (String, usize) {
        let files = self.files.borrow();
        let file = files.iter().rfind(|file| file.whole <= line);
        file.map_or_else(Default::default, |file| (file.name.clone(), line - file.whole))
    }
}

fn newlines(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('\n').map(|(offset, _)| offset)
}

/// The text of a configuration file. The error is the line, from 1, of the first byte that is not UTF-8.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String, usize> {
    String::from_utf8(bytes).map_err(|error| line_in(error.as_bytes(), error.utf8_error().valid_up_to()))
}

/// The line, from 1, of a byte offset.
fn line_in(text: &[u8], offset: usize) -> usize {
    let before = &text[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use sluice_settings::source::Source;

    use super::super::file_kind::FileKind;
    use super::super::root::ROOT;
    use super::super::source_files::SourceFiles;
    use super::*;

    fn document(text: &str) -> Document<'_> {
        Document::new(
            &ROOT,
            "sluice.toml",
            text,
            Path::new("/etc/sluice"),
            &SourceFiles(Source::DISK),
        )
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
    fn lines_of_several_files_are_numbered_in_one_sequence() {
        let main = document("a\nb");
        let directory = Path::new("/etc/sluice/sites");
        let (first, second) = (
            main.include(&ROOT, "sites/a.toml", "x\ny\n", directory),
            main.include(&ROOT, "sites/b.toml", "z", directory),
        );
        let line = second.line(0);
        assert_eq!(second.origin(line), "sites/b.toml:1");
        assert_eq!(main.shown_line(line), "line 1 of sites/b.toml");
        assert_eq!(
            (second.shown_line(line), main.shown_line(2)),
            ("line 1".to_owned(), "line 2".to_owned())
        );
        second.report(line, "last");
        first.report(first.whole, "whole");
        first.report(first.line(2), "second line");
        main.report(2, "main");
        let shown = main.finish(()).unwrap_err().to_string();
        assert_eq!(
            shown,
            "sluice.toml:2: main\nsites/a.toml: whole\nsites/a.toml:2: second line\nsites/b.toml:1: last"
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
        let text = format!("a = [\n1]\nb = \"{}\"", "x".repeat(200));
        let document = document(&text);
        assert_eq!(document.excerpt(4..8), "[…");
        assert_eq!(document.excerpt(13..text.len()), format!("\"{}…", "x".repeat(99)));
    }

    #[test]
    fn relative_paths_start_from_the_directory_of_the_file() {
        let document = document("");
        assert_eq!(document.resolve(1, "./htdocs/"), Path::new("/etc/sluice/htdocs"));
        assert_eq!(document.resolve(1, "/srv/www/"), Path::new("/srv/www"));
    }
}
