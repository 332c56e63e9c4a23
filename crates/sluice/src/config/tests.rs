//! The configuration as a whole: an invented file system to read it on, and files that are really read.

mod addresses;
mod directories;
mod keys;
mod logs;
mod messages;
mod routes;

use std::path::Path;

use sluice_settings::{ListenSettings, Settings};

use super::document::{ConfigErrors, Document, FileKind};
use super::root::ROOT;
use super::{interpret, load};

/// Reads a configuration on an invented file system (see `file_kind` and `template`).
pub(super) fn read(text: &str) -> Result<Settings, ConfigErrors> {
    let document = Document::new(&ROOT, "sluice.toml", text, Path::new("/etc/sluice"));
    interpret(document.on(&file_kind, &template))
}

/// The text of a template: `missing.html` does not exist, `broken.html` has a mistake on its second line.
fn template(path: &Path) -> Result<String, String> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("missing.html") => Err("cannot be read: No such file or directory".to_owned()),
        Some("broken.html") => Ok("<p>\n{{ misspelt }}".to_owned()),
        _ => Ok("<p>a page</p>".to_owned()),
    }
}

/// The kind of a file by its name; `missing` and logs do not exist, and other names are directories.
fn file_kind(path: &Path) -> FileKind {
    let path = path.to_string_lossy();
    match path.rsplit('/').next().unwrap_or_default() {
        name if name == "missing" || name.ends_with(".log") => FileKind::Missing("No such file or directory".into()),
        name if name.ends_with(".pem") => FileKind::File,
        "socket" => FileKind::Other,
        "plain" | "wiki.pl" => FileKind::File,
        "wiki" | "perl" | "python3" => FileKind::Program,
        _ => FileKind::Directory,
    }
}

#[test]
fn relative_paths_start_from_the_directory_of_the_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("sluice.toml");
    std::fs::write(&file, "[[site]]\nroot = '.'\n").expect("room for a file");
    let settings = load(&file).expect("a valid configuration");
    assert_eq!(settings.sites[0].root.as_deref(), Some(directory.path()));
    assert_eq!(settings.sites[0].origin, format!("{}:1", file.display()));
    assert_eq!(settings.listen, [ListenSettings::clear(super::LISTEN)]);
}

#[test]
fn a_file_that_cannot_be_read_is_one_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("sluice.toml");
    let message = load(&file).expect_err("no file").to_string();
    assert_eq!(
        message,
        format!("{}: cannot be read: No such file or directory", file.display())
    );
    std::fs::write(&file, b"[[site]]\nroot = '\xff'\n").expect("room for a file");
    let message = load(&file).expect_err("no text").to_string();
    assert_eq!(
        message,
        format!("{}:2: is not UTF-8 text: save the file in UTF-8", file.display())
    );
}
