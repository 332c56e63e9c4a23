//! A key of the configuration: its name, kind of value and setter, in one entry.
//!
//! Each section has a static list of such entries, in the file that interprets it (`listen`, `site`, `script` …). `section` reads a section with its list; the
//! reference page (`reference`) and the answers to unknown keys (`suggest`) come from it, too. Texts, defaults and examples are in `keys.md`.

use std::path::PathBuf;
use std::time::Duration;

use sluice_settings::ListenAddress;

use super::description::{Described, Entry};
use super::document::At;
use super::table::{Table, Written};
use super::texts::text_of;
use sluice_settings::notation::{format_duration, format_size};

/// A key of a section that is read into an `S`.
pub(crate) struct Key<S: 'static> {
    /// The name within the section.
    pub(crate) name: &'static str,
    /// The kind of value, with its setter.
    pub(crate) kind: Kind<S>,
    /// Whether a section without the key is a mistake.
    pub(crate) is_required: bool,
}

/// A section that is read into an `S`.
pub(crate) struct Section<S: 'static> {
    /// The name in messages and in the reference, such as `[[site.route]].script`; empty for the top of the file.
    pub(crate) title: &'static str,
    /// The keys, in the order in which they are read and the reference shows them.
    pub(crate) keys: &'static [Key<S>],
}

