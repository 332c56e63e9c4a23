//! The ends of the logs: the last lines of the server log or of an access log.

use serde::Serialize;

/// The numbers of lines that may be chosen.
pub const LINES: [usize; 5] = [50, 100, 200, 500, 1000];

/// The number that is shown if none is chosen.
pub const LINES_USUAL: usize = 100;

/// Characters of a text to search for at most.
pub const FILTER_CHARACTERS_MAX: usize = 200;

/// The end of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Logs {
    /// The logs that there are.
    pub logs: Vec<LogName>,
    /// The name of the log that is shown.
    pub log: String,
    /// The most lines that are shown.
    pub lines_max: usize,
    /// The text that each line has.
    pub filter: String,
    /// The lines, the oldest first. Deceptive characters are escaped.
    pub lines: Vec<String>,
    /// A note about the lines, for the reader.
    pub note: Option<String>,
}

/// A log that can be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogName {
    /// The name in the query.
    pub name: String,
    /// The subject of the log.
    pub title: String,
    /// The file; `None` if the log goes elsewhere.
    pub file: Option<String>,
}
