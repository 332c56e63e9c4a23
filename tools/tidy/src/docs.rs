//! Docs: dependencies have their line, ARCHITECTURE.md stays short, nothing names a directory of one machine, and the messages that
//! the page about troubleshooting explains are those of the code.

use std::path::Path;

use crate::floors;
use crate::source::Text;

/// Lines that ARCHITECTURE.md may have: it is read as a whole, and details belong in docs/internals.
const ARCHITECTURE_LINES_MAX: usize = 200;
/// Top directories that any machine has: naming something in them gives nothing away.
const ON_ANY_MACHINE: [&str; 9] = ["app", "home", "opt", "root", "src", "srv", "tmp", "usr", "var"];

/// Checks that the page about the architecture exists and is short.
pub(crate) fn check_length(page: &Text) -> Option<String> {
    let lines = page.text.lines().count();
    let is_short = (1..=ARCHITECTURE_LINES_MAX).contains(&lines);
    (!is_short).then(|| {
        format!(
            "{}:1: has {lines} lines: it may have {ARCHITECTURE_LINES_MAX}; details belong in docs/internals",
            page.path
        )
    })
}

/// Checks that each dependency has its line in the page, and each line its dependency.
pub(crate) fn check_dependencies(page: &Text, manifests: &[Text]) -> Vec<String> {
    let rows = rows(&page.text);
    let mut names: Vec<String> = Vec::new();
    let mut findings = Vec::new();
    for manifest in manifests {
        for (name, line) in floors::dependencies(manifest) {
            if name.starts_with("sluice") || names.contains(&name) {
                continue;
            }
            if !rows.iter().any(|row| row.name == name) {
                findings.push(format!(
                    "{}:{line}: {name} has no line in {}: say what it is for and what we would do without it",
                    manifest.path, page.path
                ));
            }
            names.push(name);
        }
    }
    for row in rows {
        let place = format!("{}:{}: {}", page.path, row.line, row.name);
        if !names.iter().any(|name| name == row.name) {
            findings.push(format!("{place} is no longer a dependency: remove the line"));
        } else if !row.is_complete {
            findings.push(format!(
                "{place}: say both what it is for and what we would do without it"
            ));
        }
    }
    findings
}

/// A line of the page: ``| `name` | what for | without it |``.
struct Row<'a> {
    name: &'a str,
    line: usize,
    is_complete: bool,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let row = |(index, line): (usize, &'_ str)| -> Option<(usize, usize, usize, bool)> {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        let is_complete = cells.filter(|cell| !cell.is_empty()).count() >= 2;
        let start = line.find(name)?;
        Some((index, start, start + name.len(), is_complete))
    };
    let lines: Vec<&str> = page.lines().collect();
    let found = page.lines().enumerate().filter_map(row);
    found
        .map(|(index, start, end, is_complete)| Row {
            name: &lines[index][start..end],
            line: index + 1,
            is_complete,
        })
        .collect()
}

/// The directories of this machine that no file may name: the checkout, its parent, and the home directory.
pub(crate) fn private_directories(root: &Path, home: Option<&Path>) -> Vec<String> {
    let is_private = |path: &Path| {
        let mut parts = path.components().skip(1);
        let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let is_deep = parts.next().is_some();
        first.is_some_and(|first| is_deep || !ON_ANY_MACHINE.contains(&first.as_str()))
    };
    let directories = [Some(root), root.parent(), home].into_iter().flatten();
    directories
        .filter(|path| is_private(path))
        .map(|path| format!("{}/", path.display()))
        .collect()
}

/// Finds absolute paths below one of these directories.
pub(crate) fn check_private(text: &Text, private: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.text.lines().enumerate() {
        let begins =
            |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-*/}".contains(before));
        for directory in private {
            if line.match_indices(directory.as_str()).any(|(at, _)| begins(at)) {
                findings.push(format!(
                    "{}:{}: {directory} is a directory of this machine: write a relative path",
                    text.path,
                    index + 1
                ));
            }
        }
    }
    findings
}

