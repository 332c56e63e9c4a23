//! Types by which the kinds of a fault hold values of other crates.

use std::fmt::{Debug, Display};

/// A fact that another crate knows about a fault: its own type, which can be displayed.
pub trait Detail: Debug + Display + Send + Sync {}

impl<T: Debug + Display + Send + Sync> Detail for T {}

/// A fact that another crate knows about a fault of a script process.
pub trait ProcessDetail: Detail {
    /// The state of the process when the fault was found.
    fn report(&self) -> ProcessReport;
}

/// A script process as a detailed error page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReport {
    /// The process id; 0 if nothing is to be said of the process, because it goes on with other requests.
    pub pid: i32,
    /// How it ended: `exit code 1`. `None` if it was still running.
    pub end: Option<String>,
    /// The last lines of its standard error, the oldest first.
    pub error_lines: Vec<String>,
}
