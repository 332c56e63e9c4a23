//! Sections and keys without the types that they are read into, for the reference page (`reference`) and the answers to unknown keys (`suggest`).

/// A section without the type that it is read into: what the reference page and the answers to unknown keys need of it.
pub trait Described: Sync {
    /// The name, see `Section::title`.
    fn title(&self) -> &'static str;
    /// The purpose of the section.
    fn text(&self) -> &'static str;
    /// The keys of the section.
    fn keys(&self) -> Vec<Entry>;
}

/// A key without the type of its section.
pub struct Entry {
    /// The name, see `Key::name`.
    pub name: &'static str,
    /// The allowed values, as the reference page shows them.
    pub value: String,
    /// Whether a section without the key is a mistake.
    pub is_required: bool,
    /// The value that applies when the key is absent; `None` for a required key.
    pub default: Option<Fallback>,
    /// The description, in whole sentences.
    pub text: &'static str,
    /// A value as written in the file, other than the default.
    pub example: &'static str,
    /// The section that is its value, if it is one.
    pub below: Option<&'static dyn Described>,
}

/// The value that applies when a key is absent.
#[derive(Clone, Copy)]
pub enum Fallback {
    /// The same as with this value.
    Value(&'static str),
    /// In words, where no value says it.
    Words(&'static str),
}
