//! Reads a section of the file with its list of keys: reports unknown and missing keys, checks each value's type and bounds, and calls its setter.
//!
//! A wrong value is reported and then treated as absent, so that all mistakes of a file are found at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_settings::ListenAddress;
use toml::de::{DeInteger, DeValue};

use super::description::Described;
use super::document::At;
use super::foreign;
use super::key::{Bounds, Key, Kind, Read, Section, Word};
use super::suggest;
use super::table::{Table, Written};
use sluice_settings::notation;

impl<S> Section<S> {
    /// Reads a table, key by key in the order of the section's list: a setter can rely on the keys above its own. `settings` are the defaults.
    pub(crate) fn read(&'static self, table: &Table<'_>, mut settings: S) -> S {
        self.fill(table, &mut settings);
        settings
    }

    /// Reads a table as `read` does, into `settings`.
    pub(crate) fn fill(&'static self, table: &Table<'_>, settings: &mut S) {
        let document = table.document;
        for key in table.values.keys() {
            if !self.keys.iter().any(|known| known.name == key.get_ref()) {
                let message = suggest::unknown_key(key.get_ref(), self, document.keys);
                document.report(document.line(key.span().start), message);
            }
        }
        for key in self.keys {
            key.read(table, settings);
        }
    }

    /// Reads one key of a table into `settings`.
    pub(crate) fn read_key(&'static self, name: &str, table: &Table<'_>, settings: &mut S) {
        for key in self.keys.iter().filter(|key| key.name == name) {
            key.read(table, settings);
        }
    }
}

impl<S> Key<S> {
    /// Reads the key into `settings`, or reports that it is wrong or missing.
    fn read(&self, table: &Table<'_>, settings: &mut S) {
        match table.written(self.name) {
            Some(written) => {
                if let Err(message) = self.set(settings, &written) {
                    written.refuse(&message);
                }
            }
            None if self.is_required => table.report_missing(self.name),
            None => {}
        }
    }

    /// Checks a value and calls the setter. The error is a message about the value.
    fn set(&self, settings: &mut S, written: &Written<'_>) -> Result<(), String> {
        match &self.kind {
            Kind::Text(set) => return set(settings, self.read_text(written)?, written),
            Kind::Path(set) => return set(settings, self.read_path(written)?, written),
            Kind::WordOrPath(words, set) => match find(words, &self.read_text(written)?) {
                Some(set_word) => set_word(settings),
                None => return set(settings, self.read_path(written)?, written),
            },
            Kind::Addresses(set) => return set(settings, self.read_addresses(written)?, written),
            Kind::Flag(set) => set(settings, self.expect(written, written.value.as_bool())?),
            Kind::FlagOrWord(set, words) => match (written.value.as_bool(), written.value.as_str()) {
                (Some(is_on), _) => set(settings, is_on),
                (None, word) => {
                    let set_word = word.and_then(|word| find(words, word));
                    self.expect(written, set_word)?(settings);
                }
            },
            Kind::Texts(set) => return set(settings, self.read_texts(written)?, written),
            Kind::Words(set) => {
                let words = match written.value.as_str() {
                    Some(_) => vec![self.read_text(written)?],
                    None => self.read_texts(written)?.into_iter().map(|text| text.value).collect(),
                };
                return set(settings, words, written);
            }
            Kind::Pairs(set) => return set(settings, self.read_pairs(written)?, written),
            Kind::Number(_, bounds, set) => set(settings, self.read_number(bounds, written)?),
            Kind::Duration(bounds, set) => set(settings, duration(bounds, written)?),
            Kind::Size(bounds, set) => set(settings, size(bounds, written)?),
            Kind::Choice(words) => choice(words, written)?(settings),
            Kind::Code(codes, set) => set(settings, self.read_code(codes, written)?),
            Kind::TextOrTable(set, ..) if !written.value.is_table() => {
                return set(settings, self.read_text(written)?, written);
            }
            Kind::TableOrOff(_, off, _) if written.value.as_bool() == Some(false) => off(settings),
            Kind::TextOrTable(_, section, read) | Kind::Table(section, read) | Kind::TableOrOff(section, _, read) => {
                return self.set_table(settings, section.title(), *read, written);
            }
            Kind::Tables(section, read) => return self.set_tables(settings, section.title(), *read, written),
            Kind::Named(section) => return self.check_named(*section, written),
        }
        Ok(())
    }

