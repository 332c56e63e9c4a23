//! The rules of this source tree that the compiler does not check.
//!
//! Each file here holds one kind of rule, its checker, and small samples that break it. A finding names file and line,
//! what is wrong and what to do. Here: reading the tree and running every checker.

mod cycles;
mod decision;
mod docs;
mod figures;
mod floors;
mod glossary;
mod heads;
mod imports;
mod needs;
mod source;
mod words;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use glossary::Glossary;
use source::{Source, Text};

/// Directories that hold nothing of ours.
const FOREIGN: [&str; 5] = ["target", "build", "node_modules", "__pycache__", "corpus"];
/// Files without an ending that hold text of ours.
const PLAIN_FILES: [&str; 6] = [
    "Makefile",
    "bench/setup",
    "ci/run",
    "tools/h2spec",
    "tools/needs",
    "tools/test-fresh",
];
/// The page with the words not to use.
const GLOSSARY: &str = "docs/internals/glossary.md";
/// Results of benchmarks, in the words of the tools that were run.
const RESULTS: &str = "bench/results/";

#[test]
fn crates_depend_only_on_lower_floors() {
    let manifests = manifests();
    assert!(manifests.len() > 4, "the workspace has at least five manifests");
    assert_tidy(manifests.iter().flat_map(floors::check));
}

#[test]
fn imports_inside_a_crate_have_no_large_cycle_and_none_between_directories() {
    let sources = sources();
    let roots = roots(&sources);
    assert!(roots.len() > 4, "the workspace has at least five crates");
    assert_tidy(roots.iter().flat_map(|root| cycles::check(root, &sources)));
}

#[test]
fn only_the_decision_matches_on_the_kind_of_a_route() {
    assert_tidy(sources().iter().flat_map(decision::check));
}

#[test]
fn few_files_name_a_mode_of_scripts() {
    assert_tidy(sources().iter().flat_map(decision::check_modes));
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
fn names_comments_messages_and_docs_hold_no_words_that_the_glossary_bans() {
    let glossary = Glossary::new(&read(GLOSSARY));
    let findings = banned_words(&sources(), &glossary);
    assert_tidy(findings.into_iter().chain(glossary.mistakes()));
}

#[test]
fn nothing_is_unfinished() {
    assert_tidy(sources().iter().flat_map(words::check));
    assert_tidy(
        texts(&["c", "h", "php", "pl", "py", "sh"])
            .iter()
            .flat_map(words::check_script),
    );
}

/// Prints the figures about the source; see `figures`.
#[test]
#[expect(clippy::print_stdout, reason = "the figures are what this is run for")]
fn figures() {
    let sources = sources();
    let findings = banned_words(&sources, &Glossary::new(&read(GLOSSARY)));
    println!("{}", figures::table(&sources, &findings));
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
    assert_tidy(docs::check_dependencies(
        &read("docs/internals/dependencies.md"),
        &manifests(),
    ));
}

#[test]
fn make_test_installs_every_program_that_tests_start() {
    let tests = texts(&["rs", "py"])
        .into_iter()
        .filter(|text| text.path.contains("/tests/"));
    // Its own samples break the rule.
    let tests: Vec<Text> = tests.filter(|text| !text.path.ends_with("tidy/needs.rs")).collect();
    assert_tidy(needs::check(&read("Makefile"), &tests));
}

#[test]
fn messages_on_the_page_about_troubleshooting_are_in_the_code() {
    let sources = texts(&["rs"]).into_iter().filter(|text| text.path.contains("/src/"));
    let sources: String = sources.map(|text| docs::with_joined_strings(&text.text)).collect();
    assert_tidy(docs::check_messages(&read("docs/troubleshooting.md"), &sources));
}

#[test]
fn the_architecture_page_is_short() {
    assert_tidy(docs::check_length(&read("ARCHITECTURE.md")));
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let private = docs::private_directories(&root(), std::env::var_os("HOME").as_deref().map(Path::new));
    let kinds = [
        "c", "h", "html", "md", "php", "pl", "py", "rs", "service", "sh", "toml", "yml",
    ];
    assert_tidy(
        texts(&kinds)
            .iter()
            .flat_map(|text| docs::check_private(text, &private)),
    );
}

#[track_caller]
fn assert_tidy(findings: impl IntoIterator<Item = String>) {
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// The words not to use that the tree holds, but for the page that lists them.
fn banned_words(sources: &[Source], glossary: &Glossary) -> Vec<String> {
    let endings = [
        "c", "h", "html", "css", "md", "php", "pl", "py", "service", "sh", "toml", "txt", "yml",
    ];
    let plain = PLAIN_FILES.iter().map(|path| read(path));
    let texts = texts(&endings).into_iter().chain(plain);
    let texts = texts.filter(|text| text.path != GLOSSARY && !text.path.starts_with(RESULTS));
    let of_sources = sources
        .iter()
        .flat_map(|source| words::check_glossary(source, glossary));
    let mut findings: Vec<String> = of_sources.collect();
    findings.extend(texts.flat_map(|text| words::check_text(&text, glossary)));
    findings
}

/// The source directories of the crates: `crates/NAME/src/`.
fn roots(sources: &[Source]) -> Vec<String> {
    let roots: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| source.path.find("/src/").map(|end| &source.path[..end + "/src/".len()]))
        .filter(|root| root.starts_with("crates/"))
        .collect();
    roots.into_iter().map(str::to_owned).collect()
}

/// The checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"))
        .canonicalize()
        .expect("this crate's directory");
    here.ancestors()
        .nth(2)
        .expect("crates/sluice is two directories deep")
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
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the tree") {
            let path = entry.expect("an entry of the tree").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                directories.extend((!FOREIGN.contains(&name.as_str())).then_some(path));
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
