//! The rules of this source tree that the compiler does not check.
//!
//! `cargo run -p tidy` checks the checkout around it; `cargo run -p tidy figures` prints figures about it. Each other file
//! holds one kind of rule, its checker, and small samples that break it. A finding names file and line, what is wrong and
//! what to do. Here: the table of the rules. Nothing of the server is needed, so this runs before it is built.

mod cycles;
mod decision;
mod doc_comments;
mod docs;
mod edges;
mod figures;
mod floors;
mod glossary;
mod heads;
mod imports;
mod key_tables;
mod keys;
mod needs;
mod sizes;
mod source;
mod tree;
mod types;
mod words;

use std::path::Path;
use std::process::ExitCode;

use glossary::Glossary;
use key_tables::KeyTables;
use source::Text;
use tree::Tree;

/// Files without an ending that hold text of ours.
const PLAIN_FILES: [&str; 9] = [
    ".ci/run",
    "Makefile",
    "bench/setup",
    "fuzz/run",
    "tools/check",
    "tools/check-musl",
    "tools/h2spec",
    "tools/needs",
    "tools/test-fresh",
];
/// The page with the words not to use.
const GLOSSARY: &str = "docs/internals/glossary.md";
/// Results of benchmarks, in the words of the tools that were run.
const RESULTS: &str = "bench/results/";
/// This program, whose samples and messages quote what it looks for.
const OWN: &str = "tools/tidy/";

/// The findings of one rule.
type Check = fn(&Tree) -> Vec<String>;

/// The rules.
const CHECKS: [(&str, Check); 21] = [
    ("crates depend only on lower floors", |tree| {
        tree.manifests().iter().flat_map(floors::check).collect()
    }),
    (
        "imports inside a crate have no large cycle and none between directories",
        |tree| {
            let roots = tree.roots();
            roots
                .iter()
                .flat_map(|root| cycles::check(root, &tree.sources))
                .collect()
        },
    ),
    ("two types of a crate never have one name", |tree| {
        let roots = tree.roots();
        roots
            .iter()
            .flat_map(|root| types::check(root, &tree.sources))
            .collect()
    }),
    ("only the decision matches on the kind of a route", |tree| {
        tree.sources.iter().flat_map(decision::check).collect()
    }),
    ("every file opens with a comment about its content", |tree| {
        tree.sources.iter().flat_map(heads::check_head).collect()
    }),
    ("files are short", |tree| {
        tree.sources.iter().flat_map(heads::check_length).collect()
    }),
    (
        "names, comments, messages and docs hold no words that the glossary bans",
        |tree| {
            let glossary = Glossary::new(&tree.text(GLOSSARY));
            let findings = banned_words(tree, &glossary);
            findings.into_iter().chain(glossary.mistakes()).collect()
        },
    ),
    ("nothing is unfinished", |tree| {
        let scripts = tree.texts(&["c", "h", "php", "pl", "py", "sh"]);
        let sources = tree.sources.iter().flat_map(words::check);
        sources.chain(scripts.flat_map(words::check_script)).collect()
    }),
    ("unsafe code lives in two crates", |tree| {
        tree.sources.iter().flat_map(words::check_unsafe).collect()
    }),
    ("tests wait for events and never sleep", |tree| {
        tree.sources.iter().flat_map(words::check_sleep).collect()
    }),
    ("every dependency is accounted for", |tree| {
        docs::check_dependencies(&tree.text("docs/internals/dependencies.md"), &tree.manifests())
    }),
    ("`make test` installs every program that tests start", |tree| {
        let tests = tree.texts(&["rs", "py"]);
        let tests: Vec<&Text> = tests.filter(|text| source::is_test_path(&text.path)).collect();
        needs::check(&tree.text("Makefile"), &tests)
    }),
    ("messages on the page about troubleshooting are in the code", |tree| {
        let sources = tree.texts(&["rs"]).filter(|text| text.path.contains("/src/"));
        let sources = sources.filter(|text| !text.path.starts_with(OWN));
        let sources: String = sources.map(|text| docs::with_joined_strings(&text.text)).collect();
        docs::check_messages(&tree.text("docs/troubleshooting.md"), &sources)
    }),
    ("keys of the configuration in pages exist", |tree| {
        let tables = KeyTables::new(&tree.text(keys::REFERENCE));
        let words = keys::known_words(&tree.sources, tree.texts(&["c", "h", "php", "pl", "py", "sh"]));
        let pages = tree.texts(&["md"]);
        pages.flat_map(|page| keys::check(page, &tables, &words)).collect()
    }),
    ("the architecture page is short", |tree| {
        docs::check_length(&tree.text("ARCHITECTURE.md")).into_iter().collect()
    }),
    ("a dependency on a crate of the workspace is used", |tree| {
        let manifests = tree.manifests();
        manifests
            .iter()
            .flat_map(|manifest| edges::check(manifest, &tree.sources))
            .collect()
    }),
    ("few files name a mode of scripts", |tree| {
        tree.sources.iter().flat_map(decision::check_modes).collect()
    }),
    ("a doc comment begins with a noun or a verb", |tree| {
        tree.sources.iter().flat_map(doc_comments::check).collect()
    }),
    ("examples in doc comments are run", |tree| {
        tree.sources.iter().flat_map(doc_comments::check_examples).collect()
    }),
    ("tracked files are small", |tree| sizes::check_tracked(tree.root())),
    ("nothing names the machine it was written on", |tree| {
        let home = std::env::var_os("HOME");
        let private = docs::private_directories(tree.root(), home.as_deref().map(Path::new));
        let kinds = [
            "c", "h", "html", "md", "php", "pl", "py", "rs", "service", "sh", "toml", "yml",
        ];
        let texts = tree.texts(&kinds);
        texts.flat_map(|text| docs::check_private(text, &private)).collect()
    }),
];

#[expect(
    clippy::print_stdout,
    reason = "findings and figures are what this program is run for"
)]
fn main() -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize();
    let here = here.expect("the directory of this package");
    let root = here.ancestors().nth(2).expect("tools/tidy is two directories deep");
    let tree = Tree::read(root);
    assert!(tree.roots().len() > 4, "the workspace has at least five crates");
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("figures") => {
            let words = banned_words(&tree, &Glossary::new(&tree.text(GLOSSARY)));
            println!("{}", figures::table(&tree.sources, &words));
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            println!("tidy: {other}: say nothing, or figures");
            return ExitCode::FAILURE;
        }
    }
    let mut found: Vec<(&str, Vec<String>)> = CHECKS.iter().map(|(rule, check)| (*rule, check(&tree))).collect();
    found.retain(|(_, findings)| !findings.is_empty());
    for (rule, findings) in &found {
        println!("tidy: {rule}:\n{}\n", findings.join("\n"));
    }
    if found.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The words not to use that the tree holds, but for the page that lists them.
fn banned_words(tree: &Tree, glossary: &Glossary) -> Vec<String> {
    let endings = [
        "c", "h", "html", "css", "md", "php", "pl", "py", "service", "sh", "toml", "txt", "yml",
    ];
    let plain: Vec<Text> = PLAIN_FILES.iter().map(|path| tree.text(path)).collect();
    let texts = tree.texts(&endings).chain(&plain);
    let texts = texts.filter(|text| text.path != GLOSSARY && !text.path.starts_with(RESULTS));
    let of_sources = tree.sources.iter();
    let of_sources = of_sources.flat_map(|source| words::check_glossary(source, glossary));
    let mut findings: Vec<String> = of_sources.collect();
    findings.extend(texts.flat_map(|text| words::check_text(text, glossary)));
    findings
}
