//! One section of the file as TOML has it: its values by name, their lines, and mistakes about them.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::description::Described;
use super::document::{At, Document, Lack};
use super::file_kind::FileKind;
use super::texts::text_of;

/// A section of the file.
pub(crate) struct Table<'a> {
    /// The document that it belongs to.
    pub(crate) document: &'a Document<'a>,
    /// The name in messages, such as `[[site.route]].script`; empty for the top of the file.
    pub(crate) title: &'static str,
    /// The line of its header; for the top of a file, the file as a whole (`Document::whole`).
    pub(crate) line: usize,
    pub(super) values: &'a DeTable<'a>,
}

/// A value of a section.
pub(crate) struct Written<'a> {
    /// The section that it belongs to.
    pub(crate) table: &'a Table<'a>,
    /// The key.
    pub(crate) name: &'static str,
    /// The line.
    pub(crate) line: usize,
    pub(super) value: &'a DeValue<'a>,
    pub(super) span: Range<usize>,
}

impl<'a> Table<'a> {
    /// A file as a whole.
    pub(crate) fn whole(document: &'a Document<'a>, values: &'a DeTable<'a>) -> Table<'a> {
        Table {
            document,
            title: document.keys.title(),
            line: document.whole,
            values,
        }
    }
}

impl Table<'_> {
    /// Whether the value of a key is one table, not a list of them.
    pub(crate) fn is_table(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| value.get_ref().is_table())
    }

    /// Whether the key is present, even with a wrong value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Whether no key is present.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether a key is present that the section does not know.
    pub(crate) fn has_unknown(&self, section: &dyn Described) -> bool {
        let is_known = |name: &str| section.keys().iter().any(|key| key.name == name);
        self.values.keys().any(|key| !is_known(key.get_ref().as_ref()))
    }

    /// The line of a key, or of the section's header if the key is absent.
    pub(crate) fn line_of(&self, name: &str) -> usize {
        match self.values.get_key_value(name) {
            Some((key, _)) => self.document.line(key.span().start),
            None => self.line,
        }
    }

    /// Reports a mistake on the line of the section's header.
    pub(crate) fn report(&self, message: &str) {
        self.document.report(self.line, message);
    }

    /// Reports that the section lacks a key, with an example of it.
    pub(crate) fn report_missing(&self, name: &'static str) {
        let (title, example) = (self.title, text_of(self.title, name).example);
        self.report(&format!(
            "{title} lacks {name}: write, for instance, {name} = {example}"
        ));
    }

    /// Reports a mistake about the value of a key: `name = value: message`. Does nothing if the key is absent.
    pub(crate) fn refuse(&self, name: &'static str, message: &str) {
        if let Some(written) = self.written(name) {
            written.refuse(message);
        }
    }

    /// The value of a key.
    pub(crate) fn written(&self, name: &'static str) -> Option<Written<'_>> {
        let (key, value) = self.values.get_key_value(name)?;
        Some(Written {
            table: self,
            name,
            line: self.document.line(key.span().start),
            value: value.get_ref(),
            span: value.span(),
        })
    }
}

impl Written<'_> {
    /// Reports a mistake about the value: `name = value: message`.
    pub(crate) fn refuse(&self, message: &str) {
        let shown = self.shown();
        self.document()
            .report(shown.line, format!("{}: {message}", shown.value));
    }

    /// The key and its value as in the file, for a message about it that can only be written later.
    pub(crate) fn shown(&self) -> At<String> {
        let excerpt = self.document().excerpt(self.span.clone());
        // The value of a section is its header, which names the key itself.
        let is_header = excerpt.starts_with('[') && !self.value.is_array() || excerpt.starts_with("[[");
        self.at(if is_header {
            excerpt
        } else {
            format!("{} = {excerpt}", self.name)
        })
    }

    /// A value that the key may have, for a message.
    pub(crate) fn example(&self) -> &'static str {
        text_of(self.table.title, self.name).example
    }

    /// Reads each item of a list; `read` gets it with its line. A message about one is reported on its line, and the item is left out.
    pub(crate) fn each<T>(
        &self,
        items: Vec<At<String>>,
        mut read: impl FnMut(&str, usize) -> Result<T, String>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for At { value, line } in items {
            match read(&value, line) {
                Ok(item) => all.push(item),
                Err(message) => self.document().report(line, message),
            }
        }
        all
    }

    /// A value with this line.
    pub(crate) fn at<T>(&self, value: T) -> At<T> {
        At { value, line: self.line }
    }

    /// The document that the value belongs to.
    pub(crate) fn document(&self) -> &Document<'_> {
        self.table.document
    }
}

