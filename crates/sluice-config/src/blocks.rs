//! `[blocks.NAME]`: keys that several routes or sites share, and `use`, which puts them there.
//!
//! Blocks are replaced before sections are read, so a section reads a block's keys as its own. A value keeps the file and line of its block: spans of a block
//! of the main file get `OF_MAIN` added where an included file uses it. Blocks of the main file are for all files, others for their own file.

use std::cell::Cell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use super::document::{Document, OF_MAIN};
use super::key::{Key, Section};
use super::suggest;

/// Blocks that use each other, one within the other, at most.
const DEPTH_MAX: usize = 16;

pub(super) static BLOCK: Section<()> = Section {
    title: "[blocks.NAME]",
    keys: &[Key::words("use", |_, _, _| Ok(()))],
};

/// The blocks of a file.
pub(super) struct Blocks<'t> {
    own: Vec<Block<'t>>,
    /// The blocks of the main file, for an included one.
    main: Option<&'t Blocks<'t>>,
    /// Names of `[blocks]` that are no tables.
    flawed: Vec<String>,
}

/// A block, in which the blocks that it uses are replaced.
struct Block<'t> {
    name: String,
    line: usize,
    /// Empty until the block is complete.
    table: DeTable<'t>,
    is_complete: bool,
    is_used: Cell<bool>,
}

impl<'t> Blocks<'t> {
    /// Reads the blocks of a file, and replaces them in its sites and routes.
    pub(super) fn replace(
        table: &mut DeTable<'t>,
        document: &Document<'_>,
        main: Option<&'t Blocks<'t>>,
    ) -> Blocks<'t> {
        let mut blocks = Blocks { own: Vec::new(), main, flawed: Vec::new() };
        let written = table
            .get("blocks")
            .and_then(|blocks| blocks.get_ref().as_table())
            .cloned();
        let written = written.unwrap_or_default();
        let flawed = written.iter().filter(|(_, block)| !block.get_ref().is_table());
        blocks.flawed = flawed.map(|(name, _)| name.get_ref().to_string()).collect();
        written.keys().for_each(|name| blocks.add(name, &written, document, 1));
        for name in ["site", "route"] {
            tables_of(table, name).for_each(|one| blocks.replace_in(one, document));
        }
        blocks
    }

    /// Adds the block of a name, after those that it uses. `depth` counts the blocks that use each other.
    fn add(&mut self, name: &Spanned<DeString<'t>>, written: &DeTable<'t>, document: &Document<'_>, depth: usize) {
        let Some(DeValue::Table(table)) = written.get(name.get_ref().as_ref()).map(Spanned::get_ref) else {
            return;
        };
        if self.own.iter().any(|block| block.name == *name.get_ref()) {
            return;
        }
        let line = document.line(name.span().start);
        document.blocks().add(
            name.get_ref(),
            line..=document.line(last_offset(table).max(name.span().start)),
        );
        if let Some(other) = self.main.and_then(|main| main.find(name.get_ref())) {
            let (name, place) = (&other.name, document.shown_line_beside(other.line, line));
            document.report(
                line,
                format!("[blocks.{name}]: so is a block of the main file called ({place}): give this one another name"),
            );
        }
        let number = self.own.len();
        self.own.push(Block {
            name: name.get_ref().to_string(),
            line,
            table: DeTable::new(),
            is_complete: false,
            is_used: Cell::new(false),
        });
        for (used, span) in names(table) {
            let is_begun = self.own.iter().any(|block| block.name == used && !block.is_complete);
            match written.get_key_value(used.as_str()) {
                Some((key, _)) if !is_begun && depth < DEPTH_MAX => self.add(key, written, document, depth + 1),
                Some(_) if is_begun => document.report(
                    document.line(span.start),
                    format!("[blocks.{0}]: use = \"{used}\": a block cannot use itself, also not by others: remove it", name.get_ref()),
                ),
                Some(_) if !self.own.iter().any(|block| block.name == used) => document.report(
                    document.line(span.start),
                    format!(
                        "[blocks.{0}]: use = \"{used}\": no more than {DEPTH_MAX} blocks use one another in a row: write the keys of some of them into one",
                        name.get_ref()
                    ),
                ),
                _ => {}
            }
        }
        let mut table = table.clone();
        self.replace_in(&mut table, document);
        self.own[number].table = table;
        self.own[number].is_complete = true;
    }

    /// Replaces the blocks of a site or route, and of the routes of a site.
    fn replace_in(&self, table: &mut DeTable<'t>, document: &Document<'_>) {
        let mut merged = DeTable::new();
        for (name, span) in names(table) {
            match self.find(&name) {
                Some(block) => {
                    block.is_used.set(true);
                    document.blocks().note_use(block.line, document.line(span.start));
                    let is_own = self.own.iter().any(|own| std::ptr::eq(own, block));
                    let mut keys = block.table.clone();
                    keys.remove("use");
                    merge(&mut merged, if is_own { keys } else { of_main(&keys) });
                }
                // Reported where it is written.
                None if self.flawed.contains(&name) => {}
                None => document.report(document.line(span.start), self.unknown(&name)),
            }
        }
        for route in tables_of(table, "route") {
            self.replace_in(route, document);
        }
        if !merged.is_empty() {
            merge(&mut merged, std::mem::take(table));
            *table = merged;
        }
    }

    fn find(&self, name: &str) -> Option<&Block<'t>> {
        let own = self.own.iter().find(|block| block.name == name);
        own.or_else(|| self.main?.find(name))
    }

    /// The message about a name that no block has.
    fn unknown(&self, name: &str) -> String {
        let all = || self.own.iter().chain(self.main.iter().flat_map(|main| &main.own));
        let names = || all().map(|block| block.name.as_str());
        let hint = match suggest::similar(name, names()) {
            Some(similar) => format!("did you mean \"{similar}\"?"),
            None if names().next().is_none() => format!("write [blocks.{name}] with the keys to share"),
            None => {
                let mut names: Vec<&str> = names().collect();
                names.sort_unstable();
                format!("possible blocks: {}", names.join(", "))
            }
        };
        format!("use = \"{}\": there is no such block; {hint}", name.escape_debug())
    }

    /// Warnings about blocks that nothing uses.
    pub(super) fn unused(&self, document: &Document<'_>) -> Vec<String> {
        let unused = self.own.iter().filter(|block| !block.is_used.get());
        let warning = |block: &Block<'_>| {
            let name = &block.name;
            format!(
                "{}: [blocks.{name}] is used nowhere: write use = \"{name}\" in a route or site, or remove it",
                document.origin(block.line)
            )
        };
        unused.map(warning).collect()
    }
}

