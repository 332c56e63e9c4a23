//! Lists of what breaks a rule already and may stay for now: `tools/tidy/allowed/RULE.list`, one entry a line.
//!
//! A list only becomes shorter: an entry that nothing needs any more is a finding, and `cargo run -p tidy prune` removes it.
//! Not here: the rules, which give each finding the key that its entry has.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Text;

/// Something that breaks a rule, and the entry that would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Without a line number, so that edits elsewhere in the file do not matter.
    pub(crate) key: String,
    pub(crate) message: String,
}

/// The findings that a list does not allow, and the entries that nothing needs.
pub(crate) fn check(list: &Text, findings: &[Finding]) -> Vec<String> {
    let needed: BTreeSet<&str> = findings.iter().map(|finding| finding.key.as_str()).collect();
    let mut entries: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, line) in list.text.lines().enumerate() {
        entries.entry(line).or_insert(index + 1);
    }
    let refused = findings
        .iter()
        .filter(|found| !entries.contains_key(found.key.as_str()));
    let mut messages: Vec<String> = refused.map(|found| found.message.clone()).collect();
    let unneeded = entries.iter().filter(|(entry, _)| !needed.contains(*entry));
    messages.extend(unneeded.map(|(entry, line)| {
        format!(
            "{}:{line}: nothing needs the entry \"{entry}\" any more: remove it (cargo run -p tidy prune)",
            list.path
        )
    }));
    messages
}

/// The text of a list without the entries that nothing needs.
pub(crate) fn pruned(list: &Text, findings: &[Finding]) -> String {
    let is_needed = |line: &&str| findings.iter().any(|finding| finding.key == *line);
    let lines = list.text.lines().filter(is_needed);
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_without_an_entry_and_entries_without_a_finding_are_found() {
        let list = Text {
            path: "a.list".into(),
            text: "one\ntwo\n".into(),
        };
        let finding = |key: &str| Finding {
            key: key.into(),
            message: format!("found {key}"),
        };
        let findings = [finding("two"), finding("three")];
        assert_eq!(
            check(&list, &findings),
            [
                "found three",
                "a.list:1: nothing needs the entry \"one\" any more: remove it (cargo run -p tidy prune)"
            ]
        );
        assert_eq!(pruned(&list, &findings), "two\n");
    }
}
