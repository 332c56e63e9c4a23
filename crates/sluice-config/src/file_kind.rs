//! The kind of file that a path of the configuration leads to.

use std::io;
use std::path::Path;

use sluice_launch::deadline;
use sluice_settings::notation::reason;
use sluice_settings::permission::{self, Subject, Use};

/// The kind of file at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A directory.
    Directory,
    /// A regular file with an execute bit.
    Program,
    /// A regular file without an execute bit.
    File,
    /// A device, a socket or the like.
    Other,
    /// The path does not exist: the system's reason.
    Missing(String),
    /// Permissions hide the path from the user of this process, or its file system does not answer: why, and what to do.
    Denied(String),
}

impl FileKind {
    /// Inspects the file system. A bare name, without any directory, is a program and is looked up in PATH.
    pub(crate) fn at(path: &Path) -> FileKind {
        if path.components().count() == 1 && path.is_relative() {
            let directories = std::env::var_os("PATH").unwrap_or_default();
            let programs = std::env::split_paths(&directories).map(|directory| directory.join(path));
            let found = programs.map(|program| FileKind::at_path(&program));
            let missing = FileKind::Missing("is in no directory of PATH".to_owned());
            return found
                .into_iter()
                .find(|found| *found == FileKind::Program)
                .unwrap_or(missing);
        }
        FileKind::at_path(path)
    }

    fn at_path(path: &Path) -> FileKind {
        match deadline::metadata(path) {
            // As one that may not be entered: a server serves the rest.
            Err(error) if deadline::is_unanswered(&error) => FileKind::Denied(reason(&error)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let denial = permission::denial(path, Use::Enter, &Subject::own());
                FileKind::Denied(denial.map_or_else(|| reason(&error), |denial| denial.to_string()))
            }
            Err(error) => FileKind::Missing(reason(&error)),
            Ok(about) if about.is_dir() => FileKind::Directory,
            Ok(about) if about.is_file() && is_program(&about) => FileKind::Program,
            Ok(about) if about.is_file() => FileKind::File,
            Ok(_) => FileKind::Other,
        }
    }
}

/// Whether any execute bit is set; any, because `sluice check` may run as another user than the server.
fn is_program(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    about.permissions().mode() & 0o111 != 0
}
