//! The configurations in the pages for users are valid, as a whole or as the part of one that they show.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_settings::Settings;

use super::super::document::Document;
use super::super::file_kind::FileKind;
use super::super::interpret;
use super::super::mistake::ConfigErrors;
use super::super::root::ROOT;
use super::super::route::{self, Role};
use super::Invented;

/// Texts after which a part of a configuration is valid.
const BEFORE: [&str; 7] = [
    "",
    "[[site]]\nroot = 'htdocs'\n",
    "[[site]]\nroot = 'htdocs'\n[[site.route]]\npath = '/x/*'\n",
    "[[site]]\nroot = 'htdocs'\n[[site.route]]\npath = '/x/*'\n[site.route.script]\ndirectory = 'cgi-bin'\n",
    "[[site]]\nroot = 'htdocs'\n[[site.route]]\nrefuse = {}\n",
    "[[listen]]\naddress = '127.0.0.1:0'\ntls = { certificate = 'a.pem' }\n\
     [[site]]\nroot = 'htdocs'\nclient_authorities = 'ca.pem'\n[[site.route]]\nrefuse = {}\n",
    "[[listen]]\naddress = '127.0.0.1:0'\n",
];

/// Texts that a part of a configuration may need after it.
const AFTER: [&str; 2] = ["", "\n[[site]]\nroot = 'htdocs'\n"];

/// A comment on the line before a block that shows a mistake, or no configuration of Sluice.
const SKIP: &str = "<!-- example: skip";

#[test]
fn every_configuration_in_the_docs_is_valid() {
    let mut found = 0;
    let mut mistakes = String::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page of this tree");
        for (line, block) in blocks(&text) {
            found += 1;
            // A block may show alternatives, in paragraphs or lines.
            let is_valid = is_valid(&block)
                || block.split("\n\n").all(is_valid)
                || block.lines().filter(|line| !line.trim().is_empty()).all(is_valid);
            if !is_valid {
                let whole = [format!("{block}{}", AFTER[1]), format!("{}{block}", BEFORE[1])];
                let errors = whole.map(|text| read(&text, "").err().map_or(String::new(), |errors| errors.to_string()));
                mistakes += &format!(
                    "{}:{line}:\n{}\nor, in a site:\n{}\n",
                    page.display(),
                    errors[0],
                    errors[1]
                );
            }
        }
    }
    assert!(found > 20, "the pages have {found} configurations");
    assert!(mistakes.is_empty(), "\n{mistakes}");
}

#[test]
fn the_guide_lists_every_action_and_every_change() {
    let page = fs::read_to_string(top().join("docs/guides/routes.md")).expect("a page of this tree");
    let table = page.split("| a route with |").nth(1).expect("the table of effects");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).collect();
    let (changes, actions) = cells.split_last().expect("a row for the changes");
    // Between backquotes are names, around them words.
    let names = |text: &str| {
        let mut names: Vec<String> = text.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        names.sort();
        names
    };
    let sorted = |roles: &[Role]| {
        let mut names: Vec<&str> = route::names(roles).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&actions.join(" ")), sorted(&[Role::Serves, Role::Acts]));
    assert_eq!(names(changes), sorted(&[Role::Changes]));
}

/// Whether it is a configuration, a part of one, or a file to include.
fn is_valid(text: &str) -> bool {
    let is_part = BEFORE.iter().any(|before| {
        AFTER
            .iter()
            .any(|after| read(&format!("{before}{text}{after}"), "").is_ok())
    });
    is_part || read("include = 'sites/*.toml'\n[[site]]\nroot = 'htdocs'\n", text).is_ok()
}

/// Reads a configuration on a file system on which everything exists that the pages name, with one file to include.
fn read(text: &str, included: &str) -> Result<Settings, ConfigErrors> {
    let kind = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_in_bin = path
            .parent()
            .is_some_and(|parent| parent.ends_with("bin") || parent.ends_with("cgi-bin"));
        match name.rsplit_once('.') {
            Some((_, "log")) => FileKind::Missing("No such file or directory".into()),
            None if is_in_bin || name.contains("git-http-backend") => FileKind::Program,
            Some((_, "cgi" | "pl" | "py" | "sh")) => FileKind::Program,
            Some((_, ending)) if !ending.is_empty() && name != "php.d" => FileKind::File,
            _ => FileKind::Directory,
        }
    };
    let files = Invented {
        kind: &kind,
        included: &[("sites/a.toml", included)],
    };
    let document = Document::new(&ROOT, "sluice.toml", text, Path::new("/etc/sluice"), &files);
    interpret(document, |_| {})
}

/// The top of this tree.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README, the guides, and the pages of examples.
fn pages() -> Vec<PathBuf> {
    let directories = ["", "docs", "docs/guides", "examples/git"].map(|directory| top().join(directory));
    let entries = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).expect("a directory of this tree"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect()
}

/// The blocks of TOML of a page, each with the line of its fence.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.trim() == "```toml" {
            let inside = lines.by_ref().map(|(_, line)| line);
            let text: Vec<&str> = inside.take_while(|line| line.trim() != "```").collect();
            if !before.starts_with(SKIP) {
                blocks.push((index + 1, text.join("\n") + "\n"));
            }
        }
        before = line;
    }
    blocks
}
