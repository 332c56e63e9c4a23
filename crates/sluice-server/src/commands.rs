//! Commands of the pages of the reports to the program around the server, which can do what the server cannot: read its configuration again.
//!
//! The program takes the receiving end (`Server::take_commands`), carries commands out as those of the control socket, and answers. Not here:
//! who may give commands (`reports::action`).

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Commands that wait at once; further ones are refused.
pub(crate) const COMMANDS_MAX: usize = 16;

/// How long the program may take: a reload opens all directories and certificates.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read the configuration again.
    Reload,
    /// Open the logs again.
    ReopenLogs,
    /// Empty the file cache.
    Purge,
    /// End after the exchanges in progress.
    Drain,
}

/// A command that waits for its answer.
#[derive(Debug)]
pub struct CommandRequest {
    /// The command.
    pub command: Command,
    /// Who gives it, for the log: `user ann from 192.0.2.1`.
    pub by: String,
    /// Where the answer goes.
    pub answer: oneshot::Sender<CommandAnswer>,
}

/// What came of a command.
#[derive(Clone, Debug, Default)]
pub struct CommandAnswer {
    /// Whether it was carried out.
    pub ok: bool,
    /// What happened, as in the server log.
    pub messages: Vec<String>,
}

impl CommandAnswer {
    /// The command was not carried out.
    #[must_use]
    pub fn refused(message: &str) -> CommandAnswer {
        CommandAnswer {
            ok: false,
            messages: vec![message.to_owned()],
        }
    }
}

/// Gives a command, and waits until it is carried out.
pub(crate) async fn give(commands: &mpsc::Sender<CommandRequest>, command: Command, by: String) -> CommandAnswer {
    let (answer, answered) = oneshot::channel();
    if commands.try_send(CommandRequest { command, by, answer }).is_err() {
        return CommandAnswer::refused("the server is ending, or has too many commands to carry out");
    }
    match timeout(ANSWER_TIMEOUT, answered).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => CommandAnswer::refused("the server is ending"),
        Err(_) => CommandAnswer::refused("there is no answer yet; the server log will say what happens"),
    }
}