    fn set_table(
        &self,
        settings: &mut S,
        title: &'static str,
        read: Read<S>,
        written: &Written<'_>,
    ) -> Result<(), String> {
        if let (true, Some(hint)) = (written.value.is_array(), foreign::tables(self.name)) {
            return Err(format!("is the server as a whole, written once as [server]; {hint}"));
        }
        let table = Table {
            document: written.document(),
            title,
            line: written.line,
            values: self.expect(written, written.value.as_table())?,
        };
        read(settings, &table);
        Ok(())
    }

    fn set_tables(
        &self,
        settings: &mut S,
        title: &'static str,
        read: Read<S>,
        written: &Written<'_>,
    ) -> Result<(), String> {
        let document = written.document();
        let list = written.value.as_array().ok_or_else(|| match written.value.is_table() {
            true => self.wrong_type(written),
            false => format!(
                "{}, and below it keys such as {}",
                self.wrong_type(written),
                written.example().trim_matches(['{', '}', ' '])
            ),
        })?;
        for item in list {
            let line = document.line(item.span().start);
            match item.get_ref().as_table() {
                Some(values) => read(settings, &Table { document, title, line, values }),
                None => document.report(
                    line,
                    format!("{}: {}", document.excerpt(item.span()), self.wrong_type(written)),
                ),
            }
        }
        Ok(())
    }

    /// Checks that sections have names and are tables, and that their keys are of the right type. They are read where they are used.
    fn check_named(&self, section: &'static dyn Described, written: &Written<'_>) -> Result<(), String> {
        let document = written.document();
        for (name, value) in self.expect(written, written.value.as_table())? {
            if !value.get_ref().is_table() {
                let title = section.title().replace("NAME", name.get_ref());
                let message = format!(
                    "{} = {}: must be one table: write {title} above its keys",
                    name.get_ref(),
                    document.excerpt(value.span())
                );
                document.report(document.line(name.span().start), message);
            }
        }
        Ok(())
    }

    fn read_text(&self, written: &Written<'_>) -> Result<String, String> {
        let text = self.expect(written, written.value.as_str())?;
        if text.contains('\0') {
            return Err("must not contain a NUL character".to_owned());
        }
        Ok(text.to_owned())
    }

    fn read_path(&self, written: &Written<'_>) -> Result<PathBuf, String> {
        match self.read_text(written)?.as_str() {
            "" => Err("the path is empty; \".\" is the directory of this file".to_owned()),
            path => Ok(written.document().resolve(written.line, path)),
        }
    }

    /// Addresses to listen on: one, or a list, of which wrong ones are reported and left out.
    fn read_addresses(&self, written: &Written<'_>) -> Result<Vec<At<ListenAddress>>, String> {
        if written.value.as_str().is_some() {
            return Ok(vec![written.at(address(
                &self.read_text(written)?,
                written.line,
                written,
            )?)]);
        }
        let texts = self.read_texts(written)?;
        if texts.is_empty() {
            return Err(format!(
                "an empty list names no address: write, for instance, {} = {}",
                self.name,
                written.example()
            ));
        }
        let read = |text: &str, line| match address(text, line, written) {
            Ok(value) => Ok(At { value, line }),
            Err(message) => Err(format!("{} \"{}\": {message}", self.name, text.escape_debug())),
        };
        Ok(written.each(texts, read))
    }

    fn read_texts(&self, written: &Written<'_>) -> Result<Vec<At<String>>, String> {
        let list = self.expect(written, written.value.as_array())?;
        let texts = list.iter().map(|item| {
            let text = item.get_ref().as_str().filter(|text| !text.contains('\0'))?;
            Some(At::new(text.to_owned(), written.document().line(item.span().start)))
        });
        self.expect(written, texts.collect())
    }

    /// Names and their texts; a value that is not a text is reported and left out.
    fn read_pairs(&self, written: &Written<'_>) -> Result<Vec<(String, At<String>)>, String> {
        let document = written.document();
        let mut pairs = Vec::new();
        for (key, value) in self.expect(written, written.value.as_table())? {
            let line = document.line(key.span().start);
            match value.get_ref().as_str() {
                Some(text) => pairs.push((key.get_ref().to_string(), At::new(text.to_owned(), line))),
                None => {
                    let shown = document.excerpt(value.span());
                    let text = shown.trim_matches('"');
                    // PHP takes a bare number for bytes.
                    let unit = match self.name.starts_with("php_") && value.get_ref().as_integer().is_some() {
                        true => ", or with a unit if it is a size, as in \"256M\"",
                        false => "",
                    };
                    let message = format!("{} = {shown}: must be a text: write \"{text}\"{unit}", key.get_ref());
                    document.report(line, message);
                }
            }
        }
        Ok(pairs)
    }

