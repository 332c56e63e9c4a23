//! The protocol between `sluice watch` and the server.
//!
//! ```text
//! sluice watch ── watch_client ─▶ {"command":"watch","spec":{…}}
//!                              ◀─ {"ok":true}           one line, as of any command
//!                              ◀─ -- watching …         until the watch ends, or the client closes the connection
//!                              ◀─ 14:05:08.672341 …     written by the program's `watch_stream`
//! ```

use serde::{Deserialize, Serialize};
use sluice_watch::{End, Notice, Spec};

/// The command that begins a watch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Watching {
    /// Send events as they happen, after the answer.
    Watch {
        /// The format of the events.
        #[serde(default)]
        format: WatchFormat,
        /// The items to watch, with filters and bounds.
        #[serde(default)]
        spec: Spec,
    },
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchFormat {
    /// For people: a line for each event, and more if its text has several.
    #[default]
    Text,
    /// For programs: a JSON object for each event, each in a line.
    Json,
}

impl WatchFormat {
    /// A notice as a line, with its newline.
    #[must_use]
    pub fn line(self, notice: &Notice) -> String {
        match self {
            WatchFormat::Text => format!("{notice}\n"),
            WatchFormat::Json => format!("{}\n", serde_json::to_string(notice).unwrap_or_default()),
        }
    }

    /// Why the watch has ended, if this line says so.
    pub(super) fn end_of(self, line: &str) -> Option<End> {
        let says = |end: &End| self.line(&Notice::Ended(*end)) == line;
        End::ALL.into_iter().find(says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_asked_for_in_json() {
        let watch = r#"{"command":"watch","spec":{"items":"mapping"}}"#;
        let Watching::Watch { format, spec } = serde_json::from_str(watch).unwrap();
        assert_eq!(
            (format, spec.items.to_string().as_str()),
            (WatchFormat::Text, "mapping")
        );
        let wrong = serde_json::from_str::<Watching>(r#"{"command":"watch","spec":{"items":"mappings"}}"#);
        assert!(
            wrong
                .unwrap_err()
                .to_string()
                .contains("unknown item \"mappings\": did you mean mapping?")
        );
    }

    #[test]
    fn the_last_line_says_why_a_watch_has_ended() {
        for format in [WatchFormat::Text, WatchFormat::Json] {
            for end in End::ALL {
                assert_eq!(format.end_of(&format.line(&Notice::Ended(end))), Some(end));
            }
            assert_eq!(format.end_of(&format.line(&Notice::Lost(3))), None);
            assert_eq!(
                format.end_of("14:05:08.672341 decide    000012 mapping         route\n"),
                None
            );
        }
    }
}
