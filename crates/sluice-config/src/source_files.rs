//! The files of a configuration as they are read: from a bundle or from the disk, each with a bound.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use sluice_launch::deadline;
use sluice_settings::EngineSettings;
use sluice_settings::notation::reason;
use sluice_settings::source::Source;
use sluice_settings::template::TEMPLATE_BYTES_MAX;

use crate::document::IncludedFiles;
use crate::file_kind::FileKind;

/// Bytes of one configuration file: more than anybody writes, and a bound for a path such as `/dev/zero`.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// The files of a source, and what is on the disk.
pub(crate) struct SourceFiles(pub(crate) Source);

impl SourceFiles {
    /// The kind of file at a path. A file of a bundle counts as a file even if this process cannot see it.
    pub(crate) fn kind(&self, path: &Path) -> FileKind {
        match self.0.has(path) {
            true => FileKind::File,
            false => FileKind::at(path),
        }
    }

    /// Reads a template of at most `TEMPLATE_BYTES_MAX` bytes.
    pub(crate) fn read_template(&self, path: &Path) -> Result<String, String> {
        match self.0.read(path, TEMPLATE_BYTES_MAX as u64) {
            Ok(Some(content)) => String::from_utf8(content).map_err(|_| "is not UTF-8 text".to_owned()),
            Ok(None) => Err(format!("is larger than {} KiB", TEMPLATE_BYTES_MAX >> 10)),
            Err(error) => Err(format!("cannot be read: {}", reason(&error))),
        }
    }
}

impl IncludedFiles for SourceFiles {
    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.0.names(directory)
    }

    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        read_config(file, &self.0)
    }
}

/// The engines of a route that cannot be started: why, and what to do.
pub(crate) fn missing_engines(engines: &EngineSettings) -> Vec<String> {
    let missing = sluice_script::program::engine::missing_engines(engines).into_iter();
    missing.map(|missing| missing.to_string()).collect()
}

/// The text of a module, as far as it is needed: applications are short.
pub(crate) fn read_module(path: &Path) -> Option<String> {
    const BYTES_MAX: u64 = 1 << 20;
    let asked = path.to_owned();
    let read = move || {
        let mut text = Vec::new();
        // Neither a FIFO nor a lease is waited for.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(asked)?;
        file.take(BYTES_MAX).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    deadline::ask(path, read).ok()
}

/// Reads a configuration file of at most `CONFIG_BYTES_MAX` bytes. The error is a reason that follows the path.
pub(crate) fn read_config(path: &Path, source: &Source) -> Result<Vec<u8>, String> {
    match source.read(path, CONFIG_BYTES_MAX) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(format!("is larger than {} MiB", CONFIG_BYTES_MAX >> 20)),
        Err(error) => Err(format!("cannot be read: {}", reason(&error))),
    }
}
