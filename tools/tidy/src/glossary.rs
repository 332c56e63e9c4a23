//! The tables of `docs/internals/glossary.md` that name words not to use: reading them, and looking a word up.
//!
//! Not here: where words are looked for, which is in `words`.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use crate::source::Text;

/// Where a word is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In an identifier, as a whole or as a part.
    Part,
    /// In an identifier, only as a whole.
    Name,
    /// In the name of an item, a module or a method, where it is defined.
    Definition,
    /// In comments, docs and quoted text.
    Prose,
}

/// A word or phrase not to use.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The word as it stands in the table.
    pub(crate) word: String,
    /// The words or parts in lower case.
    parts: Vec<String>,
    /// The word to write instead.
    pub(crate) replacement: String,
    scopes: Vec<Scope>,
}

/// An identifier or a file in which a word stays.
#[derive(Debug)]
struct Exception {
    word: String,
    /// An identifier, or the end of a path if it holds a dot or a slash.
    within: String,
    line: usize,
}

/// The words not to use.
#[derive(Debug, Default)]
pub(crate) struct Glossary {
    path: String,
    entries: Vec<Entry>,
    by_first_part: HashMap<String, Vec<usize>>,
    exceptions: Vec<Exception>,
    used: RefCell<BTreeSet<usize>>,
    /// Rows that cannot be read.
    mistakes: Vec<String>,
}

impl Glossary {
    pub(crate) fn new(page: &Text) -> Glossary {
        let mut glossary = Glossary { path: page.path.clone(), ..Glossary::default() };
        let mut section = "";
        for (index, line) in page.text.lines().enumerate() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title;
            }
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let words: Vec<&str> = code_spans(cells[0]).collect();
            if !line.starts_with('|') || words.is_empty() {
                continue;
            }
            let is_read = match (section, cells.as_slice()) {
                ("Words not to use", [_, replacement, scopes]) => glossary.add_entries(&words, replacement, scopes),
                ("Where a word stays", [_, within, reason]) if !reason.is_empty() => {
                    glossary.add_exception(words[0], within, index + 1)
                }
                (other, _) => !["Words not to use", "Where a word stays"].contains(&other),
            };
            if !is_read {
                let mistake = format!("{}:{}: this row of \"{section}\" cannot be read", page.path, index + 1);
                glossary.mistakes.push(mistake);
            }
        }
        glossary
    }

    fn add_entries(&mut self, words: &[&str], replacement: &str, scopes: &str) -> bool {
        let scopes: Option<Vec<Option<Scope>>> = scopes
            .split(", ")
            .map(|scope| match scope {
                "part" => Some(Some(Scope::Part)),
                "name" => Some(Some(Scope::Name)),
                "definition" => Some(Some(Scope::Definition)),
                "prose" => Some(Some(Scope::Prose)),
                "reading" => Some(None),
                _ => None,
            })
            .collect();
        let (Some(scopes), false) = (scopes, replacement.is_empty()) else {
            return false;
        };
        for word in words {
            let parts = parts(word);
            let index = self.entries.len();
            self.by_first_part.entry(parts[0].clone()).or_default().push(index);
            self.entries.push(Entry {
                word: (*word).to_owned(),
                parts,
                replacement: replacement.to_owned(),
                scopes: scopes.iter().copied().flatten().collect(),
            });
        }
        true
    }

    fn add_exception(&mut self, word: &str, within: &str, line: usize) -> bool {
        let Some(within) = code_spans(within).next() else {
            return false;
        };
        self.exceptions.push(Exception {
            word: word.to_owned(),
            within: within.to_owned(),
            line,
        });
        true
    }

    /// The words not to use that an identifier is or holds. `scopes` says which rows count.
    pub(crate) fn in_name(&self, name: &str, scopes: &[Scope]) -> Vec<&Entry> {
        let parts = parts(name);
        let mut found = Vec::new();
        for at in 0..parts.len() {
            for entry in self.beginning_with(&parts[at]) {
                let is_part = entry.scopes.contains(&Scope::Part)
                    && scopes.contains(&Scope::Part)
                    && parts[at..].starts_with(&entry.parts);
                let is_whole = entry.word == name
                    && entry
                        .scopes
                        .iter()
                        .any(|scope| [Scope::Name, Scope::Definition].contains(scope) && scopes.contains(scope));
                if is_part || is_whole {
                    found.push(entry);
                }
            }
        }
        found
    }

    /// The phrase not to use that begins these words of prose, which are in lower case.
    pub(crate) fn in_words(&self, words: &[&str]) -> Option<&Entry> {
        let first = words.first()?;
        let mut found = self.beginning_with(first).filter(|entry| {
            entry.scopes.contains(&Scope::Prose)
                && entry.parts.len() <= words.len()
                && entry.parts.iter().zip(words).all(|(part, word)| part == word)
        });
        found.next()
    }

    fn beginning_with(&self, part: &str) -> impl Iterator<Item = &Entry> {
        let indices = self.by_first_part.get(part).map_or(&[][..], Vec::as_slice);
        indices.iter().map(|index| &self.entries[*index])
    }

    /// Whether the word of an entry may stay in a file, or in an identifier.
    pub(crate) fn allows(&self, entry: &Entry, path: &str, name: &str) -> bool {
        let found = self.exceptions.iter().position(|exception| {
            let is_path = exception.within.contains(['.', '/']);
            let is_within = if is_path {
                path.ends_with(&exception.within)
            } else {
                name == exception.within
            };
            exception.word == entry.word && is_within
        });
        self.used.borrow_mut().extend(found);
        found.is_some()
    }

    /// Rows that cannot be read, and exceptions that no file needed since this was made.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = self.mistakes.clone();
        if self.entries.is_empty() {
            mistakes.push(format!("{}: holds no table of words not to use", self.path));
        }
        for (index, exception) in self.exceptions.iter().enumerate() {
            if !self.used.borrow().contains(&index) {
                mistakes.push(format!(
                    "{}:{}: {} no longer holds \"{}\": remove the row",
                    self.path, exception.line, exception.within, exception.word
                ));
            }
        }
        mistakes
    }
}

