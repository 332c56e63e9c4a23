//! The writer of a line of standard error, as the log names it: a script and an exchange.

use sluice_http::request_id::UniqueId;

#[derive(PartialEq)]
pub(crate) struct LineSource {
    /// The file of the script, or of the program between two exchanges.
    pub script: String,
    pub exchange: Option<UniqueId>,
    /// The script is one of many that the process runs.
    pub is_run_by_engine: bool,
}

impl LineSource {
    /// `script` is the one that an engine runs, if the program is one.
    pub(crate) fn new(script: Option<&str>, program: &str, exchange: Option<UniqueId>) -> LineSource {
        LineSource {
            is_run_by_engine: script.is_some(),
            script: script.unwrap_or(program).to_owned(),
            exchange,
        }
    }
}
