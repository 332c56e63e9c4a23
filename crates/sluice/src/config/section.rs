//! One section of a configuration being read: its values by name, each checked against the table of keys.
//!
//! Here: unknown keys, wrong types, bounds, and their messages. Not here: what values mean together (`site`, `script`).
//! A value that is wrong is noted in the document and then treated as absent, so that reading goes on to the next mistake.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_settings::ListenAddress;
use toml::de::{DeInteger, DeTable, DeValue};

use super::keys::{Bounds, Key, Kind, Section as Shape};
use super::mistake::{At, Document};
use super::suggest;
use super::value;

/// A section as it stands in the file.
pub(crate) struct Section<'a> {
    /// The document it belongs to.
    pub(crate) document: &'a Document<'a>,
    /// The line of its header.
    pub(crate) line: usize,
    shape: &'static Shape,
    table: &'a DeTable<'a>,
}

/// A value as it stands in the file, with what the table says of its key.
struct Written<'a> {
    key: &'static Key,
    value: &'a DeValue<'a>,
    span: Range<usize>,
    line: usize,
}

impl<'a> Section<'a> {
    /// Opens a section and notes the keys in it that do not exist.
    pub(crate) fn open(
        document: &'a Document<'a>,
        shape: &'static Shape,
        table: &'a DeTable<'a>,
        line: usize,
    ) -> Section<'a> {
        for key in table.keys() {
            if !shape.keys.iter().any(|known| known.name == key.get_ref()) {
                document.complain(
                    document.line(key.span().start),
                    suggest::unknown_key(key.get_ref(), shape),
                );
            }
        }
        Section {
            document,
            line,
            shape,
            table,
        }
    }

    /// Whether the key is there, rightly or wrongly.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// Whether any key is there.
    pub(crate) fn has_any(&self) -> bool {
        !self.table.is_empty()
    }

    /// The line of a key, or of the section without it.
    pub(crate) fn line_of(&self, name: &str) -> usize {
        match self.table.get_key_value(name) {
            Some((key, _)) => self.document.line(key.span().start),
            None => self.line,
        }
    }

    /// Notes a mistake about a value: `name = what stands there: message`.
    pub(crate) fn refuse(&self, name: &'static str, message: &str) {
        if let Some(written) = self.written(name) {
            self.complain::<()>(&written, message);
        }
    }

    /// A text that must be there; its absence is noted with the mend.
    pub(crate) fn required_text(&self, name: &'static str) -> Option<At<String>> {
        if !self.has(name) {
            let key = self.key(name);
            let message = format!(
                "{} lacks {name}: write, for instance, {name} = {}",
                self.shape.title, key.example
            );
            self.document.complain(self.line, message);
        }
        self.text(name)
    }

    /// A text.
    pub(crate) fn text(&self, name: &'static str) -> Option<At<String>> {
        let written = self.written(name)?;
        let text = self.expect(&written, written.value.as_str())?;
        if text.contains('\0') {
            return self.complain(&written, "a NUL cannot be part of it");
        }
        Some(written.at(text.to_owned()))
    }

    /// true or false.
    pub(crate) fn flag(&self, name: &'static str) -> Option<At<bool>> {
        let written = self.written(name)?;
        let flag = self.expect(&written, written.value.as_bool())?;
        Some(written.at(flag))
    }

    /// Whether `false` stands there in the place of a section: a part that is switched off.
    pub(crate) fn is_off(&self, name: &'static str) -> bool {
        self.written(name)
            .is_some_and(|written| written.value.as_bool() == Some(false))
    }

    /// A path, made absolute.
    pub(crate) fn path(&self, name: &'static str) -> Option<At<PathBuf>> {
        let text = self.text(name)?;
        if text.value.is_empty() {
            self.refuse(name, "the path is empty; \".\" is the folder of this file");
            return None;
        }
        Some(At {
            value: self.document.resolve(&text.value),
            line: text.line,
        })
    }

    /// An address to listen on; the path of a unix socket is made absolute.
    pub(crate) fn address(&self, name: &'static str) -> Option<At<ListenAddress>> {
        let text = self.required_text(name)?;
        let address = value::parse_address(&text.value).map(|address| match address.path().and_then(Path::to_str) {
            Some(path) => ListenAddress::Unix(self.document.resolve(path)),
            None => address,
        });
        let address = address
            .and_then(|address| value::check_socket_path(&address).map(|()| address))
            .map_err(|message| self.refuse(name, &message))
            .ok()?;
        Some(At {
            value: address,
            line: text.line,
        })
    }

    /// A list of texts, each with its line.
    pub(crate) fn texts(&self, name: &'static str) -> Option<Vec<At<String>>> {
        let written = self.written(name)?;
        let list = self.expect(&written, written.value.as_array())?;
        let texts = list.iter().map(|item| {
            let text = item.get_ref().as_str().filter(|text| !text.contains('\0'))?;
            Some(At {
                value: text.to_owned(),
                line: self.document.line(item.span().start),
            })
        });
        let texts: Option<Vec<_>> = texts.collect();
        self.expect(&written, texts)
    }

    /// A text, or a list of texts.
    pub(crate) fn words(&self, name: &'static str) -> Option<Vec<String>> {
        let written = self.written(name)?;
        match written.value.as_str() {
            Some(_) => Some(vec![self.text(name)?.value]),
            None => Some(self.texts(name)?.into_iter().map(|text| text.value).collect()),
        }
    }

    /// Names and their texts, each with its line.
    pub(crate) fn pairs(&self, name: &'static str) -> Option<Vec<(String, At<String>)>> {
        let written = self.written(name)?;
        let table = self.expect(&written, written.value.as_table())?;
        let mut pairs = Vec::new();
        for (key, value) in table {
            let line = self.document.line(key.span().start);
            match value.get_ref().as_str() {
                Some(text) => pairs.push((
                    key.get_ref().to_string(),
                    At {
                        value: text.to_owned(),
                        line,
                    },
                )),
                None => {
                    let shown = self.document.excerpt(value.span());
                    let mend = shown.trim_matches('"');
                    let message = format!("{} = {shown}: must be a text: write \"{mend}\"", key.get_ref());
                    self.document.complain(line, message);
                }
            }
        }
        Some(pairs)
    }

    /// A number within the bounds of its key.
    pub(crate) fn number<T: TryFrom<u64>>(&self, name: &'static str) -> Option<At<T>> {
        let written = self.written(name)?;
        let Kind::Number { bounds, .. } = &written.key.kind else {
            mismatch(name)
        };
        let number = self.integer(&written)?;
        self.within(&written, bounds, number, |bound| bound.to_string())
    }

    /// One of the numbers that its key lists.
    pub(crate) fn code(&self, name: &'static str) -> Option<At<u16>> {
        let written = self.written(name)?;
        let Kind::Code(codes) = &written.key.kind else {
            mismatch(name)
        };
        let number = self.integer(&written)?;
        match codes.iter().find(|code| u64::from(**code) == number) {
            Some(code) => Some(written.at(*code)),
            None => self.complain(&written, &format!("must be {}", suggest::alternatives(codes))),
        }
    }

    /// A size in bytes within the bounds of its key.
    pub(crate) fn size<T: TryFrom<u64>>(&self, name: &'static str) -> Option<At<T>> {
        let written = self.written(name)?;
        let Kind::Size(bounds) = &written.key.kind else {
            mismatch(name)
        };
        let bytes = match written.value {
            DeValue::String(text) => value::parse_size(text),
            DeValue::Integer(number) => to_number(number).ok_or_else(|| "is no size".to_owned()),
            _ => value::parse_size(""),
        };
        match bytes {
            Ok(bytes) => self.within(&written, bounds, bytes, value::format_size),
            Err(message) => self.complain(&written, &message),
        }
    }

    /// A duration within the bounds of its key.
    pub(crate) fn duration(&self, name: &'static str) -> Option<At<Duration>> {
        let written = self.written(name)?;
        let Kind::Duration(bounds) = &written.key.kind else {
            mismatch(name)
        };
        match value::parse_duration(written.value.as_str().unwrap_or_default()) {
            Ok(duration) => {
                let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                let show = |bound| value::format_duration(Duration::from_millis(bound));
                self.within::<u64>(&written, bounds, millis, show)?;
                Some(written.at(duration))
            }
            Err(message) => self.complain(&written, &message),
        }
    }

    /// One of the words that its key lists.
    pub(crate) fn choice(&self, name: &'static str) -> Option<At<&'static str>> {
        let written = self.written(name)?;
        let Kind::Choice(words) = written.key.kind else {
            mismatch(name)
        };
        match words.iter().find(|word| written.value.as_str() == Some(**word)) {
            Some(word) => Some(written.at(*word)),
            None => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                self.complain(&written, &format!("must be {}", suggest::alternatives(&quoted)))
            }
        }
    }

    /// A section below this one.
    pub(crate) fn table(&self, name: &'static str) -> Option<Section<'a>> {
        let written = self.written(name)?;
        let Kind::Table(shape) = written.key.kind else {
            mismatch(name)
        };
        let table = self.expect(&written, written.value.as_table())?;
        Some(Section::open(self.document, shape, table, written.line))
    }

    /// The sections of a name below this one, in the order of the file.
    pub(crate) fn tables(&self, name: &'static str) -> Vec<Section<'a>> {
        let Some(written) = self.written(name) else {
            return Vec::new();
        };
        let Kind::Tables(shape) = written.key.kind else {
            mismatch(name)
        };
        let Some(items) = self.expect(&written, written.value.as_array()) else {
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in items {
            let line = self.document.line(item.span().start);
            if let Some(table) = item.get_ref().as_table() {
                sections.push(Section::open(self.document, shape, table, line));
            } else {
                let shown = self.document.excerpt(item.span());
                self.document
                    .complain(line, format!("{shown}: must be {}", form(written.key)));
            }
        }
        sections
    }

    /// The table's line about a key.
    fn key(&self, name: &'static str) -> &'static Key {
        let found = self.shape.keys.iter().find(|key| key.name == name);
        found.unwrap_or_else(|| panic!("the reader asks for {name}, which is not in the table of keys"))
    }

    /// A key's value, if the file has it.
    fn written(&self, name: &'static str) -> Option<Written<'a>> {
        let key = self.key(name);
        let (at, value) = self.table.get_key_value(name)?;
        Some(Written {
            key,
            value: value.get_ref(),
            span: value.span(),
            line: self.document.line(at.span().start),
        })
    }

    /// What was read of a value, or a note about what it should have been.
    fn expect<T>(&self, written: &Written<'_>, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.complain::<()>(written, &format!("must be {}", form(written.key)));
        }
        read
    }

    fn integer(&self, written: &Written<'_>) -> Option<u64> {
        let number = self.expect(written, written.value.as_integer())?;
        // Below zero is below every least; so is what 64 bits cannot hold above every most that is not all of them.
        Some(to_number(number).unwrap_or(if number.as_str().starts_with('-') { 0 } else { u64::MAX }))
    }

    fn within<T: TryFrom<u64>>(
        &self,
        written: &Written<'_>,
        bounds: &Bounds,
        number: u64,
        show: impl Fn(u64) -> String,
    ) -> Option<At<T>> {
        let refusal = if number < bounds.least {
            format!("must be at least {}", show(bounds.least))
        } else if number > bounds.most {
            format!("must be at most {}", show(bounds.most))
        } else if let Ok(value) = T::try_from(number) {
            return Some(written.at(value));
        } else {
            "is more than this machine can count".to_owned()
        };
        match bounds.mend {
            "" => self.complain(written, &refusal),
            mend => self.complain(written, &format!("{refusal}; {mend}")),
        }
    }

    /// Notes a mistake about a value, and makes it absent.
    fn complain<T>(&self, written: &Written<'_>, message: &str) -> Option<T> {
        let shown = self.document.excerpt(written.span.clone());
        // A section's header stands for its value: it names the key itself.
        let is_header = shown.starts_with('[') && !written.value.is_array() || shown.starts_with("[[");
        let shown = if is_header {
            shown
        } else {
            format!("{} = {shown}", written.key.name)
        };
        self.document.complain(written.line, format!("{shown}: {message}"));
        None
    }
}

impl Written<'_> {
    fn at<T>(&self, value: T) -> At<T> {
        At { value, line: self.line }
    }
}

/// What must stand at a key, for messages.
fn form(key: &Key) -> String {
    let form = match &key.kind {
        Kind::Tables(shape) => {
            return format!("a list of tables: write {} (two brackets) above each", shape.title);
        }
        Kind::Number { unit, .. } => format!("a number of {unit}"),
        Kind::Code(_) => "a number".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::Words => "a text or a list of texts".to_owned(),
        Kind::Pairs => "a table of names and texts".to_owned(),
        Kind::Table(_) => "one table".to_owned(),
        Kind::Text | Kind::Path | Kind::Address | Kind::Duration(_) | Kind::Size(_) | Kind::Choice(_) => {
            "a text".to_owned()
        }
    };
    format!("{form}, as in {} = {}", key.name, key.example)
}

/// A whole number that 64 bits hold; None also for a negative one.
fn to_number(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The reader asked for another kind than the table has: a mistake of this program, which its tests find.
fn mismatch(name: &str) -> ! {
    panic!("the table of keys has another kind for {name}")
}
