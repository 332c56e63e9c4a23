//! The lines of blocks, for messages about keys in them: such a message is about a route or site that does not have the line.

use std::cell::RefCell;
use std::ops::RangeInclusive;

/// The blocks of all files.
#[derive(Default)]
pub(crate) struct BlockPlaces(RefCell<Vec<BlockLines>>);

/// The lines of a block.
struct BlockLines {
    name: String,
    lines: RangeInclusive<usize>,
    /// The first line with a `use` of it.
    used: Option<usize>,
}

impl BlockPlaces {
    /// Notes the lines of a block.
    pub(crate) fn add(&self, name: &str, lines: RangeInclusive<usize>) {
        self.0
            .borrow_mut()
            .push(BlockLines { name: name.to_owned(), lines, used: None });
    }

    /// Notes that a line uses the block that begins on another.
    pub(crate) fn note_use(&self, block: usize, line: usize) {
        let mut blocks = self.0.borrow_mut();
        if let Some(block) = blocks.iter_mut().find(|known| *known.lines.start() == block) {
            block.used.get_or_insert(line);
        }
    }

    /// The name of a key, with the block that its line is in.
    pub(crate) fn named(&self, key: &str, line: usize) -> String {
        let blocks = self.0.borrow();
        match blocks.iter().find(|block| block.lines.contains(&line)) {
            Some(block) => format!("{key} (of [blocks.{}])", block.name),
            None => key.to_owned(),
        }
    }

    /// A message about a line; of a key in a block, with the block and a line that uses it. `shown` describes that line.
    pub(crate) fn name_in(&self, message: String, line: usize, shown: impl Fn(usize) -> String) -> String {
        let blocks = self.0.borrow();
        match blocks.iter().find(|block| block.lines.contains(&line)) {
            Some(BlockLines { name, used: Some(used), .. }) if !message.contains("[blocks.") => {
                format!("{message} (in [blocks.{name}], which {} uses)", shown(*used))
            }
            _ => message,
        }
    }
}
