//! Heads and lengths: a file opens with a comment about its content, and is short enough to be read as a whole.

use crate::source::Source;

/// A file with more lines must be on the list below.
const LINES_TO_JUSTIFY: usize = 600;
/// No file may have more lines.
const LINES_MAX: usize = 800;

/// Files of more than 600 lines, each with the reason why it is better whole.
const LONG: [(&str, &str); 0] = [];

/// Checks that a file opens with a comment about itself that holds a sentence.
pub(crate) fn check_head(source: &Source) -> Option<String> {
    let head = source.text.lines().take_while(|line| line.starts_with("//!"));
    let words: Vec<&str> = head
        .flat_map(|line| line.trim_start_matches("//!").split_whitespace())
        .collect();
    let ends = words.iter().skip(1).any(|word| word.ends_with(['.', ':', '?']));
    (!ends).then(|| {
        format!(
            "{}:1: has no head: open it with \"//!\" and a sentence about what lives here and what does not",
            source.path
        )
    })
}

/// Checks the length of a file.
pub(crate) fn check_length(source: &Source) -> Option<String> {
    check_length_with(source, &LONG)
}

fn check_length_with(source: &Source, long: &[(&str, &str)]) -> Option<String> {
    let lines = source.text.lines().count();
    let listed = long.iter().any(|(path, _)| *path == source.path);
    let path = &source.path;
    match lines {
        lines if lines > LINES_MAX => Some(format!("{path}:{LINES_MAX}: has {lines} lines: split it")),
        lines if lines > LINES_TO_JUSTIFY && !listed => Some(format!(
            "{path}:{LINES_TO_JUSTIFY}: has {lines} lines: split it, or say in LONG in {} why it is better whole",
            file!()
        )),
        lines if lines <= LINES_TO_JUSTIFY && listed => Some(format!(
            "{path}:1: has only {lines} lines: remove it from LONG in {}",
            file!()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    #[test]
    fn a_file_without_a_sentence_at_its_head_is_found() {
        for text in [
            "",
            "use a;\n",
            "// A comment.\n",
            "//!\nuse a;",
            "//! head\nuse a. b;",
            "\n//! Too late.",
        ] {
            assert!(check_head(&sample("a.rs", text)).is_some(), "{text:?}");
        }
        for text in [
            "//! The program.\nfn main() {}",
            "//! `[[site]]`: from here to there.",
            "//! Everything about\n//! heads. More.\n",
        ] {
            assert_eq!(check_head(&sample("a.rs", text)), None, "{text:?}");
        }
    }

    #[test]
    fn a_long_file_is_found() {
        let long = [("b.rs", "a table")];
        let of = |lines: usize, path: &str| check_length_with(&sample(path, &"//\n".repeat(lines)), &long);
        assert_eq!(of(600, "a.rs"), None);
        assert!(of(601, "a.rs").is_some_and(|found| found.starts_with("a.rs:600: has 601 lines: split it, or say")));
        assert_eq!(of(601, "b.rs"), None);
        assert!(of(801, "b.rs").is_some(), "no list excuses 801 lines");
        assert!(of(600, "b.rs").is_some(), "the list is kept short");
    }
}
