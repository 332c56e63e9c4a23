//! The tables of the configuration with their keys, as the generated reference page lists them, and the keys in an excerpt of TOML.
//!
//! An excerpt may be incomplete: it may begin below a header that it does not have, and `…` may stand for what is left out. Not here: where
//! the pages have such excerpts (`keys`).

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::CharIndices;

use crate::source::Text;

/// The end of the titles of tables whose names the user chooses: `[blocks.NAME]`.
const NAMED: &str = ".NAME";

/// The tables by their names without brackets: `site.route.script`. The file itself is ``, and an included file `include`.
#[derive(Debug, Default)]
pub(crate) struct KeyTables(BTreeMap<String, BTreeMap<String, Content>>);

/// The value of a key, as far as keys in it are concerned.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    /// A value without keys.
    Plain,
    /// A table whose keys are names of the user, such as variables.
    Names,
    /// The table of this name; of a list of tables, each.
    Table { name: String, is_list: bool },
}

/// The tables to one of which the keys of an excerpt belong.
#[derive(Clone, Debug, PartialEq)]
enum Owners {
    /// One of these.
    Tables(Vec<String>),
    /// A table of names, or one that a finding has named already.
    Any,
}

impl KeyTables {
    /// Reads the reference page.
    pub(crate) fn new(page: &Text) -> KeyTables {
        let mut tables: BTreeMap<String, BTreeMap<String, Content>> = BTreeMap::new();
        let mut anchors: BTreeMap<String, String> = BTreeMap::new();
        let mut rows: Vec<(String, String, String)> = Vec::new();
        let mut table = None;
        for line in page.text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                let name = match title {
                    "The file" => String::new(),
                    "Included files" => "include".to_owned(),
                    title => title.replace(['`', '[', ']'], ""),
                };
                tables.entry(name.clone()).or_default();
                anchors.insert(name.replace('.', "").to_lowercase(), name.clone());
                table = Some(name);
            } else if let (Some(table), Some((key, row))) = (&table, row(line)) {
                rows.push((table.clone(), key.to_owned(), row.to_owned()));
            }
        }
        for (table, key, row) in rows {
            let value = row.split(" | ").next().unwrap_or_default();
            let anchor = value.split_once("](#").and_then(|(_, rest)| rest.split_once(')'));
            let content = match anchor.and_then(|(anchor, _)| anchors.get(anchor)) {
                Some(name) => Content::Table {
                    name: name.clone(),
                    is_list: value.contains("[sections]") && !name.ends_with(NAMED),
                },
                None if value.starts_with("table of ") => Content::Names,
                None => Content::Plain,
            };
            tables.entry(table).or_default().insert(key, content);
        }
        // A block has the keys of a route and of a site.
        let shared = ["site", "site.route"]
            .into_iter()
            .filter_map(|name| tables.get(name).cloned());
        let shared: Vec<_> = shared.flatten().collect();
        if let Some(block) = tables.get_mut("blocks.NAME") {
            block.extend(shared);
        }
        KeyTables(tables)
    }

    /// Whether there is such a key in any table.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.0.values().any(|keys| keys.contains_key(key))
    }

    /// The table that a header such as `[[site.route]]` names, `None` for a table of names; the error says what is wrong.
    pub(crate) fn table_of_header(&self, header: &str) -> Result<Option<String>, String> {
        let path: String = header.replace(['[', ']'], "");
        let mut parts = path.split('.');
        let root = parts.next().unwrap_or_default();
        let in_root = |table: &str| self.0.get(table).and_then(|keys| keys.get(root));
        let mut content = in_root("").or_else(|| in_root("include"));
        if matches!(content, Some(Content::Table { name, .. }) if name.ends_with(NAMED)) {
            parts.next();
        }
        for part in parts {
            content = match content {
                Some(Content::Table { name, .. }) => self.0.get(name).and_then(|keys| keys.get(part)),
                Some(Content::Names) | None => content,
                Some(Content::Plain) => None,
            };
        }
        match content {
            Some(Content::Table { name, .. }) => Ok(Some(name.clone())),
            Some(Content::Names) => Ok(None),
            Some(Content::Plain) | None => Err(format!("{header} is no table of the configuration")),
        }
    }

    /// The tables that a key names: of `script`, `site.route.script`.
    pub(crate) fn tables_of_key(&self, key: &str) -> Vec<String> {
        let contents = self.0.values().filter_map(|keys| keys.get(key));
        let mut tables: Vec<String> = contents
            .filter_map(|content| match content {
                Content::Table { name, .. } => Some(name.clone()),
                _ => None,
            })
            .collect();
        tables.sort();
        tables.dedup();
        tables
    }

    /// Whether one of these tables has the key.
    pub(crate) fn is_in(&self, key: &str, tables: &[String]) -> bool {
        tables.iter().any(|table| self.has(table, key))
    }

    fn has(&self, table: &str, key: &str) -> bool {
        self.0.get(table).is_some_and(|keys| keys.contains_key(key))
    }

    /// The tables at or below this one.
    pub(crate) fn within(&self, table: &str) -> Vec<String> {
        let below = format!("{table}.");
        let names = self.0.keys();
        names
            .filter(|name| *name == table || name.starts_with(&below))
            .cloned()
            .collect()
    }

    /// Finds the keys of an excerpt of TOML that no table has, or another one. Each finding has its line, from 0 on.
    pub(crate) fn check(&self, excerpt: &str) -> Vec<(usize, String)> {
        let mut reader = Reader {
            tables: self,
            text: excerpt,
            rest: excerpt.char_indices().peekable(),
            findings: Vec::new(),
        };
        reader.document();
        reader.findings
    }

    /// The tables in which a key is, for a finding.
    fn homes(&self, key: &str) -> String {
        let homes = self
            .0
            .iter()
            .filter(|(table, keys)| keys.contains_key(key) && !table.ends_with(NAMED));
        let homes: Vec<&str> = homes
            .map(|(table, _)| if table.is_empty() { "the file" } else { table })
            .collect();
        homes.join(", ")
    }
}

