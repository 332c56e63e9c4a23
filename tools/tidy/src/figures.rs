//! Figures about the source: sizes of files and functions, comments, cycles of imports, words not to use.
//!
//! They are printed, not checked: `cargo run -p tidy figures`. Tests are left out, but for the
//! count of words. Lines are those that are not blank.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cycles;
use crate::source::Source;

/// The tables of figures. `words` are the findings of the glossary, which begin with their path.
pub(crate) fn table(sources: &[Source], words: &[String]) -> String {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    let of_tests: Vec<String> = sources.iter().flat_map(test_modules).collect();
    let is_test = |source: &Source| source.is_test() || of_tests.iter().any(|module| source.path.starts_with(module));
    for source in sources.iter().filter(|source| !is_test(source)) {
        if let Some((name, _)) = source
            .path
            .strip_prefix("crates/")
            .and_then(|path| path.split_once("/src/"))
        {
            crates.entry(name).or_default().push(source);
        }
    }
    let all: Vec<&Source> = crates.values().flatten().copied().collect();
    let total = lines(&all);
    let mut text = format!(
        "{:16} {:>6} {:>6} {:>6} {:>8} {:>20} {:>12}\n",
        "crate", "cycle", "lines", "share", "comments", "functions 50/90/99/max", "files 50/max"
    );
    for (name, of_crate) in crates
        .iter()
        .map(|(name, files)| (*name, files.as_slice()))
        .chain([("all", all.as_slice())])
    {
        let largest = match name {
            "all" => String::new(),
            name => cycles::largest(&format!("crates/{name}/src/"), sources).to_string(),
        };
        let functions = sorted(of_crate.iter().flat_map(|source| function_lines(source)).collect());
        let files = sorted(of_crate.iter().map(|source| source.text.lines().count()).collect());
        let _ = writeln!(
            text,
            "{name:16} {largest:>6} {:>6} {:>5.1}% {:>7.1}% {:>22} {:>12}",
            lines(of_crate),
            share(lines(of_crate), total),
            share(comment_lines(of_crate), lines(of_crate)),
            [50, 90, 99, 100]
                .map(|part| percentile(&functions, part).to_string())
                .join("/"),
            [50, 100].map(|part| percentile(&files, part).to_string()).join("/"),
        );
    }
    let _ = writeln!(text, "\nwords not to use: {}", words.len());
    for (place, count) in words_by_place(words) {
        let _ = writeln!(text, "{count:>6} {place}");
    }
    text
}

/// The directories of modules that are compiled for tests alone: `#[cfg(test)] mod manual;`.
fn test_modules(source: &Source) -> Vec<String> {
    let (directory, name) = source.path.rsplit_once('/').unwrap_or_default();
    let directory = match name {
        "lib.rs" | "main.rs" | "mod.rs" => directory.to_owned(),
        name => format!("{directory}/{}", name.trim_end_matches(".rs")),
    };
    let lines: Vec<&str> = source.code.lines().collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    let names = declared.filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'));
    names.map(|name| format!("{directory}/{name}/")).collect()
}

/// Lines with code or comment before the tests.
fn lines(sources: &[&Source]) -> usize {
    sources
        .iter()
        .map(|source| production(source, &source.text).count())
        .sum()
}

/// Lines that hold only a comment.
fn comment_lines(sources: &[&Source]) -> usize {
    let is_comment = |(code, comment): &(&str, &str)| code.trim().is_empty() && !comment.trim().is_empty();
    let of_source = |source: &&Source| {
        let last = source.first_test_line() - 1;
        source
            .code
            .lines()
            .zip(source.comments.lines())
            .take(last)
            .filter(is_comment)
            .count()
    };
    sources.iter().map(of_source).sum()
}

/// The lines of a text before the tests that are not blank.
fn production<'a>(source: &Source, text: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .take(source.first_test_line() - 1)
        .filter(|line| !line.trim().is_empty())
}

/// The lines of each function with code in them, from its signature to its closing brace.
fn function_lines(source: &Source) -> Vec<usize> {
    let tokens = source.tokens();
    let code: Vec<&str> = source.code.lines().collect();
    let last = source.first_test_line();
    let mut found = Vec::new();
    for (at, token) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.text == "fn" && token.line < last)
    {
        let after = &tokens[at..];
        let Some(open) = after.iter().position(|mark| ["{", ";"].contains(&mark.text)) else {
            continue;
        };
        // A function of a trait without a body, or the type of a pointer to a function.
        if after[open].text == ";" || after.get(1).is_none_or(|name| name.text == "(") {
            continue;
        }
        let mut depth = 0;
        let close = after[open..].iter().find(|mark| {
            depth += i32::from(mark.text == "{") - i32::from(mark.text == "}");
            depth == 0
        });
        let end = close.map_or(token.line, |close| close.line);
        let function = code[token.line - 1..end].iter();
        found.push(function.filter(|line| !line.trim().is_empty()).count());
    }
    found
}

/// How many findings there are for each crate, and for each top directory or file elsewhere; most first.
fn words_by_place(words: &[String]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in words {
        let path = word.split(':').next().unwrap_or_default();
        let depth = if path.starts_with("crates/") { 3 } else { 2 };
        let place: Vec<&str> = path.split('/').take(depth).collect();
        *counts.entry(place.join("/")).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn sorted(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers
}

/// The number that so many per cent of the sorted numbers do not exceed; 0 if there are none.
fn percentile(sorted: &[usize], percent: usize) -> usize {
    let index = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(index).copied().unwrap_or(0)
}

/// Per cent, for a table.
fn share(part: usize, whole: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    100.0 * number(part) / number(whole.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    #[test]
    fn functions_are_measured_by_their_lines_of_code() {
        let text = "trait A { fn a(); }\nfn b() { 1 }\nfn c(\n    d: fn(u8),\n) {\n    // why\n    e();\n\n    if f {\n        g();\n    }\n}\n#[cfg(test)]\nmod tests {\n    fn h() {}\n}\n";
        assert_eq!(function_lines(&sample("a.rs", text)), [1, 8]);
    }

    #[test]
    fn percentiles_are_of_the_numbers() {
        let numbers: Vec<usize> = (1..=10).collect();
        assert_eq!([50, 90, 99, 100].map(|part| percentile(&numbers, part)), [5, 9, 10, 10]);
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn a_table_has_a_row_for_each_crate() {
        let sources = [
            sample("crates/x/src/a.rs", "//! A.\nuse crate::b;\n"),
            sample("crates/x/src/b.rs", "fn b() {}\n"),
            sample("crates/y/src/lib.rs", "fn c() {}\n#[cfg(test)]\nmod made;\n"),
            sample("crates/y/src/made/mod.rs", "fn d() {}\n"),
        ];
        let table = table(&sources, &["crates/x/src/a.rs:1: told -> logged".to_owned()]);
        for row in [
            "x                     1      3  50.0%    33.3%",
            "words not to use: 1",
            "     1 crates/x/src",
        ] {
            assert!(table.contains(row), "{row}\n{table}");
        }
    }
}
