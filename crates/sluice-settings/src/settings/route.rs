//! The settings of a site's rules: which requests each is for, and what it does. How scripts run stands with the settings of
//! scripts.

use std::path::PathBuf;
use std::time::Duration;

use super::ScriptSettings;
use crate::record_format::RecordFormat;
use crate::rule::{Changes, Conditions, Pattern, Replacement};

/// A rule of a site: what a path means.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// Where it was written, for messages.
    pub origin: String,
    /// `/exact`, `/prefix/*` or, under the root, `*.cgi`; `*` stands for any run of characters. Or a regular expression.
    pub path: Pattern,
    /// What must hold beside the path.
    pub when: Conditions,
    /// What is done with a request that matches.
    pub action: Action,
    /// What changes for whatever answers, be it this rule or a later one.
    pub changes: Changes,
}

impl RouteSettings {
    /// A rule for every request whose path matches.
    pub fn new(path: &str, action: Action) -> RouteSettings {
        RouteSettings {
            origin: String::new(),
            path: Pattern::from(path),
            when: Conditions::default(),
            action,
            changes: Changes::default(),
        }
    }
}

/// What a route does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Serves files from a directory; the pattern's part before `*` is taken off the path.
    Files {
        /// The directory.
        directory: PathBuf,
        /// How its files are stored, where that is not as bytes.
        records: Option<RecordSettings>,
        /// Whether directories in it without an index page are listed; none: as the site says.
        listing: Option<bool>,
    },
    /// Runs a script.
    Script(Box<ScriptSettings>),
    /// Sends the client elsewhere.
    Redirect {
        /// The new address.
        to: Replacement,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// Answers with an error.
    Refuse(RefusalSettings),
    /// Goes on with the next rule, for another path, and another query if this has one.
    Rewrite(Replacement),
    /// Goes on with the next rule.
    Pass,
}

/// An error that a rule answers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalSettings {
    /// From 400 to 599.
    pub status: u16,
    /// What the visitor is told in the place of the status's sentence.
    pub text: Option<String>,
    /// When to come again (Retry-After).
    pub retry_after: Option<Duration>,
}

/// Files of records, which are sent as lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// How the records lie in a file.
    pub format: RecordFormat,
    /// What becomes of the lines beside the response.
    pub convert: Convert,
}

/// What becomes of the lines that were made of a file's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convert {
    /// Nothing: they are made anew for each request.
    Off,
    /// They are kept in the file cache, within its bounds.
    Cache,
    /// The same, and the file is written anew as stream-LF.
    Rewrite,
}
