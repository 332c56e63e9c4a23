//! Doc comments: the first word is a noun or a verb, not a pronoun or a preposition that stands for one.

use crate::allowed::Finding;
use crate::source::Source;

/// First words that hide what is documented.
const NOT_FIRST: [&str; 10] = [
    "What", "Who", "It", "Its", "That", "Those", "As", "With", "Of", "Nothing",
];

/// Finds doc comments that begin with one of these words. The key is the first line, so that moving a file changes nothing.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = None;
    for (index, line) in source.comments.lines().enumerate() {
        let line = line.trim();
        let kind = ["///", "//!"].into_iter().find(|kind| line.starts_with(kind));
        if let Some(kind) = kind.filter(|kind| before != Some(*kind)) {
            let text = line[kind.len()..].trim();
            let word = text.split(|letter: char| !letter.is_alphanumeric()).next();
            if let Some(word) = word.filter(|word| NOT_FIRST.contains(word)) {
                findings.push(Finding {
                    key: text.to_owned(),
                    message: format!(
                        "{}:{}: a doc comment begins with \"{word}\": begin with the noun that it documents, or a verb",
                        source.path,
                        index + 1
                    ),
                });
            }
        }
        before = kind;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    #[test]
    fn doc_comments_that_begin_with_a_pronoun_are_found() {
        let text = "//! What is here.\n\n/// Those flags\n/// What follows is no beginning.\nstruct A {\n    /// Its `name`.\n    b: u8,\n}\n";
        let findings = check(&sample("a.rs", text));
        let keys: Vec<&str> = findings.iter().map(|finding| finding.key.as_str()).collect();
        assert_eq!(keys, ["What is here.", "Those flags", "Its `name`."]);
        assert_eq!(
            findings[2].message,
            "a.rs:6: a doc comment begins with \"Its\": begin with the noun that it documents, or a verb"
        );
    }

    #[test]
    fn nouns_verbs_and_other_comments_are_not_found() {
        let text = "//! Items.\n// What an ordinary comment is about.\n/// `It` as code.\nlet a = \"/// What\";\n/// Whatever. It\nfn b() {}\n";
        assert_eq!(check(&sample("a.rs", text)), []);
    }
}
