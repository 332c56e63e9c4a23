//! The rules of this source tree that a compiler does not know, held by a test.
//!
//! Each file here holds one kind of rule, its checker, and small samples that break it. A finding names file and line,
//! what is wrong and what to do. Here: walking the tree and asking every checker.

mod floors;
mod heads;
mod papers;
mod source;
mod stages;
mod words;

use std::path::{Path, PathBuf};

use source::{Source, Text};

/// Folders that hold nothing of ours.
const FOREIGN: [&str; 5] = ["target", "build", "node_modules", "__pycache__", "corpus"];

#[test]
fn crates_import_only_floors_below() {
    let manifests = manifests();
    assert!(manifests.len() > 4, "the workspace has five crates");
    assert_tidy(manifests.iter().flat_map(floors::check));
}

#[test]
fn stages_of_the_server_import_only_later_ones() {
    let sources: Vec<Source> = sources()
        .into_iter()
        .filter(|source| source.path.starts_with(stages::SERVER))
        .collect();
    assert!(sources.len() > 2, "{} holds the server", stages::SERVER);
    assert_tidy(stages::check(&sources));
}

#[test]
fn every_file_opens_with_what_lives_in_it_and_is_short() {
    assert_tidy(
        sources()
            .iter()
            .flat_map(|source| heads::check_head(source).into_iter().chain(heads::check_length(source))),
    );
}

#[test]
fn names_and_comments_hold_no_banned_words() {
    assert_tidy(sources().iter().flat_map(words::check));
    assert_tidy(
        texts(&["c", "h", "php", "pl", "py", "sh"])
            .iter()
            .flat_map(words::check_script),
    );
}

#[test]
fn unsafe_code_lives_in_two_crates() {
    assert_tidy(sources().iter().flat_map(words::check_unsafe));
}

#[test]
fn tests_wait_for_events_and_never_sleep() {
    assert_tidy(sources().iter().flat_map(words::check_sleep));
}

#[test]
fn every_dependency_is_accounted_for() {
    assert_tidy(papers::check_dependencies(
        &read("docs/internals/dependencies.md"),
        &manifests(),
    ));
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let places = papers::places_of(&root(), std::env::var_os("HOME").as_deref().map(Path::new));
    let kinds = [
        "c", "h", "html", "md", "php", "pl", "py", "rs", "service", "sh", "toml", "yml",
    ];
    assert_tidy(
        texts(&kinds)
            .iter()
            .flat_map(|text| papers::check_places(text, &places)),
    );
}

#[track_caller]
fn assert_tidy(findings: impl IntoIterator<Item = String>) {
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// The checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"))
        .canonicalize()
        .expect("this crate's folder");
    here.ancestors()
        .nth(2)
        .expect("crates/sluice is two folders deep")
        .to_owned()
}

fn read(path: &str) -> Text {
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    Text {
        path: path.to_owned(),
        text,
    }
}

fn sources() -> Vec<Source> {
    texts(&["rs"]).into_iter().map(Source::new).collect()
}

fn manifests() -> Vec<Text> {
    texts(&["toml"])
        .into_iter()
        .filter(|text| text.path.ends_with("Cargo.toml"))
        .collect()
}

/// Every file of the tree with one of these endings, in the order of their paths.
fn texts(endings: &[&str]) -> Vec<Text> {
    let root = root();
    let mut texts = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the tree") {
            let path = entry.expect("an entry of the tree").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.extend((!FOREIGN.contains(&name.as_str())).then_some(path));
            } else if endings.iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
                let text = std::fs::read_to_string(&path).expect("a text of the tree");
                let path = path
                    .strip_prefix(&root)
                    .expect("below the root")
                    .to_string_lossy()
                    .into_owned();
                texts.push(Text { path, text });
            }
        }
    }
    texts.sort_by(|one, other| one.path.cmp(&other.path));
    texts
}
