//! The ends of the logs: the last lines of the server log or of an access log.

use serde::Serialize;

/// The numbers of lines that may be chosen.
pub const LINES: [usize; 5] = [50, 100, 200, 500, 1000];

/// The number that is shown if none is chosen.
pub const LINES_USUAL: usize = 100;

/// Characters of a text to search for at most.
pub const FILTER_CHARACTERS_MAX: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Logs {
    pub logs: Vec<LogName>,
    pub log: String,
    pub lines_max: usize,
    /// The text that each line has.
    pub filter: String,
    /// The lines, the oldest first. Deceptive characters are escaped.
    pub lines: Vec<String>,
    pub note: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogName {
    /// The name in the query.
    pub name: String,
    pub title: String,
    /// The file; `None` if the log goes elsewhere.
    pub file: Option<String>,
}
