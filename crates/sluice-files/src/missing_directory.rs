//! The error that a directory of the configuration does not exist, or may not be entered: which fault it is, and what helps.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sluice_http::fault::ServerFault;
use sluice_settings::permission::{self, Denial, Subject, Use};

/// The error that a directory of the configuration does not exist, or may not be entered.
#[derive(Debug)]
pub(crate) struct Missing {
    directory: PathBuf,
    /// Why it may not be entered. `None` if it does not exist.
    denial: Option<Denial>,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.denial {
            Some(denial) => write!(out, "{}: {denial}", self.directory.display()),
            None => write!(out, "{} does not exist", self.directory.display()),
        }
    }
}

impl std::error::Error for Missing {}

impl Missing {
    /// The error of opening this directory, if it is one of these; any other error is unchanged.
    pub(crate) fn of(directory: &Path, error: io::Error) -> io::Error {
        let denial = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => None,
            _ if Errno::from_io_error(&error) == Some(Errno::LOOP) => None,
            io::ErrorKind::PermissionDenied => {
                let Some(denial) = permission::denial(directory, Use::Enter, &Subject::own()) else {
                    return error;
                };
                Some(denial)
            }
            _ => return error,
        };
        let directory = directory.to_owned();
        io::Error::new(io::ErrorKind::NotFound, Missing { directory, denial })
    }
}

/// The fault that a directory of the configuration does not exist or may not be entered, if an error says so.
#[must_use]
pub fn missing_directory(error: &io::Error) -> Option<ServerFault> {
    let missing = error.get_ref()?.downcast_ref::<Missing>()?;
    Some(match missing.denial {
        Some(_) => ServerFault::Closed(missing.to_string().into()),
        None => ServerFault::Missing(missing.directory.as_path().into()),
    })
}
