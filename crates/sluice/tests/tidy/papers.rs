//! Papers: what is written about the code beside it. Dependencies have their line, and nothing names a private place.

use std::path::Path;

use super::floors;
use super::source::Text;

/// Top folders that any machine has: naming something in them gives nothing away.
const EVERYBODYS: [&str; 9] = ["app", "home", "opt", "root", "src", "srv", "tmp", "usr", "var"];

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
            findings.push(format!("{place} is no dependency any more: remove the line"));
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

/// The folders of the machine on which this runs that no file may name: the checkout, what holds it, and the home.
pub(crate) fn places_of(root: &Path, home: Option<&Path>) -> Vec<String> {
    let is_private = |path: &Path| {
        let mut parts = path.components().skip(1);
        let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let is_deep = parts.next().is_some();
        first.is_some_and(|first| is_deep || !EVERYBODYS.contains(&first.as_str()))
    };
    let places = [Some(root), root.parent(), home].into_iter().flatten();
    places
        .filter(|path| is_private(path))
        .map(|path| format!("{}/", path.display()))
        .collect()
}

/// Finds absolute paths below one of the places.
pub(crate) fn check_places(text: &Text, places: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.text.lines().enumerate() {
        let begins =
            |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-*/}".contains(before));
        for place in places {
            if line.match_indices(place.as_str()).any(|(at, _)| begins(at)) {
                findings.push(format!(
                    "{}:{}: {place} is a place of this machine: name none, or a relative one",
                    text.path,
                    index + 1
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, text: &str) -> Text {
        Text {
            path: path.into(),
            text: text.into(),
        }
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
        let told = |rows: &str| check_dependencies(&page(rows), &manifests);
        assert_eq!(told("| `bytes` | a | b |\n| `loom` | c | d |\n"), Vec::<String>::new());
        assert_eq!(
            told("| `bytes` | a | b |\n"),
            ["Cargo.toml:6: loom has no line in d.md: say what it is for and what we would do without it"]
        );
        assert_eq!(
            told("| `bytes` | a | |\n| `loom` | c | d |\n| `nix` | e | f |\n"),
            [
                "d.md:5: bytes: say both what it is for and what we would do without it",
                "d.md:7: nix is no dependency any more: remove the line"
            ]
        );
    }

    #[test]
    fn places_of_this_machine_are_found_and_everybodys_are_not() {
        let places = places_of(Path::new("/quarry/sluice"), Some(Path::new("/home/ann")));
        assert_eq!(places, ["/quarry/sluice/", "/quarry/", "/home/ann/"]);
        assert_eq!(
            places_of(Path::new("/tmp/sluice"), Some(Path::new("/root"))),
            ["/tmp/sluice/"]
        );
        let told = check_places(&text("a.md", "see `/home/ann/x`\nor /quarry/notes"), &places);
        assert_eq!(told.len(), 2);
        assert_eq!(
            told[1],
            "a.md:2: /quarry/ is a place of this machine: name none, or a relative one"
        );
        let good = text("a.md", "a stone/quarry/x, /srv/quarry/y, ../quarry/z, /home/bob/");
        assert_eq!(check_places(&good, &places), Vec::<String>::new());
    }
}