/// The text between backquotes.
fn code_spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The words of a phrase, or the parts of an identifier, in lower case: `FileName`, `file_name` and `file name` are the same.
pub(crate) fn parts(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut parts = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(at + 1);
        let begins_word =
            before.is_some_and(|before| !before.is_uppercase()) || after.is_some_and(|after| after.is_lowercase());
        if !letter.is_alphanumeric() || (letter.is_uppercase() && begins_word) {
            parts.push(String::new());
        }
        if letter.is_alphanumeric() {
            parts.last_mut().expect("never empty").extend(letter.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        parts.push(String::new());
    }
    parts
}

/// A glossary of a few words for tests.
#[cfg(test)]
pub(crate) fn sample(rows: &str) -> Glossary {
    Glossary::new(&Text {
        path: "g.md".into(),
        text: format!(
            "# Glossary\n\n## Words to use\n\n| `a` | b |\n\n## Words not to use\n\n| not | but | where |\n|---|---|---|\n{rows}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_parts() {
        for (name, expected) in [
            ("file_name", vec!["file", "name"]),
            ("FileName", vec!["file", "name"]),
            ("HTTPServer2", vec!["http", "server2"]),
            ("FILE_MAX", vec!["file", "max"]),
            ("looked at", vec!["looked", "at"]),
            ("_", vec![""]),
        ] {
            assert_eq!(parts(name), expected);
        }
    }

    #[test]
    fn rows_that_cannot_be_read_and_exceptions_that_nobody_needs_are_found() {
        let mistakes = sample("| `a` | b | part |\n| `c` | d | sometimes |\n| `e` | | name |\n").mistakes();
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
        assert!(sample("").mistakes()[0].contains("holds no table"));
        let page = "| `a` | b | part |\n\n## Where a word stays\n\n| `a` | `x_a` | a reason |\n| `a` | `y.rs` | |\n";
        let glossary = sample(page);
        assert_eq!(glossary.mistakes().len(), 2, "{:?}", glossary.mistakes());
        let found = glossary.in_name("x_a", &[Scope::Part]);
        assert!(glossary.allows(found[0], "z.rs", "x_a") && !glossary.allows(found[0], "z.rs", "a"));
        assert_eq!(glossary.mistakes().len(), 1, "{:?}", glossary.mistakes());
    }
}
