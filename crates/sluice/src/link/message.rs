//! Messages between supervisor, server process and launchers.
//!
//! ```text
//! supervisor                                server process
//!     ├── Start: bundle, sockets ─────────────▶│
//!     │◀───────────────── Started, or Failed ──┤
//!     │◀──────────────────────────── Command ──┤   `sluice reload`, the reports
//!     ├── Reload: bundle, new sockets ────────▶│   or Result: the configuration is invalid
//!     │◀──────────────────────────── Reloaded ─┤
//!     ├── Remove: addresses ──────────────────▶│
//!     ├── Drain, then perhaps End ────────────▶│
//! ```
//! The server process parses what clients send, so the supervisor trusts it with no more than this: it may ask for what its own control socket permits.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_report::command::{Command, CommandResult, History};
use sluice_server::LauncherPlan;
use sluice_settings::ScriptUserSettings;

/// The version of these messages, and of what a supervisor leaves for its successor: the hundreds change when one of them does. What server
/// process and launcher say to each other belongs to it, because an old server process may get a launcher of the new program.
pub(crate) const VERSION: u32 = 800 + sluice_launch::MESSAGES_VERSION;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToServer {
    /// Serve. With the bundle, the socket to the launcher, the control socket if there is one, and the sockets of each address.
    Start(Start),
    /// Use other settings. With the bundle and the sockets of added addresses.
    Reload(Reload),
    /// The result of a command that the supervisor has carried out or refused.
    Result {
        causes: Vec<Cause>,
        /// The result, whose messages are for the log.
        result: Box<CommandResult>,
    },
    /// The launcher has ended, and another one starts scripts. With the socket to it.
    Launcher,
    /// Take commands on this control socket instead: the file of the one before is gone.
    Control,
    /// Accept what waits on these addresses, and nothing more.
    Remove(Vec<String>),
    /// The server processes before this one have ended, so what only one may have is free.
    Alone,
    /// Use the certificates and keys of this bundle.
    Certificates {
        /// The files that cannot be read, with the reason.
        unread: Vec<(PathBuf, String)>,
    },
    /// Open the logs again. Their files have been made.
    ReopenLogs(Cause),
    /// Lines of the supervisor's log, for that of the server process. `HasLines` follows.
    Lines(String),
    /// Empty the file cache (SIGUSR2).
    Purge,
    /// Open the directories of the configuration again: the launcher knows where their paths lead now.
    Directories,
    /// End after the exchanges in progress. `is_replaced` if another server process goes on: then idle connections get time to send a request.
    Drain {
        is_replaced: bool,
    },
    End,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// Start scripts for a server process. With the socket to it.
    Start(LauncherPlan),
    /// From now on scripts may run as these users, and these programs with their limits.
    Users(ScriptUserSettings),
    /// Answer this.
    Ask,
    /// End the scripts, and then end, because the server process is given up: it may hang in the kernel, so that its socket stays open.
    End,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromLauncher {
    Alive,
    /// The users and programs that the supervisor has sent are permitted now.
    UsersSet,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The configuration file, as the administrator named it.
    pub(crate) file: PathBuf,
    /// How many of the descriptors are sockets of each address, in the order of the settings.
    pub(crate) sockets: Vec<usize>,
    /// Whether another server process has not ended yet; `Alone` follows then.
    #[serde(default)]
    pub(crate) replaces: bool,
    pub(crate) has_control: bool,
    /// The history of server processes, for `sluice status`.
    pub(crate) supervisor: History,
    /// Lines of the supervisor's log that no server process has said to have, such as how the last one has ended. `Started` says that this one has them.
    #[serde(default)]
    pub(crate) lines: String,
    /// How often the server process says that its workers answer, in milliseconds. `None` for never.
    pub(crate) alive_interval_ms: Option<u64>,
    /// The state that a program on trial would take over, as JSON: the program reports whether it can read that. `None` outside a trial.
    #[serde(default)]
    pub(crate) left: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reload {
    /// The commands and signals that asked for the reload; the first one is named in the log.
    pub(crate) causes: Vec<Cause>,
    /// Each address, in the order of the settings.
    pub(crate) listen: Vec<Listen>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listen {
    /// The address, with the port that the system chose.
    pub(crate) address: String,
    /// The number of its sockets among the descriptors; 0 if the server process has them.
    pub(crate) sockets: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    Signal(String),
    /// The server process, with the number of the command.
    Asked(u64),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromServer {
    Started {
        /// A line about each file, directory and program that it goes on without; of very many, the last line has the number of the others.
        lacks: Vec<String>,
    },
    /// Startup failed; the text is one line for the administrator.
    Failed(String),
    /// A program that is only tried could take over, and has this version of the messages.
    Tried {
        version: u32,
    },
    Reloaded {
        is_done: bool,
    },
    /// The bundle is used, but for these files, whose old content stays. `None` if it is not used.
    NewCertificates {
        kept: Option<Vec<PathBuf>>,
    },
    /// A command that the supervisor carries out. The result has this number as a cause.
    Command {
        number: u64,
        command: Command,
    },
    /// The workers answer.
    Alive,
    /// The last `Lines` are in the log.
    HasLines,
    /// A path of the configuration leads to another directory. `ToServer::Directories` follows.
    DirectoriesMoved,
}
