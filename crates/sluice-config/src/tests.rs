//! The configuration as a whole: an invented file system to read it on, and files that are really read.

mod addresses;
mod agents;
mod blocks;
mod directories;
mod docs;
mod engines;
mod foreign;
mod includes;
mod keys;
mod logs;
mod messages;
mod pools;
mod routes;
mod variables;

use std::io;
use std::path::{Path, PathBuf};

use sluice_settings::source::Source;
use sluice_settings::{EngineSettings, ListenSettings, Settings};

use super::document::Document;
use super::file_kind::FileKind;
use super::mistake::ConfigErrors;
use super::root::ROOT;
use super::source_files::Files;
use super::{interpret, load};

/// Reads a configuration on an invented file system (see `file_kind` and `template`), with one file to include.
pub(super) fn read(text: &str) -> Result<Settings, ConfigErrors> {
    read_with(
        text,
        &[("sites/a.toml", "[[site]]\nhosts = ['included']\nroot = 'included'\n")],
    )
}

/// Reads a configuration as `read` does, with these files to include: their paths below the directory of the main file, and their texts.
pub(super) fn read_with(text: &str, included: &[(&str, &str)]) -> Result<Settings, ConfigErrors> {
    let files = Invented { kind: &file_kind, included };
    let document = Document::new(&ROOT, "sluice.toml", text, Path::new("/etc/sluice"), &files);
    interpret(document, |_| {})
}

/// An invented file system, with some files to include.
struct Invented<'a> {
    kind: &'a dyn Fn(&Path) -> FileKind,
    included: &'a [(&'a str, &'a str)],
}

impl Files for Invented<'_> {
    fn source(&self) -> &Source {
        static DISK: Source = Source::DISK;
        &DISK
    }

    fn kind(&self, path: &Path) -> FileKind {
        (self.kind)(path)
    }

    fn missing_engines(&self, engines: &EngineSettings) -> Vec<String> {
        match &engines.sdk {
            Some(sdk) if sdk.ends_with("missing") => vec!["the engine is missing".to_owned()],
            _ => Vec::new(),
        }
    }

    fn module_directories(&self, engines: &EngineSettings) -> Vec<PathBuf> {
        match &engines.virtualenv {
            Some(virtualenv) => vec![virtualenv.join("modules")],
            None => Vec::new(),
        }
    }

    fn read_module(&self, path: &Path) -> Option<String> {
        path.ends_with("asgi.py").then(|| "app = FastAPI()\n".to_owned())
    }

    fn read_template(&self, path: &Path) -> Result<String, String> {
        template(path)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let directory = directory.strip_prefix("/etc/sluice").unwrap_or(directory);
        let below = self
            .included
            .iter()
            .filter_map(|(path, _)| Path::new(path).strip_prefix(directory).ok());
        let first = |path: &Path| Some(path.components().next()?.as_os_str().to_str()?.to_owned());
        let mut names: Vec<String> = below.filter_map(first).collect();
        names.dedup();
        match names.is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(names),
        }
    }

    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        let path = file.strip_prefix("/etc/sluice").unwrap_or(file);
        let found = self.included.iter().find(|(own, _)| Path::new(own) == path);
        found
            .map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| "cannot be read: invented".to_owned())
    }
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
        name if name == "missing" && !path.ends_with("not/missing") || name.ends_with(".log") => {
            FileKind::Missing("No such file or directory".into())
        }
        _ if path.contains("/a/installed") => FileKind::Missing("No such file or directory".into()),
        "fifo.toml" => FileKind::Other,
        name if name.ends_with(".pem") || name.ends_with(".toml") => FileKind::File,
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
    assert_eq!(settings.listen, [ListenSettings::clear(super::DEFAULT_ADDRESS)]);
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
