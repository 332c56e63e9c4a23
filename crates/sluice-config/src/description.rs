//! Sections and keys without the types that they are read into: what the reference page (`reference`) and the answers to unknown
//! keys (`suggest`) need of them.

/// A section without the type that it is read into: what the reference page and the answers to unknown keys need of it.
pub trait Described: Sync {
    /// As `Section::title`.
    fn title(&self) -> &'static str;
    /// As `Section::text`.
    fn text(&self) -> &'static str;
    /// Its keys.
    fn keys(&self) -> Vec<Entry>;
}

/// A key without the type of its section.
pub struct Entry {
    /// As `Key::name`.
    pub name: &'static str,
    /// What its value may be, as the reference page shows it.
    pub value: String,
    /// As `Key::default`.
    pub default: &'static Fallback,
    /// As `Key::text`.
    pub text: &'static str,
    /// As `Key::example`.
    pub example: &'static str,
    /// The section that is its value, if it is one.
    pub below: Option<&'static dyn Described>,
}

/// What holds when a key is absent.
#[derive(Clone, Copy)]
pub enum Fallback {
    /// The same as with this value.
    Value(&'static str),
    /// In words, where no value says it.
    Words(&'static str),
    /// Nothing: the key is required.
    Required,
}
