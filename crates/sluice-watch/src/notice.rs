//! Notices between the events of a watch: its description, the number of lost events, and why the watch has ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::line::Escaped;
use crate::spec::Spec;

/// A line between events. As text it begins with `-- `, which no event does; as JSON it has one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notice {
    /// The watch begins, with this description.
    Watching(String),
    /// So many events were lost here.
    Lost(u64),
    /// The watch has ended.
    Ended(End),
}

/// Why a watch has ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The one request that was to be shown has ended.
    Once,
    /// The server ends.
    Server,
    /// The configuration that let the watcher watch was replaced.
    Replaced,
}

impl End {
    /// All of them.
    pub const ALL: [End; 3] = [End::Once, End::Server, End::Replaced];

    /// Why the hub has ended a watch for this.
    #[must_use]
    pub const fn of(spec: &Spec, has_shown: bool) -> End {
        match spec.once && has_shown {
            true => End::Once,
            false => End::Server,
        }
    }

    /// The reason, in words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            End::Once => "the request has ended",
            End::Server => "the server ends",
            End::Replaced => "the configuration was replaced: begin the watch again",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Watching(what) => write!(f, "-- watching {}", Escaped(what)),
            Notice::Lost(events) => write!(
                f,
                "-- {events} events lost here, because they came faster than they were read"
            ),
            Notice::Ended(end) => write!(f, "-- end: {}", end.reason()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_lines_and_json() {
        for (notice, text, json) in [
            (
                Notice::Watching("a\nb".into()),
                "-- watching a\\u{a}b",
                r#"{"watching":"a\nb"}"#,
            ),
            (
                Notice::Lost(3),
                "-- 3 events lost here, because they came faster than they were read",
                r#"{"lost":3}"#,
            ),
            (
                Notice::Ended(End::Once),
                "-- end: the request has ended",
                r#"{"ended":"once"}"#,
            ),
        ] {
            assert_eq!(notice.to_string(), text);
            assert_eq!(serde_json::to_string(&notice).unwrap(), json);
        }
    }
}