/// A setter. An error is a message about the value; it says what to write instead.
pub(crate) type Set<S, T> = fn(&mut S, T, &Written<'_>) -> Result<(), String>;

/// Sets what a key stands for; a setter of a value that needs no check.
///
/// # Errors
/// None.
pub(crate) fn set<P: From<T>, T>(place: &mut P, value: T) -> Result<(), String> {
    *place = value.into();
    Ok(())
}

/// Reads a table of another section, and puts the result into the `S`. Checks of several keys together belong here.
pub(crate) type Read<S> = fn(&mut S, &Table<'_>);

/// A word that a key takes, and what it sets.
pub(crate) type Word<S> = (&'static str, fn(&mut S));

/// The kinds of values that keys take, each with its setter.
pub(crate) enum Kind<S: 'static> {
    /// Any text.
    Text(Set<S, String>),
    /// A path, made absolute.
    Path(Set<S, PathBuf>),
    /// One of these words, or else a path, made absolute.
    WordOrPath(&'static [Word<S>], Set<S, PathBuf>),
    /// An address to listen on, or a list of them, each with its line.
    Addresses(Set<S, Vec<At<ListenAddress>>>),
    /// true or false.
    Flag(fn(&mut S, bool)),
    /// true or false, or one of these words.
    FlagOrWord(fn(&mut S, bool), &'static [Word<S>]),
    /// A list of texts, each with its line.
    Texts(Set<S, Vec<At<String>>>),
    /// A text, or a list of texts.
    Words(Set<S, Vec<String>>),
    /// Names with texts.
    Pairs(Set<S, Vec<(String, At<String>)>>),
    /// A whole number of a unit, such as `processes`.
    Number(&'static str, Bounds, fn(&mut S, u64)),
    /// A duration; the bounds are milliseconds.
    Duration(Bounds, fn(&mut S, Duration)),
    /// A size; the bounds are bytes.
    Size(Bounds, fn(&mut S, u64)),
    /// One of these words.
    Choice(&'static [Word<S>]),
    /// One of these numbers.
    Code(&'static [u16], fn(&mut S, u16)),
    /// A text, or a section that occurs once.
    TextOrTable(Set<S, String>, &'static dyn Described, Read<S>),
    /// A section that occurs once.
    Table(&'static dyn Described, Read<S>),
    /// A section that occurs once, or `false`, with its setter.
    TableOrOff(&'static dyn Described, fn(&mut S), Read<S>),
    /// A section that may occur several times.
    Tables(&'static dyn Described, Read<S>),
    /// Sections by names of the user's choice, which are read where they are used.
    Named(&'static dyn Described),
}

/// The least and the greatest value that a number may have.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// The least.
    pub(crate) least: u64,
    /// The greatest.
    pub(crate) most: u64,
    /// A value to write instead, or the reason for the bounds; empty for none.
    pub(crate) hint: &'static str,
}

/// Bounds that allow every number.
pub(crate) const ANY: Bounds = at_least(0, "");

/// Bounds without a greatest value.
pub(crate) const fn at_least(least: u64, hint: &'static str) -> Bounds {
    between(least, u64::MAX, hint)
}

/// Bounds with a hint, which is empty for none.
pub(crate) const fn between(least: u64, most: u64, hint: &'static str) -> Bounds {
    Bounds { least, most, hint }
}

/// A key of each kind, with the values of `Kind`.
impl<S> Key<S> {
    const fn new(name: &'static str, kind: Kind<S>) -> Key<S> {
        Key { name, kind, is_required: false }
    }

    /// The same key; a section without it is a mistake.
    pub(crate) const fn required(mut key: Key<S>) -> Key<S> {
        key.is_required = true;
        key
    }

    pub(crate) const fn text(name: &'static str, set: Set<S, String>) -> Key<S> {
        Key::new(name, Kind::Text(set))
    }

    pub(crate) const fn path(name: &'static str, set: Set<S, PathBuf>) -> Key<S> {
        Key::new(name, Kind::Path(set))
    }

    pub(crate) const fn word_or_path(name: &'static str, words: &'static [Word<S>], set: Set<S, PathBuf>) -> Key<S> {
        Key::new(name, Kind::WordOrPath(words, set))
    }

    pub(crate) const fn addresses(name: &'static str, set: Set<S, Vec<At<ListenAddress>>>) -> Key<S> {
        Key::new(name, Kind::Addresses(set))
    }

    pub(crate) const fn flag(name: &'static str, set: fn(&mut S, bool)) -> Key<S> {
        Key::new(name, Kind::Flag(set))
    }

    pub(crate) const fn flag_or_word(name: &'static str, set: fn(&mut S, bool), words: &'static [Word<S>]) -> Key<S> {
        Key::new(name, Kind::FlagOrWord(set, words))
    }

    pub(crate) const fn texts(name: &'static str, set: Set<S, Vec<At<String>>>) -> Key<S> {
        Key::new(name, Kind::Texts(set))
    }

    pub(crate) const fn words(name: &'static str, set: Set<S, Vec<String>>) -> Key<S> {
        Key::new(name, Kind::Words(set))
    }

    pub(crate) const fn pairs(name: &'static str, set: Set<S, Vec<(String, At<String>)>>) -> Key<S> {
        Key::new(name, Kind::Pairs(set))
    }

    pub(crate) const fn number(name: &'static str, unit: &'static str, bounds: Bounds, set: fn(&mut S, u64)) -> Key<S> {
        Key::new(name, Kind::Number(unit, bounds, set))
    }

    pub(crate) const fn duration(name: &'static str, bounds: Bounds, set: fn(&mut S, Duration)) -> Key<S> {
        Key::new(name, Kind::Duration(bounds, set))
    }

    pub(crate) const fn size(name: &'static str, bounds: Bounds, set: fn(&mut S, u64)) -> Key<S> {
        Key::new(name, Kind::Size(bounds, set))
    }

    pub(crate) const fn choice(name: &'static str, words: &'static [Word<S>]) -> Key<S> {
        Key::new(name, Kind::Choice(words))
    }

    pub(crate) const fn code(name: &'static str, codes: &'static [u16], set: fn(&mut S, u16)) -> Key<S> {
        Key::new(name, Kind::Code(codes, set))
    }

    pub(crate) const fn text_or_table(
        name: &'static str,
        set: Set<S, String>,
        section: &'static dyn Described,
        read: Read<S>,
    ) -> Key<S> {
        Key::new(name, Kind::TextOrTable(set, section, read))
    }

    pub(crate) const fn table(name: &'static str, section: &'static dyn Described, read: Read<S>) -> Key<S> {
        Key::new(name, Kind::Table(section, read))
    }

    pub(crate) const fn table_or_off(
        name: &'static str,
        section: &'static dyn Described,
        off: fn(&mut S),
        read: Read<S>,
    ) -> Key<S> {
        Key::new(name, Kind::TableOrOff(section, off, read))
    }

    pub(crate) const fn tables(name: &'static str, section: &'static dyn Described, read: Read<S>) -> Key<S> {
        Key::new(name, Kind::Tables(section, read))
    }

    pub(crate) const fn named(name: &'static str, section: &'static dyn Described) -> Key<S> {
        Key::new(name, Kind::Named(section))
    }
}

// Derived, these would ask the same of `S`.
impl<S> Clone for Key<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Key<S> {}

impl<S> Clone for Kind<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Kind<S> {}

impl<S> Described for Section<S> {
    fn title(&self) -> &'static str {
        self.title
    }

    fn text(&self) -> &'static str {
        &text_of(self.title, "").text
    }

    fn keys(&self) -> Vec<Entry> {
        let entry = |key: &'static Key<S>| {
            let text = text_of(self.title, key.name);
            Entry {
                name: key.name,
                value: key.kind.shown(),
                is_required: key.is_required,
                default: text.default,
                text: &text.text,
                example: text.example,
                below: match key.kind {
                    Kind::Table(section, _)
                    | Kind::TableOrOff(section, ..)
                    | Kind::Tables(section, _)
                    | Kind::TextOrTable(_, section, _)
                    | Kind::Named(section) => Some(section),
                    _ => None,
                },
            }
        };
        self.keys.iter().map(entry).collect()
    }
}

impl<S> Kind<S> {
    /// The allowed values, with unit and bounds, for the reference page.
    fn shown(&self) -> String {
        let millis = |bound| format_duration(Duration::from_millis(bound));
        match self {
            Kind::Text(_) => "text".into(),
            Kind::Path(_) => "path".into(),
            Kind::WordOrPath(words, _) => format!("path, {}", listed(words.iter().map(|(word, _)| quoted(word)))),
            Kind::Addresses(_) => "address, or list of addresses".into(),
            Kind::Flag(_) => "`true`, `false`".into(),
            Kind::FlagOrWord(_, words) => {
                format!(
                    "`true`, `false`, {}",
                    listed(words.iter().map(|(word, _)| quoted(word)))
                )
            }
            Kind::Texts(_) => "list of texts".into(),
            Kind::Words(_) => "text, or list of texts".into(),
            Kind::Pairs(_) => "table of texts".into(),
            Kind::Number(unit, bounds, _) => format!("number of {unit}{}", bounds.shown(|bound| bound.to_string())),
            Kind::Duration(bounds, _) => format!("duration{}", bounds.shown(millis)),
            Kind::Size(bounds, _) => format!("size{}", bounds.shown(format_size)),
            Kind::Choice(words) => listed(words.iter().map(|(word, _)| quoted(word))),
            Kind::Code(codes, _) => listed(codes.iter().map(ToString::to_string)),
            Kind::TextOrTable(_, section, _) => format!("text, [section](#{})", anchor(*section)),
            Kind::Table(section, _) => format!("[section](#{})", anchor(*section)),
            Kind::TableOrOff(section, ..) => format!("[section](#{}), `false`", anchor(*section)),
            Kind::Tables(section, _) | Kind::Named(section) => format!("[sections](#{})", anchor(*section)),
        }
    }

    /// The required kind of value, for messages.
    pub(super) fn form(&self) -> String {
        match self {
            Kind::Number(unit, ..) => format!("a number of {unit}"),
            Kind::Code(..) => "a number".to_owned(),
            Kind::Flag(_) => "true or false".to_owned(),
            Kind::FlagOrWord(_, words) => {
                let words = words.iter().map(|(word, _)| format!(" or {}", quoted(word)));
                format!("true or false{}", words.collect::<String>())
            }
            Kind::Texts(_) => "a list of texts".to_owned(),
            Kind::Words(_) | Kind::Addresses(_) => "a text or a list of texts".to_owned(),
            Kind::Pairs(_) => "a table of names and texts".to_owned(),
            Kind::Table(..) | Kind::TableOrOff(..) => "one table".to_owned(),
            Kind::TextOrTable(..) => "a text or one table".to_owned(),
            Kind::Tables(..) => "a list of tables".to_owned(),
            Kind::Named(_) => "tables by name".to_owned(),
            Kind::Text(_)
            | Kind::Path(_)
            | Kind::WordOrPath(..)
            | Kind::Duration(..)
            | Kind::Size(..)
            | Kind::Choice(_) => "a text".to_owned(),
        }
    }
}

impl Bounds {
    fn shown(&self, show: impl Fn(u64) -> String) -> String {
        match (self.least, self.most) {
            (0, u64::MAX) => String::new(),
            (least, u64::MAX) => format!(", at least {}", show(least)),
            (0, most) => format!(", at most {}", show(most)),
            (least, most) => format!(", {} to {}", show(least), show(most)),
        }
    }
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

fn listed(words: impl Iterator<Item = String>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The anchor that Markdown renderers give the heading of a section.
fn anchor(section: &dyn Described) -> String {
    let letters = section.title().chars();
    letters
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}
