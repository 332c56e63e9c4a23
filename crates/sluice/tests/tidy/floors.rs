//! Floors: a crate imports only crates of the floors below it.

use toml::de::{DeTable, DeValue};

use super::source::Text;

/// The crates and their floors. A new crate gets its line here and in ARCHITECTURE.md.
const FLOORS: [(&str, u8); 5] = [
    ("sluice-gateway", 0),
    ("sluice-membuf", 1),
    ("sluice-launch", 1),
    ("sluice-server", 2),
    ("sluice", 3),
];

/// Checks the manifest of a crate of the workspace; others (the workspace's own, fuzzing, examples) stand on no floor.
pub(crate) fn check(manifest: &Text) -> Vec<String> {
    let Some(folder) = manifest
        .path
        .strip_prefix("crates/")
        .and_then(|path| path.strip_suffix("/Cargo.toml"))
    else {
        return Vec::new();
    };
    let Some(floor) = floor(folder) else {
        return vec![format!(
            "{}:1: crate {folder} stands on no floor: add it to FLOORS in {}",
            manifest.path,
            file!()
        )];
    };
    let mut findings = Vec::new();
    for (name, line) in dependencies(manifest) {
        match self::floor(&name) {
            Some(other) if other >= floor => findings.push(format!(
                "{}:{line}: {folder} (floor {floor}) imports {name} (floor {other}): move what it needs to a floor below",
                manifest.path
            )),
            None if name.starts_with("sluice") => {
                findings.push(format!("{}:{line}: {name} stands on no floor: add it to FLOORS in {}", manifest.path, file!()));
            }
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
    let table = DeTable::parse(&manifest.text)
        .expect("a manifest that cargo reads")
        .into_inner();
    let mut found = Vec::new();
    collect(&table, &manifest.text, &mut found);
    found
}

/// Dependencies stand in tables of these names, at the top, below `workspace` and below `target.….`.
fn collect(table: &DeTable<'_>, text: &str, found: &mut Vec<(String, usize)>) {
    for (name, value) in table {
        let DeValue::Table(below) = value.get_ref() else {
            continue;
        };
        if ["dependencies", "dev-dependencies", "build-dependencies"].contains(&name.get_ref().as_ref()) {
            for key in below.keys() {
                let line = 1 + text[..key.span().start].matches('\n').count();
                found.push((key.get_ref().to_string(), line));
            }
        } else {
            collect(below, text, found);
        }
    }
}

#[test]
fn an_import_of_the_same_or_a_higher_floor_is_found() {
    let manifest = |folder: &str, text: &str| Text {
        path: format!("crates/{folder}/Cargo.toml"),
        text: text.into(),
    };
    let good = manifest("sluice-server", "[dependencies]\nsluice-gateway = 1\nbytes = 1\n");
    assert_eq!(check(&good), Vec::<String>::new());
    let bad = manifest(
        "sluice-launch",
        "[package]\n[target.'cfg(unix)'.dev-dependencies]\nsluice-membuf.workspace = true\n",
    );
    assert_eq!(
        check(&bad),
        [
            "crates/sluice-launch/Cargo.toml:3: sluice-launch (floor 1) imports sluice-membuf (floor 1): move what it needs to a floor below"
        ]
    );
    assert_eq!(check(&manifest("sluice-new", "")).len(), 1, "a crate without a floor");
    assert_eq!(
        check(&manifest("sluice", "[dependencies]\nsluice-new = 1")).len(),
        1,
        "an import without a floor"
    );
}
