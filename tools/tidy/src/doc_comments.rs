//! Doc comments: the first word is a noun or a verb, not a pronoun or a preposition that stands for one; and examples of code are where
//! `make test` runs them.

use crate::source::Source;

/// First words that hide what is documented.
const NOT_FIRST: [&str; 10] = [
    "What", "Who", "It", "Its", "That", "Those", "As", "With", "Of", "Nothing",
];

/// Finds doc comments that begin with one of these words.
pub(crate) fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut before = None;
    for (index, line) in source.comments.lines().enumerate() {
        let line = line.trim();
        let kind = ["///", "//!"].into_iter().find(|kind| line.starts_with(kind));
        if let Some(kind) = kind.filter(|kind| before != Some(*kind)) {
            let text = line[kind.len()..].trim();
            let word = text.split(|letter: char| !letter.is_alphanumeric()).next();
            if let Some(word) = word.filter(|word| NOT_FIRST.contains(word)) {
                findings.push(format!(
                    "{}:{}: a doc comment begins with \"{word}\": begin with the noun that it documents, or a verb",
                    source.path,
                    index + 1
                ));
            }
        }
        before = kind;
    }
    findings
}

/// The crate whose examples `make test` runs (`test-rust` in the Makefile); rustdoc would read every other one for nothing.
const WITH_EXAMPLES: &str = "crates/sluice-membuf/src/";

/// Finds examples that would be compiled and run as tests, in other crates.
pub(crate) fn check_examples(source: &Source) -> Vec<String> {
    let is_run = |language: &str| ["", "rust", "no_run", "should_panic"].contains(&language);
    let (mut findings, mut is_open) = (Vec::new(), false);
    for (index, line) in source.comments.lines().enumerate() {
        let text = line.trim();
        let text = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
        let Some(language) = text.and_then(|text| text.trim().strip_prefix("```")) else {
            continue;
        };
        if !is_open && is_run(language) && !source.path.starts_with(WITH_EXAMPLES) {
            findings.push(format!(
                "{}:{}: `make test` does not run this example: mark it as text, or add the crate to test-rust in the Makefile",
                source.path,
                index + 1
            ));
        }
        is_open = !is_open;
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
        let lines: Vec<&str> = findings
            .iter()
            .filter_map(|finding| finding.split(' ').next())
            .collect();
        assert_eq!(lines, ["a.rs:1:", "a.rs:3:", "a.rs:6:"]);
        assert_eq!(
            findings[2],
            "a.rs:6: a doc comment begins with \"Its\": begin with the noun that it documents, or a verb"
        );
    }

    #[test]
    fn nouns_verbs_and_other_comments_are_not_found() {
        let text = "//! Items.\n// What an ordinary comment is about.\n/// `It` as code.\nlet a = \"/// What\";\n/// Whatever. It\nfn b() {}\n";
        assert!(check(&sample("a.rs", text)).is_empty());
    }

    #[test]
    fn examples_that_nothing_runs_are_found() {
        let text = "//! ```text\n//! a\n//! ```\n/// ```\n/// b();\n/// ```\nfn b() {}\n";
        let findings = check_examples(&sample("crates/x/src/a.rs", text));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("crates/x/src/a.rs:4: "), "{findings:?}");
        assert!(check_examples(&sample("crates/sluice-membuf/src/a.rs", text)).is_empty());
    }
}