/// Reports a directory without which no server starts, if it does not exist. `name` is the key, or the part of its value, that names the directory.
pub(crate) fn require_directory(document: &Document<'_>, name: &str, path: &At<PathBuf>) {
    if let Err(message) = check_directory(document, name, path) {
        document.report(path.line, message);
    }
}

/// Reports a directory from which a route or site is served, if it does not exist: until then its requests get 503.
pub(crate) fn expect_directory(document: &Document<'_>, name: &str, path: &At<PathBuf>) {
    match check_directory(document, name, path) {
        Ok(()) => {}
        Err(message) => match document.kind(&path.value) {
            FileKind::Denied(_) => document.report_lack(Lack::Denied, path.line, message),
            kind if matches!(kind, FileKind::Missing(_)) || document.files.source().tolerates(&[&path.value]) => {
                document.report_missing(path.line, message);
            }
            _ => document.report(path.line, message),
        },
    }
}

/// Sets a directory from which a route or site is served, and reports it as [`expect_directory`] does.
pub(crate) fn set_directory(place: &mut Option<PathBuf>, path: PathBuf, written: &Written<'_>) -> Result<(), String> {
    expect_directory(written.document(), written.name, &written.at(path.clone()));
    *place = Some(path);
    Ok(())
}

fn check_directory(document: &Document<'_>, name: &str, path: &At<PathBuf>) -> Result<(), String> {
    let shown = path.value.display();
    match document.kind(&path.value) {
        FileKind::Directory => Ok(()),
        FileKind::Missing(reason) => Err(format!(
            "{name}: no directory {shown} ({reason}): create it or fix the path"
        )),
        FileKind::Denied(reason) => Err(format!("{name}: directory {shown}: {reason}")),
        _ => Err(format!(
            "{name}: {shown} is not a directory: name the directory that holds it"
        )),
    }
}

/// Reports that the directory in which a file is to be created does not exist.
pub(crate) fn require_parent(document: &Document<'_>, name: &str, file: &At<PathBuf>) {
    if let Some(parent) = file.value.parent().map(Path::to_owned) {
        let parent = At::new(parent, file.line);
        require_directory(document, name, &parent);
    }
}

/// Checks that a file exists and is a regular one.
pub(crate) fn require_file(written: &Written<'_>, file: &Path) -> Result<(), String> {
    match written.document().files.kind(file) {
        FileKind::File | FileKind::Program => Ok(()),
        FileKind::Missing(reason) | FileKind::Denied(reason) => Err(format!("cannot be read: {reason}")),
        FileKind::Directory | FileKind::Other => Err("is not a regular file".to_owned()),
    }
}

/// Checks a file as `require_file` does, except where its faults are tolerated: the server reports it when it opens the file, and goes on.
pub(crate) fn expect_file(written: &Written<'_>, file: &Path) -> Result<(), String> {
    match written.document().files.source().tolerates(&[file]) {
        true => Ok(()),
        false => require_file(written, file),
    }
}

/// Reports a pattern that finds nothing in a directory: its `*` is looked up there, so it needs one, and no text may follow that within the name.
pub(crate) fn require_star(document: &Document<'_>, path: &At<String>, what: &str) {
    let written = &path.value;
    let message = match written.split_once('*') {
        None => {
            let better = format!("{}/*", written.trim_end_matches('/'));
            format!(
                "path = \"{written}\": {what} in a directory need a \"*\" for the rest of the path: write \"{better}\""
            )
        }
        Some((_, after)) if after.is_empty() || after.starts_with('/') && !after.contains('*') => return,
        Some((before, after)) if after.starts_with('.') && !after.contains(['/', '*']) => format!(
            "path = \"{written}\": what the \"*\" matches is looked up in the directory, without \"{after}\", so nothing is found: write \
             \"{before}*\", and for scripts by suffix among files directory = \"…\", scripts = {{ \"{after}\" = \"…\" }} in the route"
        ),
        Some((before, _)) => format!(
            "path = \"{written}\": what the first \"*\" matches is looked up in the directory, without the rest, so nothing is found: \
             write \"{before}*\""
        ),
    };
    document.report(path.line, message);
}
