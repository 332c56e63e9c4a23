//! The source tree: every text of ours, with its path from the root.
//!
//! Not here: telling code from comments, which is in `source`, and the rules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::source::{Source, Text};

/// Directories that hold nothing of ours.
const FOREIGN: [&str; 5] = ["target", "build", "node_modules", "__pycache__", "corpus"];

/// The texts and Rust files of a checkout.
pub(crate) struct Tree {
    root: PathBuf,
    texts: Vec<Text>,
    /// The Rust files.
    pub(crate) sources: Vec<Source>,
}

impl Tree {
    /// Reads the checkout whose top directory is `root`.
    pub(crate) fn read(root: &Path) -> Tree {
        const ENDINGS: [&str; 14] = [
            "c", "css", "h", "html", "md", "php", "pl", "py", "rs", "service", "sh", "toml", "txt", "yml",
        ];
        let texts = texts(root, &ENDINGS);
        let rust = texts.iter().filter(|text| text.path.ends_with(".rs")).cloned();
        Tree {
            root: root.to_owned(),
            sources: rust.map(Source::new).collect(),
            texts,
        }
    }

    /// The top directory of this checkout.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// One file; empty if it does not exist.
    pub(crate) fn text(&self, path: &str) -> Text {
        Text {
            path: path.to_owned(),
            text: std::fs::read_to_string(self.root.join(path)).unwrap_or_default(),
        }
    }

    /// Every file with one of these endings, in the order of their paths.
    pub(crate) fn texts<'a>(&'a self, endings: &'a [&str]) -> impl Iterator<Item = &'a Text> {
        self.texts.iter().filter(|text| {
            let ending = text.path.rsplit_once('.').map(|(_, ending)| ending);
            ending.is_some_and(|ending| endings.contains(&ending))
        })
    }

    /// Every `Cargo.toml`.
    pub(crate) fn manifests(&self) -> Vec<Text> {
        let manifests = self.texts(&["toml"]).filter(|text| text.path.ends_with("Cargo.toml"));
        manifests.cloned().collect()
    }

    /// The source directories of the crates: `crates/NAME/src/`.
    pub(crate) fn roots(&self) -> Vec<String> {
        let sources = self.sources.iter();
        let roots: BTreeSet<&str> = sources
            .filter_map(|source| source.path.find("/src/").map(|end| &source.path[..end + "/src/".len()]))
            .filter(|root| root.starts_with("crates/"))
            .collect();
        roots.into_iter().map(str::to_owned).collect()
    }
}

fn texts(root: &Path, endings: &[&str]) -> Vec<Text> {
    let mut texts = Vec::new();
    let mut directories = vec![root.to_owned()];
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
                let path = path.strip_prefix(root).expect("below the root");
                let path = path.to_string_lossy().into_owned();
                texts.push(Text { path, text });
            }
        }
    }
    texts.sort_by(|one, other| one.path.cmp(&other.path));
    texts
}
