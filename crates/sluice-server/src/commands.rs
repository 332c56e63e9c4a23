//! Commands to the program around the server, which can do what the server cannot: read its configuration again.
//!
//! The reports and the control socket give commands in one form. The program takes the receiving end (`Server::take_commands`), carries them out, and answers.

use std::time::Duration;

use sluice_report::command::{Command, CommandResult};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Commands that wait at once; further ones are refused.
pub(crate) const COMMANDS_MAX: usize = 16;

/// How long the program may take: a reload opens all directories and certificates.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A command that waits for its result.
#[derive(Debug)]
pub struct CommandRequest {
    /// The command.
    pub command: Command,
    /// The requester, for the log.
    pub requester: Requester,
    /// Where the result goes.
    pub answer: oneshot::Sender<CommandResult>,
}

/// A user or visitor who gives a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A user of the system, over the control socket.
    SystemUser(u32),
    /// A visitor of the reports: `user ann from 192.0.2.1`.
    Visitor(String),
}

/// Gives a command of a visitor, and waits until it is carried out.
pub(crate) async fn give(commands: &mpsc::Sender<CommandRequest>, command: Command, visitor: String) -> CommandResult {
    let (answer, answered) = oneshot::channel();
    let request = CommandRequest {
        command,
        requester: Requester::Visitor(visitor),
        answer,
    };
    if commands.try_send(request).is_err() {
        return CommandResult::refused("the server is ending, or has too many commands to carry out");
    }
    match timeout(ANSWER_TIMEOUT, answered).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => CommandResult::refused("the server is ending"),
        Err(_) => CommandResult::refused("there is no answer yet; the server log will say what happens"),
    }
}