/// The tables in the list of a key.
fn tables_of<'a, 't>(table: &'a mut DeTable<'t>, name: &str) -> impl Iterator<Item = &'a mut DeTable<'t>> {
    let items = match table.get_mut(name).map(Spanned::get_mut) {
        Some(DeValue::Array(items)) => Some(items.iter_mut()),
        _ => None,
    };
    items.into_iter().flatten().filter_map(|item| match item.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    })
}

/// The last place of a value in a table.
fn last_offset(table: &DeTable<'_>) -> usize {
    let last = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Table(below) => last_offset(below).max(value.span().start),
        _ => value.span().end.saturating_sub(1),
    };
    table.iter().map(|(_, value)| last(value)).max().unwrap_or(0)
}

/// The names in `use`, each once, with their places. Values of other types are reported where the key is read.
fn names(table: &DeTable<'_>) -> Vec<(String, Range<usize>)> {
    let mut names: Vec<(String, Range<usize>)> = Vec::new();
    let add = |value: &Spanned<DeValue<'_>>| {
        if let Some(name) = value.get_ref().as_str()
            && names.iter().all(|(other, _)| other != name)
        {
            names.push((name.to_owned(), value.span()));
        }
    };
    let written = table.get("use");
    match written.and_then(|written| written.get_ref().as_array()) {
        Some(list) => list.iter().for_each(add),
        None => written.into_iter().for_each(add),
    }
    names
}

/// Puts keys over others: tables are merged, the routes of a site follow the others, other values are replaced.
fn merge<'t>(below: &mut DeTable<'t>, above: DeTable<'t>) {
    for (key, mut value) in above {
        if let Some(old) = below.remove(key.get_ref().as_ref()) {
            match (old.into_inner(), value.get_mut()) {
                (DeValue::Table(mut old), DeValue::Table(new)) => {
                    merge(&mut old, std::mem::take(new));
                    *new = old;
                }
                (DeValue::Array(mut old), DeValue::Array(new)) if key.get_ref() == "route" => {
                    new.iter().for_each(|route| old.push(route.clone()));
                    *new = old;
                }
                _ => {}
            }
        }
        below.insert(key, value);
    }
}

/// Keys of the main file, for an included file: their spans say so.
fn of_main<'t>(table: &DeTable<'t>) -> DeTable<'t> {
    let key = |key: &Spanned<DeString<'t>>| Spanned::new(moved(key.span()), key.get_ref().clone());
    table
        .iter()
        .map(|(name, value)| (key(name), value_of_main(value)))
        .collect()
}

fn value_of_main<'t>(value: &Spanned<DeValue<'t>>) -> Spanned<DeValue<'t>> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => DeValue::Table(of_main(table)),
        DeValue::Array(items) => {
            let mut moved = DeArray::new();
            items.iter().for_each(|item| moved.push(value_of_main(item)));
            DeValue::Array(moved)
        }
        other => other.clone(),
    };
    Spanned::new(moved(value.span()), inner)
}

fn moved(span: Range<usize>) -> Range<usize> {
    (span.start | OF_MAIN)..(span.end | OF_MAIN)
}
