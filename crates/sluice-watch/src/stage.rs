//! The stages of an exchange, which its tracer enters.
//!
//! A report shows the stage that was entered last, and the timing of WATCH gets a moment from many of the changes.

use crate::timing::Phase;

/// A stage of an exchange: its current work, or the reason why it waits. In the order in which an exchange can enter them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The server decides what answers.
    #[default]
    Deciding,
    /// The decision is made, and passes the gate: access rules and limits.
    Checking,
    /// A thread verifies the password.
    Password,
    /// The answer to a wrong password is delayed.
    Delaying,
    /// An authentication agent is asked.
    Agent,
    /// The exchange waits in the queue of a throttle.
    Throttle,
    /// Access is granted, and the response is made.
    Responding,
    /// A thread lists a directory, compresses a file, or looks up one whose file system may not answer.
    Preparing,
    /// The request body is being stored, before the script gets the request.
    ReadingBody,
    /// The exchange waits for a script process.
    AwaitingProcess,
    /// The script process is being started.
    StartingProcess,
    /// The script has the request, and the head of the response is not sent.
    Running,
    /// The script has written its first byte. Entered only while somebody watches.
    Replying,
    /// The head of the response is sent, and the client takes the response.
    Sending,
    /// The server waits for the next bytes of the body.
    Producing,
    /// The connection has the last byte of the body.
    Sent,
    /// The response was broken off.
    Aborted,
    /// The exchange is over.
    Ended,
}

impl Stage {
    /// Whether the head of the response was sent.
    #[must_use]
    pub fn has_head(self) -> bool {
        self >= Stage::Sending
    }

    /// The stage of the exchange after it has entered this one from `before`. An agent's script has stages of its own, while the request still asks the agent.
    pub(crate) fn after(self, before: Stage) -> Stage {
        match before {
            Stage::Agent if (Stage::ReadingBody..=Stage::Replying).contains(&self) => Stage::Agent,
            _ => self,
        }
    }

    /// The moment of the timing at which an exchange enters this stage from `before`. `None` if the time counts for what comes next.
    pub(crate) fn moment(self, before: Stage) -> Option<Phase> {
        match (before, self) {
            (Stage::Password, Stage::Checking | Stage::Delaying) | (Stage::Agent, Stage::Checking) => {
                Some(Phase::Identified)
            }
            (Stage::Delaying, Stage::Checking) => Some(Phase::Delayed),
            (Stage::Throttle, Stage::Checking) => Some(Phase::Admitted),
            (_, Stage::Checking) => Some(Phase::Decided),
            (_, Stage::Responding) => Some(Phase::Granted),
            (Stage::ReadingBody, Stage::AwaitingProcess) => Some(Phase::Stored),
            (_, Stage::Running) => Some(Phase::Process),
            (_, Stage::Replying) => Some(Phase::FirstByte),
            (before, Stage::Sending) if !before.has_head() => Some(Phase::Head),
            (_, Stage::Sent) => Some(Phase::LastByte),
            (_, Stage::Aborted) => Some(Phase::Aborted),
            (_, Stage::Ended) => Some(Phase::End),
            _ => None,
        }
    }
}
