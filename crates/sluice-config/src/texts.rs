//! Texts that a writer edits without Rust: `keys.md` for the reference page and messages about keys, `foreign.md` for answers to keys of other servers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::description::Fallback;

/// The text about a key, or about a section.
#[derive(Default)]
pub(crate) struct Text {
    /// The description, in whole sentences.
    pub(crate) text: String,
    /// `None` for a required key, and for a section.
    pub(crate) default: Option<Fallback>,
    /// A value as written in the file, other than the default; empty for a section.
    pub(crate) example: &'static str,
}

/// Texts by the title of the section and the name of the key, which is empty for the section itself.
pub(crate) type Texts = BTreeMap<(&'static str, &'static str), Text>;

static KEYS: LazyLock<Texts> = LazyLock::new(|| parse(include_str!("keys.md")));

/// The title of the section with this heading.
fn title_of(heading: &'static str) -> &'static str {
    if heading == "the file" { "" } else { heading }
}

/// The text of a key in the section with this title; of the section itself if the name is empty.
///
/// # Panics
/// If `keys.md` has none, which a test finds out for every key.
pub(crate) fn text_of(title: &'static str, name: &'static str) -> &'static Text {
    let text = KEYS.get(&(title, name));
    text.unwrap_or_else(|| panic!("keys.md has no text for \"{name}\" in \"{title}\""))
}

/// The texts of a document in the form that the head of `keys.md` describes.
pub(crate) fn parse(document: &'static str) -> Texts {
    let mut texts = Texts::new();
    let mut place = None;
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            place = Some((title_of(heading), ""));
        } else if let (Some(name), Some((title, _))) = (line.strip_prefix("## "), place) {
            place = Some((title, name));
        } else if let Some((title, name)) = place {
            let earlier = line.strip_prefix("text: as in ").map(title_of);
            let earlier = earlier.map(|title| texts[&(title, name)].text.clone());
            let text = texts.entry((title, name)).or_default();
            match earlier {
                Some(earlier) => text.text = earlier,
                None => text.add(line),
            }
        }
    }
    texts
}

impl Text {
    fn add(&mut self, line: &'static str) {
        if let Some(value) = line.strip_prefix("default = ") {
            self.default = Some(Fallback::Value(value));
        } else if let Some(words) = line.strip_prefix("default: ") {
            self.default = Some(Fallback::Words(words));
        } else if let Some(example) = line.strip_prefix("example = ") {
            self.example = example;
        } else if !line.is_empty() {
            let space = if self.text.is_empty() { "" } else { " " };
            self.text += space;
            self.text += line;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::description::Described;
    use super::super::included::INCLUDED;
    use super::super::root::ROOT;
    use super::*;

    fn places(section: &'static dyn Described) -> BTreeSet<(&'static str, &'static str)> {
        let mut found = BTreeSet::from([(section.title(), "")]);
        for key in section.keys() {
            found.insert((section.title(), key.name));
            found.extend(key.below.into_iter().flat_map(places));
        }
        found
    }

    #[test]
    fn every_text_is_that_of_a_section_or_key() {
        let mut known = places(&ROOT);
        known.append(&mut places(&INCLUDED));
        let texts: BTreeSet<_> = KEYS.keys().copied().collect();
        assert_eq!(texts, known);
    }
}
