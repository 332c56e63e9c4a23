//! Floors: a crate depends only on crates of lower floors. Crates of one floor do not know each other.

use toml::de::{DeTable, DeValue};

use crate::source::Text;

/// The crates and their floors. A new crate gets its line here and in ARCHITECTURE.md.
const FLOORS: [(&str, u8); 17] = [
    ("sluice-gateway", 0),
    ("sluice-watch", 0),
    ("sluice-membuf", 1),
    ("sluice-launch", 1),
    ("sluice-http", 2),
    ("sluice-report", 2),
    ("sluice-settings", 3),
    ("sluice-net", 4),
    ("sluice-access", 4),
    ("sluice-files", 4),
    ("sluice-script", 4),
    ("sluice-log", 4),
    ("sluice-pages", 4),
    ("sluice-server", 5),
    ("sluice-config", 5),
    ("sluice-tools", 5),
    ("sluice", 6),
];

/// The crate with the harness of the tests. It may depend on any crate, and only tests depend on it.
const OF_TESTS: &str = "sluice-testing";

/// The tables of a manifest that name dependencies of the crate itself. Tests may depend on any crate.
const BUILT_IN: [&str; 2] = ["dependencies", "build-dependencies"];
/// All tables of a manifest that name dependencies.
const ALL: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Checks the manifest of a crate of the workspace. Other manifests (the workspace, fuzzing, examples) have no floor.
pub(crate) fn check(manifest: &Text) -> Vec<String> {
    let Some(name) = manifest
        .path
        .strip_prefix("crates/")
        .and_then(|path| path.strip_suffix("/Cargo.toml"))
    else {
        return Vec::new();
    };
    if name == OF_TESTS {
        return Vec::new();
    }
    let Some(floor) = floor(name) else {
        return vec![format!(
            "{}:1: crate {name} has no floor: add it to FLOORS in {}",
            manifest.path,
            file!()
        )];
    };
    let mut findings = Vec::new();
    for (other, line) in names_in(manifest, &BUILT_IN) {
        match self::floor(&other) {
            _ if other == OF_TESTS => findings.push(format!(
                "{}:{line}: {name} depends on {other}, which is for tests: make it a dev-dependency",
                manifest.path
            )),
            Some(its) if its >= floor => findings.push(format!(
                "{}:{line}: {name} (floor {floor}) depends on {other} (floor {its}): move what it needs to a lower floor",
                manifest.path
            )),
            None if other.starts_with("sluice") => findings.push(format!(
                "{}:{line}: {other} has no floor: add it to FLOORS in {}",
                manifest.path,
                file!()
            )),
            _ => {}
        }
    }
    findings
}

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

/// The names of all dependencies of a manifest, for building, testing and running, with their lines.
pub(crate) fn dependencies(manifest: &Text) -> Vec<(String, usize)> {
    names_in(manifest, &ALL)
}

fn names_in(manifest: &Text, tables: &[&str]) -> Vec<(String, usize)> {
    let table = DeTable::parse(&manifest.text)
        .expect("a manifest that cargo reads")
        .into_inner();
    let mut found = Vec::new();
    collect(&table, &manifest.text, tables, &mut found);
    found
}

/// The tables of dependencies are at the top, below `workspace` and below `target.….`.
fn collect(table: &DeTable<'_>, text: &str, tables: &[&str], found: &mut Vec<(String, usize)>) {
    for (name, value) in table {
        let DeValue::Table(below) = value.get_ref() else {
            continue;
        };
        let name = name.get_ref().as_ref();
        if tables.contains(&name) {
            for key in below.keys() {
                let line = 1 + text[..key.span().start].matches('\n').count();
                found.push((key.get_ref().to_string(), line));
            }
        } else if !ALL.contains(&name) {
            collect(below, text, tables, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, text: &str) -> Vec<String> {
        check(&Text {
            path: format!("crates/{name}/Cargo.toml"),
            text: text.into(),
        })
    }

    #[test]
    fn a_dependency_on_the_same_or_a_higher_floor_is_found() {
        let good = findings("sluice-server", "[dependencies]\nsluice-gateway = 1\nbytes = 1\n");
        assert_eq!(good, Vec::<String>::new());
        assert_eq!(
            findings(
                "sluice-files",
                "[package]\n[target.'cfg(unix)'.dependencies]\nsluice-log.workspace = true\n"
            ),
            [
                "crates/sluice-files/Cargo.toml:3: sluice-files (floor 4) depends on sluice-log (floor 4): move what it needs to a lower floor"
            ]
        );
        assert_eq!(
            findings("sluice-http", "[build-dependencies]\nsluice-settings = 1\n").len(),
            1
        );
    }

    #[test]
    fn a_test_may_depend_on_any_crate() {
        assert!(findings("sluice-files", "[dev-dependencies]\nsluice-server = 1\n").is_empty());
    }

    #[test]
    fn a_dependency_on_the_harness_of_tests_is_found_outside_of_tests() {
        assert_eq!(
            findings("sluice", "[dependencies]\nsluice-testing.workspace = true\n"),
            [
                "crates/sluice/Cargo.toml:2: sluice depends on sluice-testing, which is for tests: make it a dev-dependency"
            ]
        );
        assert!(findings("sluice", "[dev-dependencies]\nsluice-testing = 1\n").is_empty());
        assert!(findings("sluice-testing", "[dependencies]\nsluice-http = 1\n").is_empty());
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert_eq!(findings("sluice-new", "").len(), 1);
        assert_eq!(findings("sluice", "[dependencies]\nsluice-new = 1").len(), 1);
    }
}