/// Messages of the system, which the page about troubleshooting quotes, too.
const OF_THE_SYSTEM: [&str; 3] = [
    ": Address already in use",
    ": Cannot assign requested address",
    "Permission denied",
];

/// Checks that each message in the first column of the page is in the code. `…` stands for what differs.
pub(crate) fn check_messages(page: &Text, sources: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some((first, _)) = line.strip_prefix("| ").and_then(|row| row.split_once(" | ")) else {
            continue;
        };
        let quoted = first.split('`').skip(1).step_by(2);
        let parts = quoted.flat_map(|message| message.split('…')).map(str::trim_end);
        for part in parts.filter(|part| part.len() > 3) {
            let part = part.trim_start_matches(' ');
            if !sources.contains(part) && !OF_THE_SYSTEM.contains(&part) {
                findings.push(format!(
                    "{}:{}: no message of the code contains \"{part}\": quote it as it is now",
                    page.path,
                    index + 1
                ));
            }
        }
    }
    findings
}

/// The text of a source with the strings of more than one line joined, and without escapes of quotes.
pub(crate) fn with_joined_strings(source: &str) -> String {
    let mut lines = source.split("\\\n");
    let mut text = lines.next().unwrap_or_default().to_owned();
    lines.for_each(|line| text += line.trim_start());
    text.replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_not_in_the_code_are_found() {
        let sources = with_joined_strings("\"the disk \\\n    is full: {x}\"");
        let page = "| message | cause |\n|---|---|\n| `the disk is full: …` | a |\n| `the disk is gone` | `b` |\n";
        let findings = check_messages(&text("a.md", page), &sources);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a.md:4: "), "{findings:?}");
    }

    fn text(path: &str, text: &str) -> Text {
        Text { path: path.into(), text: text.into() }
    }

    #[test]
    fn dependencies_without_line_and_lines_without_dependency_are_found() {
        let manifests = [text(
            "Cargo.toml",
            "[workspace.dependencies]\nbytes = 1\nsluice-gateway = 1\n\n[dev-dependencies]\nloom = 1\n",
        )];
        let page = |rows: &str| {
            text(
                "d.md",
                &format!("# Dependencies\n\n| name | for | without |\n|---|---|---|\n{rows}"),
            )
        };
        let found = |rows: &str| check_dependencies(&page(rows), &manifests);
        assert_eq!(found("| `bytes` | a | b |\n| `loom` | c | d |\n"), Vec::<String>::new());
        assert_eq!(
            found("| `bytes` | a | b |\n"),
            ["Cargo.toml:6: loom has no line in d.md: say what it is for and what we would do without it"]
        );
        assert_eq!(
            found("| `bytes` | a | |\n| `loom` | c | d |\n| `nix` | e | f |\n"),
            [
                "d.md:5: bytes: say both what it is for and what we would do without it",
                "d.md:7: nix is no longer a dependency: remove the line"
            ]
        );
    }

    #[test]
    fn a_long_architecture_page_is_found() {
        let of = |lines: usize| check_length(&text("ARCHITECTURE.md", &"line\n".repeat(lines)));
        assert_eq!(of(200), None);
        assert!(of(201).is_some_and(|found| found.starts_with("ARCHITECTURE.md:1: has 201 lines")));
        assert!(of(0).is_some(), "the page is missing");
    }

    #[test]
    fn directories_of_this_machine_are_found_and_those_of_any_machine_are_not() {
        let private = private_directories(Path::new("/quarry/sluice"), Some(Path::new("/home/ann")));
        assert_eq!(private, ["/quarry/sluice/", "/quarry/", "/home/ann/"]);
        assert_eq!(
            private_directories(Path::new("/tmp/sluice"), Some(Path::new("/root"))),
            ["/tmp/sluice/"]
        );
        let found = check_private(&text("a.md", "see `/home/ann/x`\nor /quarry/notes"), &private);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1],
            "a.md:2: /quarry/ is a directory of this machine: write a relative path"
        );
        let good = text("a.md", "a stone/quarry/x, /srv/quarry/y, ../quarry/z, /home/bob/");
        assert_eq!(check_private(&good, &private), Vec::<String>::new());
    }
}