    fn read_integer(&self, written: &Written<'_>) -> Result<u64, String> {
        let number = self.expect(written, written.value.as_integer())?;
        // A negative number is below every lower bound but 0, and one beyond 64 bits above every upper bound.
        Ok(to_number(number).unwrap_or(if number.as_str().starts_with('-') { 0 } else { u64::MAX }))
    }

    fn read_number(&self, bounds: &Bounds, written: &Written<'_>) -> Result<u64, String> {
        let number = self.read_integer(written)?;
        check_bounds(bounds, number, |bound| bound.to_string())?;
        match written.value.as_integer() {
            Some(negative) if negative.as_str().starts_with('-') => Err("must not be negative".to_owned()),
            _ => Ok(number),
        }
    }

    fn read_code(&self, codes: &[u16], written: &Written<'_>) -> Result<u16, String> {
        let number = self.read_integer(written)?;
        let code = codes.iter().find(|code| u64::from(**code) == number).copied();
        code.ok_or_else(|| format!("must be {}", suggest::alternatives(codes)))
    }

    fn expect<T>(&self, written: &Written<'_>, read: Option<T>) -> Result<T, String> {
        read.ok_or_else(|| self.wrong_type(written))
    }

    /// The message about a value of another type.
    fn wrong_type(&self, written: &Written<'_>) -> String {
        match &self.kind {
            Kind::Tables(section, _) => format!(
                "must be a list of tables: write {} (two brackets) above each",
                section.title()
            ),
            kind => format!("must be {}, as in {} = {}", kind.form(), self.name, written.example()),
        }
    }
}

/// An address to listen on; the path of a unix socket is made absolute.
pub(crate) fn address(text: &str, line: usize, written: &Written<'_>) -> Result<ListenAddress, String> {
    let address = match notation::parse_address(text)? {
        ListenAddress::Unix(path) => match Path::to_str(&path) {
            Some(path) => ListenAddress::Unix(written.document().resolve(line, path)),
            None => ListenAddress::Unix(path),
        },
        inet => inet,
    };
    notation::check_socket_path(&address).map(|()| address)
}

fn duration(bounds: &Bounds, written: &Written<'_>) -> Result<Duration, String> {
    let duration = notation::parse_duration(written.value.as_str().unwrap_or_default())?;
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let show = |bound| notation::format_duration(Duration::from_millis(bound));
    check_bounds(bounds, millis, show)?;
    Ok(duration)
}

fn size(bounds: &Bounds, written: &Written<'_>) -> Result<u64, String> {
    let bytes = match written.value {
        DeValue::String(text) => notation::parse_size(text),
        DeValue::Integer(number) => to_number(number).ok_or_else(|| "is not a size".to_owned()),
        _ => notation::parse_size(""),
    }?;
    check_bounds(bounds, bytes, notation::format_size)?;
    Ok(bytes)
}

fn choice<S>(words: &[Word<S>], written: &Written<'_>) -> Result<fn(&mut S), String> {
    let found = written.value.as_str().and_then(|word| find(words, word));
    found.ok_or_else(|| {
        let quoted: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        format!("must be {}", suggest::alternatives(&quoted))
    })
}

fn find<S>(words: &[Word<S>], text: &str) -> Option<fn(&mut S)> {
    words.iter().find(|(word, _)| *word == text).map(|(_, set)| *set)
}

fn check_bounds(bounds: &Bounds, number: u64, show: impl Fn(u64) -> String) -> Result<(), String> {
    let refusal = if number < bounds.least {
        format!("must be at least {}", show(bounds.least))
    } else if number > bounds.most {
        format!("must be at most {}", show(bounds.most))
    } else {
        return Ok(());
    };
    Err(match bounds.hint {
        "" => refusal,
        hint => format!("{refusal}; {hint}"),
    })
}

/// A whole number that 64 bits hold; `None` also for a negative one.
fn to_number(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A number as a `usize`. A limit beyond `usize::MAX` could never be reached, so it becomes `usize::MAX`.
pub(crate) fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
