//! The settings of access logs and of the server log: where they go, the format of a line, and rotation.

use std::path::{Path, PathBuf};

use crate::log_format::LogFormat;

/// An access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// The file, the standard output, or nowhere.
    pub target: LogTarget,
    /// The format of a line.
    pub format: LogFormat,
    /// When the file is rotated.
    pub rotation: Rotation,
}

/// When the file of a log is rotated: renamed, and a new one begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Largest file, bytes, if bounded.
    pub bytes_max: Option<u64>,
    /// Whether the file is rotated with the first line after midnight.
    pub is_daily: bool,
    /// How many rotated files are kept, if bounded; then the oldest are removed.
    pub keep: Option<usize>,
}

impl AccessLog {
    /// A log in the combined format that is never rotated.
    pub fn new(target: LogTarget) -> AccessLog {
        AccessLog {
            target,
            format: LogFormat::default(),
            rotation: Rotation::default(),
        }
    }

    /// The file that it goes to. `None` for the standard output, and for a log that is off.
    pub fn file(&self) -> Option<&Path> {
        match &self.target {
            LogTarget::File(file) => Some(file),
            LogTarget::Off | LogTarget::Stdout => None,
        }
    }
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// The standard output.
    Stdout,
    /// To the end of a file, which is reopened on SIGUSR1.
    File(PathBuf),
}

/// The server log: messages for the administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLog {
    /// The file to which it is appended, reopened on SIGUSR1; `None` for standard error.
    pub file: Option<PathBuf>,
    /// The least important messages that are logged.
    pub level: LogLevel,
    /// Whether each line is a JSON object.
    pub is_json: bool,
    /// When the file is rotated.
    pub rotation: Rotation,
}

/// The importance of a message of the server log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Faults of the server.
    Error,
    /// Faults of scripts, and what they write to standard error.
    Warn,
    /// Faults of clients; starts and reloads.
    #[default]
    Info,
    /// Details for finding an error.
    Debug,
}
