//! Modes of scripts: the variants of `Mode` are named in few files. Everything else asks for a trait of the mode.

use crate::source::Source;

/// Files that may name a variant; it only becomes smaller.
const FILES_MAX: usize = 19;

/// Checks how many files of the product name a variant of `Mode`.
pub(crate) fn check(sources: &[Source]) -> Option<String> {
    check_with(sources, FILES_MAX)
}

fn check_with(sources: &[Source], most: usize) -> Option<String> {
    let files: Vec<&str> = sources
        .iter()
        .filter(|source| source.path.contains("/src/") && names_mode(source))
        .map(|source| source.path.as_str())
        .collect();
    let count = files.len();
    match count {
        count if count > most => Some(format!(
            "{count} files name a variant of Mode, at most {most} may; use a method of Mode: {}",
            files.join(", ")
        )),
        count if count < most => Some(format!(
            "only {count} files name a variant of Mode: lower FILES_MAX in {}",
            file!()
        )),
        _ => None,
    }
}

fn names_mode(source: &Source) -> bool {
    let (tokens, last) = (source.tokens(), source.first_test_line());
    tokens.windows(4).any(|four| {
        let texts = [four[0].text, four[1].text, four[2].text];
        texts == ["Mode", ":", ":"] && four[3].text.starts_with(char::is_uppercase) && four[0].line < last
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    #[test]
    fn files_that_name_a_mode_are_counted() {
        let sources = [
            sample("crates/x/src/a.rs", "if mode == Mode::Rte {}"),
            sample("crates/x/src/b.rs", "Mode::from_name(a); // Mode::Rte"),
            sample("crates/x/src/tests.rs", "Mode::Cgi"),
        ];
        assert_eq!(check_with(&sources, 1), None);
        assert!(check_with(&sources, 0).is_some_and(|found| found.ends_with(": crates/x/src/a.rs")));
        assert!(check_with(&sources, 2).is_some_and(|found| found.starts_with("only 1 files")));
    }
}
