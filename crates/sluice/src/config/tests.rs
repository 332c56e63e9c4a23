//! The configuration as a whole: a world to read it in, and files that are really read.

mod addresses;
mod logs;
mod messages;
mod rules;
mod table;

use std::path::Path;

use sluice_settings::{ListenSettings, Settings};

use super::mistake::{ConfigErrors, Document, Found};
use super::{interpret, load};

/// Reads a configuration in a world where everything it names exists (see `world`).
pub(super) fn read(text: &str) -> Result<Settings, ConfigErrors> {
    interpret(Document::new("sluice.toml", text, Path::new("/etc/sluice"), &world).reading(&texts))
}

/// What templates say: `missing.html` is not there, `broken.html` has its mistake on its second line.
fn texts(path: &Path) -> Result<String, String> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("missing.html") => Err("cannot be read: No such file or directory".to_owned()),
        Some("broken.html") => Ok("<p>\n{{ misspelt }}".to_owned()),
        _ => Ok("<p>a page</p>".to_owned()),
    }
}

/// What is where: `missing` is not there, a name with a dot or `bin/…` is a file, everything else a folder.
fn world(path: &Path) -> Found {
    let path = path.to_string_lossy();
    match path.rsplit('/').next().unwrap_or_default() {
        name if name == "missing" || name.ends_with(".log") => Found::Nothing("No such file or directory".into()),
        name if name.ends_with(".pem") => Found::File,
        "socket" => Found::Other,
        "plain" | "wiki.pl" => Found::File,
        "wiki" | "perl" | "python3" => Found::Program,
        _ => Found::Folder,
    }
}

#[test]
fn a_file_is_read_from_its_own_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("sluice.toml");
    std::fs::write(&file, "[[site]]\nroot = '.'\n").expect("room for a file");
    let settings = load(&file).expect("a good configuration");
    assert_eq!(settings.sites[0].root.as_deref(), Some(folder.path()));
    assert_eq!(settings.sites[0].origin, format!("{}:1", file.display()));
    assert_eq!(settings.listen, [ListenSettings::clear(super::LISTEN)]);
}

#[test]
fn a_file_that_cannot_be_read_is_told_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("sluice.toml");
    let told = load(&file).expect_err("no file").to_string();
    assert_eq!(
        told,
        format!("{}: cannot be read: No such file or directory", file.display())
    );
    std::fs::write(&file, b"[[site]]\nroot = '\xff'\n").expect("room for a file");
    let told = load(&file).expect_err("no text").to_string();
    assert_eq!(
        told,
        format!("{}:2: is no UTF-8 text: save the file in UTF-8", file.display())
    );
}
