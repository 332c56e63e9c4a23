//! The files of a configuration as they are read: from a bundle or from the disk, each with a bound.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sluice_launch::deadline;
use sluice_script::program::engine::missing_engines;
use sluice_script::program::python_modules::module_directories;
use sluice_settings::EngineSettings;
use sluice_settings::notation::reason;
use sluice_settings::source::Source;
use sluice_settings::template::TEMPLATE_BYTES_MAX;

use crate::document::decode;
use crate::file_kind::FileKind;
use crate::mistake::ConfigErrors;

/// Bytes of one configuration file: more than anybody writes, and a bound for a path such as `/dev/zero`.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Bytes that are read of a module in Python: applications are short.
const MODULE_BYTES_MAX: u64 = 1 << 20;

/// The files that a configuration names.
pub(crate) trait Files {
    /// Where they are read.
    fn source(&self) -> &Source;
    /// The kind of file at a path.
    fn kind(&self, path: &Path) -> FileKind;
    /// The engines of a route that cannot be started: why, and what to do.
    fn missing_engines(&self, engines: &EngineSettings) -> Vec<String>;
    /// The directories of installed modules for an application in Python.
    fn module_directories(&self, engines: &EngineSettings) -> Vec<PathBuf>;
    /// The text of a module in Python; `None` if it cannot be read.
    fn read_module(&self, path: &Path) -> Option<String>;
    /// Reads a template. The error is a reason that follows the path: `cannot be read: …`.
    fn read_template(&self, path: &Path) -> Result<String, String>;
    /// The names in a directory.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// The content of a configuration file. The error is a reason that follows the path.
    fn read(&self, file: &Path) -> Result<Vec<u8>, String>;
}

/// The files of a source, and what is on the disk.
pub(crate) struct SourceFiles(pub(crate) Source);

impl Files for SourceFiles {
    fn source(&self) -> &Source {
        &self.0
    }

    fn kind(&self, path: &Path) -> FileKind {
        // This process may not see a file of a bundle.
        match self.0.has(path) {
            true => FileKind::File,
            false => FileKind::at(path),
        }
    }

    fn missing_engines(&self, engines: &EngineSettings) -> Vec<String> {
        missing_engines(engines)
    }

    fn module_directories(&self, engines: &EngineSettings) -> Vec<PathBuf> {
        module_directories(engines)
    }

    fn read_module(&self, path: &Path) -> Option<String> {
        let asked = path.to_owned();
        let read = move || {
            let mut text = Vec::new();
            // Neither a FIFO nor a lease is waited for.
            let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
            let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(asked)?;
            file.take(MODULE_BYTES_MAX).read_to_end(&mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        deadline::ask(path, read).ok()
    }

    fn read_template(&self, path: &Path) -> Result<String, String> {
        match self.0.read(path, TEMPLATE_BYTES_MAX as u64) {
            Ok(Some(content)) => String::from_utf8(content).map_err(|_| "is not UTF-8 text".to_owned()),
            Ok(None) => Err(format!("is larger than {} KiB", TEMPLATE_BYTES_MAX >> 10)),
            Err(error) => Err(format!("cannot be read: {}", reason(&error))),
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.0.names(directory)
    }

    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        read_config(file, &self.0)
    }
}

/// Reads a configuration file of at most `CONFIG_BYTES_MAX` bytes. The error is a reason that follows the path.
pub(crate) fn read_config(path: &Path, source: &Source) -> Result<Vec<u8>, String> {
    match source.read(path, CONFIG_BYTES_MAX) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(format!("is larger than {} MiB", CONFIG_BYTES_MAX >> 20)),
        Err(error) => Err(format!("cannot be read: {}", reason(&error))),
    }
}

/// The text of the main file of a configuration, and its directory, which is absolute.
pub(crate) fn read_text(path: &Path, source: &Source) -> Result<(String, PathBuf), ConfigErrors> {
    let refuse = |line, message: String| ConfigErrors::one(&path.display().to_string(), line, message);
    let bytes = read_config(path, source).map_err(|reason| refuse(None, reason))?;
    let absolute = std::path::absolute(path);
    let absolute = absolute.map_err(|error| refuse(None, format!("has no absolute path: {}", reason(&error))))?;
    let text =
        decode(bytes).map_err(|line| refuse(Some(line), "is not UTF-8 text: save the file in UTF-8".to_owned()))?;
    Ok((text, absolute.parent().unwrap_or(Path::new("/")).to_owned()))
}
