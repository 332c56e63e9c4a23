//! Commands of the administrator to a running server, over a unix socket: `sluice status`, `top`, `reload`, `drain`, `purge`, `retire`,
//! `end`, `log reopen`, `watch`.
//!
//! ```text
//! sluice status ── client ──▶ PID.sock ──▶ socket ──▶ supervisor
//!               ◀─ render ◀── one line of JSON each way ◀─┘
//! ```
//! Here: what is said. `place` says where the sockets are, `socket` is the server's side, `client` the other one (`found` says
//! what it has found), `render` prints the state. A connection is for one command. Signals can do the same, except for asking (`supervisor`). `sluice watch` is a command that
//! leaves its connection open for the events (`watching`).

pub(crate) mod client;
mod found;
pub(crate) mod place;
pub(crate) mod render;
pub(crate) mod socket;
pub(crate) mod watch_client;
mod watch_stream;
mod watching;
mod waterfall;

use serde::{Deserialize, Serialize};
use sluice_report::connections::Connections;
use sluice_report::requests::Requests;
use sluice_report::scripts::Scripts;
use sluice_server::status::Status;

use crate::link::message::History;

/// The bytes of a command at most; a longer one is refused.
const COMMAND_BYTES_MAX: u64 = 4096;

/// A command to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Command {
    /// Report the state, with the pools of script processes.
    Status,
    /// Report the state, and the requests in progress.
    Top,
    /// Report the connections of clients.
    Connections,
    /// End the processes of a script, which is named by its file or its path in a URL.
    Retire {
        /// The script.
        script: String,
    },
    /// End a request in progress.
    End {
        /// Its id.
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
    /// The command of a page of the reports.
    pub(crate) const fn of_pages(command: sluice_server::commands::Command) -> Command {
        match command {
            sluice_server::commands::Command::Reload => Command::Reload,
            sluice_server::commands::Command::ReopenLogs => Command::ReopenLogs,
            sluice_server::commands::Command::Purge => Command::Purge,
            sluice_server::commands::Command::Drain => Command::Drain,
        }
    }

    /// Its name on the command line.
    pub(crate) const fn name(&self) -> &'static str {
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

/// The answer of the server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Whether the command was carried out.
    pub(crate) ok: bool,
    /// What happened, as in the server log.
    pub(crate) messages: Vec<String>,
    /// The state, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<State>,
    /// The requests in progress, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requests: Option<Requests>,
    /// The connections, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<Connections>,
}

/// The state of a server, with what the supervisor knows of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) version: String,
    /// The process to signal.
    pub(crate) pid: u32,
    /// The process that serves; the same if there is no supervisor.
    #[serde(default)]
    pub(crate) server_pid: u32,
    /// What the supervisor knows, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) supervisor: Option<History>,
    /// The configuration file; `None` if the command line says everything.
    pub(crate) configuration: Option<String>,
    #[serde(flatten)]
    pub(crate) status: Status,
    /// The pools of script processes.
    #[serde(default)]
    pub(crate) scripts: Scripts,
}

impl Answer {
    /// The command was carried out.
    pub(crate) fn done() -> Answer {
        Answer {
            ok: true,
            ..Answer::default()
        }
    }

    /// The command was refused.
    pub(crate) fn refused(message: impl Into<String>) -> Answer {
        Answer {
            messages: vec![message.into()],
            ..Answer::default()
        }
    }
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
}