/// The key of a row of a table of keys, and its other cells.
fn row(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("| `")?.split_once("` | ")
}

/// Reads an excerpt of TOML and checks its keys on the way. Values are skipped.
struct Reader<'a> {
    tables: &'a KeyTables,
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    findings: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn document(&mut self) {
        // Before the first header the table is not known: one that has all these keys.
        let mut owners = Owners::Tables(self.tables.0.keys().cloned().collect());
        let mut is_open = true;
        while let Some(letter) = self.next_statement("") {
            if letter == '[' {
                owners = self.header();
                is_open = false;
                self.line();
                continue;
            }
            let Some(key) = self.key() else {
                self.line();
                continue;
            };
            let value = self.enter(&key, &owners);
            if is_open
                && value != Owners::Any
                && let Owners::Tables(tables) = &mut owners
            {
                let first_part = key.split('.').next().unwrap_or_default().trim();
                tables.retain(|table| self.tables.has(table, first_part));
            }
            self.value(&value);
            self.line();
        }
    }

    /// The owner of the keys below a header, which begins here.
    fn header(&mut self) -> Owners {
        let at = self.at();
        let line = self.text[at..].lines().next().unwrap_or_default();
        let header = line.split('#').next().unwrap_or_default().trim();
        let text = match self.tables.table_of_header(header) {
            Ok(None) => return Owners::Any,
            Ok(Some(name)) if self.is_list(&name) == header.starts_with("[[") => return Owners::Tables(vec![name]),
            Ok(Some(name)) if self.is_list(&name) => {
                format!("{header}: write [[{name}]], because there may be several")
            }
            Ok(Some(name)) => format!("{header}: write [{name}], because there is one"),
            Err(text) => text,
        };
        self.find(text);
        Owners::Any
    }

    /// Whether a table is written with two brackets.
    fn is_list(&self, table: &str) -> bool {
        let contents = self.tables.0.values().flat_map(BTreeMap::values);
        contents
            .filter_map(|content| match content {
                Content::Table { name, is_list } if name == table => Some(*is_list),
                _ => None,
            })
            .any(|is_list| is_list)
    }

    /// Checks a key, and returns the owners of the keys in its value.
    fn enter(&mut self, key: &str, owners: &Owners) -> Owners {
        let mut owners = owners.clone();
        for part in key.split('.').map(str::trim) {
            let Owners::Tables(tables) = &owners else {
                return Owners::Any;
            };
            let contents = tables.iter().filter_map(|table| self.tables.0.get(table)?.get(part));
            let contents: Vec<&Content> = contents.collect();
            if contents.is_empty() {
                let text = match self.tables.homes(part).as_str() {
                    "" => format!("`{part}` is no key of the configuration"),
                    homes => format!("`{part}` is no key of this table; it is one of {homes}"),
                };
                self.find(text);
                return Owners::Any;
            }
            let names = contents.iter().filter_map(|content| match content {
                Content::Table { name, .. } => Some(name.clone()),
                _ => None,
            });
            let names: Vec<String> = names.collect();
            let has_names = names.is_empty() && contents.contains(&&Content::Names);
            owners = match has_names || names.iter().any(|name| name.ends_with(NAMED)) {
                true => Owners::Any,
                false => Owners::Tables(names),
            };
        }
        owners
    }

    /// A value, whose keys belong to `owners`.
    fn value(&mut self, owners: &Owners) {
        match self.next_statement("\n") {
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            Some('[') => {
                self.rest.next();
                while !self.ends_with(']') {
                    self.value(owners);
                }
            }
            Some('{') => {
                self.rest.next();
                while !self.ends_with('}') {
                    let Some(key) = self.key() else {
                        self.bare();
                        continue;
                    };
                    let value = self.enter(&key, owners);
                    self.value(&value);
                }
            }
            Some(_) => self.bare(),
            None => {}
        }
    }

    /// A number, a truth value, a date or `…`.
    fn bare(&mut self) {
        self.rest.next();
        while self.rest.next_if(|(_, letter)| !",]}#\n".contains(*letter)).is_some() {}
    }

    fn quoted(&mut self, quote: char) {
        let fence = format!("{quote}{quote}{quote}");
        let at = self.at();
        let fence = match self.text[at..].starts_with(&fence) {
            true => fence,
            false => quote.to_string(),
        };
        fence.chars().for_each(|_| _ = self.rest.next());
        while let Some((at, letter)) = self.rest.next() {
            if letter == '\\' && quote == '"' {
                self.rest.next();
            } else if self.text[at..].starts_with(&fence) {
                fence.chars().skip(1).for_each(|_| _ = self.rest.next());
                return;
            }
        }
    }

    /// Reads the key before a `=` on this line, and the `=`. `None` without a key; then nothing is read. The parts of a key in quotation
    /// marks are names of the user.
    fn key(&mut self) -> Option<String> {
        let at = self.at();
        let rest = &self.text[at..];
        let (key, _) = rest.split_once('=')?;
        let key = key.trim_end();
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_-. ".contains(letter);
        let is_quoted = key.starts_with(['"', '\'']) && !key.contains(['\n', ',', '}']);
        if key.is_empty() || !(is_quoted || key.chars().all(is_bare)) {
            return None;
        }
        let end = at + rest.find('=')?;
        while self.rest.next_if(|(at, _)| *at <= end).is_some() {}
        Some(key.to_owned())
    }

    /// Skips white space, comments and commas, and returns the next letter; it ends at a line's end if `stop` holds that.
    fn next_statement(&mut self, stop: &str) -> Option<char> {
        loop {
            match self.rest.peek()?.1 {
                letter if stop.contains(letter) => return None,
                '#' => while self.rest.next_if(|(_, letter)| *letter != '\n').is_some() {},
                letter if letter.is_whitespace() || letter == ',' => _ = self.rest.next(),
                letter => return Some(letter),
            }
        }
    }

    /// Whether a list or a table ends here, as it does at the end of the text; its bracket is read.
    fn ends_with(&mut self, bracket: char) -> bool {
        let next = self.next_statement("");
        next.is_none() || self.rest.next_if(|(_, letter)| *letter == bracket).is_some()
    }

    /// Skips the rest of the line.
    fn line(&mut self) {
        while self.rest.next_if(|(_, letter)| *letter != '\n').is_some() {}
    }

    /// The offset in the text.
    fn at(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn find(&mut self, text: String) {
        let at = self.at();
        let line = self.text[..at].matches('\n').count();
        self.findings.push((line, text));
    }
}
