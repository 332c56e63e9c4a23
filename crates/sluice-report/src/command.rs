//! Commands of the administrator to a running server, and their results.
//!
//! ```text
//! sluice reload, status, … ─┐ control socket
//! buttons of the reports ───┼──▶ server process ──▶ supervisor     Command
//! signals ──────────────────┘                   ◀──                CommandResult
//! ```
//! All of these exchange the same two types.

use serde::{Deserialize, Serialize};

use crate::connections::ConnectionList;
use crate::requests::RequestList;
use crate::scripts::Scripts;
use crate::status::Status;

/// The bytes of a command at most; a longer one is refused.
pub const COMMAND_BYTES_MAX: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    Status,
    Top,
    Connections,
    /// End the processes of a script, which is named by its file or its path in a URL.
    Retire {
        script: String,
    },
    End {
        id: String,
    },
    /// Read the configuration again (SIGHUP).
    Reload,
    /// Open the logs again (SIGUSR1).
    ReopenLogs,
    /// Empty the file cache (SIGUSR2).
    Purge,
    /// End after the exchanges in progress (SIGTERM).
    Drain,
    /// Have the program of the same path go on, which may be a newer one.
    Upgrade,
}

impl Command {
    /// The name on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Command::Status => "status",
            Command::Top => "top",
            Command::Connections => "connections",
            Command::Retire { .. } => "retire",
            Command::End { .. } => "end",
            Command::Reload => "reload",
            Command::ReopenLogs => "log reopen",
            Command::Purge => "purge",
            Command::Drain => "drain",
            Command::Upgrade => "upgrade",
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CommandResult {
    pub ok: bool,
    /// The events of the command, as in the server log.
    pub messages: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ServerReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestList>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionList>,
}

impl CommandResult {
    #[must_use]
    pub fn done() -> CommandResult {
        CommandResult { ok: true, ..CommandResult::default() }
    }

    /// The command was carried out, with a message for each line of a text.
    #[must_use]
    pub fn done_with(text: &str) -> CommandResult {
        CommandResult { ok: true, ..CommandResult::refused(text) }
    }

    /// The command was refused, with a message for each line of a text.
    #[must_use]
    pub fn refused(text: &str) -> CommandResult {
        CommandResult {
            messages: text.lines().map(str::to_owned).collect(),
            ..CommandResult::default()
        }
    }
}

/// The state of a server, with what the supervisor knows of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerReport {
    pub version: String,
    /// The process to signal.
    pub pid: u32,
    /// The process that serves; the same if there is no supervisor.
    #[serde(default)]
    pub server_pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<History>,
    /// The configuration file; `None` if the command line says everything.
    pub configuration: Option<String>,
    #[serde(flatten)]
    pub status: Status,
    #[serde(default)]
    pub scripts: Scripts,
}

/// The server processes that a supervisor has started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    pub pid: u32,
    /// How often a server process was started again because one had ended.
    pub restarts: u32,
    /// How the last one ended: `was killed by signal 9 (SIGKILL)`.
    pub last_end: Option<String>,
    /// How often the program was replaced (`sluice upgrade`).
    #[serde(default)]
    pub upgrades: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_as_on_the_command_line() {
        for (text, command) in [
            (r#"{"command":"status"}"#, Command::Status),
            (r#"{"command":"reopen-logs"}"#, Command::ReopenLogs),
            (r#"{"command":"end","id":"a"}"#, Command::End { id: "a".into() }),
        ] {
            assert_eq!(serde_json::from_str::<Command>(text).unwrap(), command);
            assert_eq!(serde_json::to_string(&command).unwrap(), text);
        }
        for wrong in [r#"{"command":"stop"}"#, r#"{"command":"end"}"#, "status", ""] {
            assert!(serde_json::from_str::<Command>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn results_have_only_what_was_asked_for() {
        let text = serde_json::to_string(&CommandResult::refused("no\nnever")).unwrap();
        assert_eq!(text, r#"{"ok":false,"messages":["no","never"]}"#);
        let read: CommandResult = serde_json::from_str(&text).unwrap();
        assert!(!read.ok && read.messages == ["no", "never"] && read.state.is_none());
    }
}
