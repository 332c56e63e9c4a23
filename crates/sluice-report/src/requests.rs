//! Requests in progress.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestList {
    pub total: usize,
    /// The oldest of them, the oldest first.
    pub requests: Vec<ActiveRequest>,
    /// Workers that did not answer in time; their requests are missing.
    pub silent_workers: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The server decides what answers.
    #[default]
    Deciding,
    /// A thread verifies the password.
    Password,
    /// An authentication agent is asked.
    Agent,
    /// The request waits in the queue of a throttle.
    Throttle,
    /// A thread lists a directory, or compresses a file.
    Preparing,
    /// The request body is being stored.
    Body,
    /// The request waits for a script process.
    Waiting,
    /// The script process is being started.
    Starting,
    /// The script runs, and the head of the response is not sent.
    Script,
    /// The server waits for the next bytes of the body.
    Producing,
    /// The client takes the response.
    Sending,
}

impl State {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::Deciding => "deciding",
            State::Password => "waiting for the password check",
            State::Agent => "waiting for the agent",
            State::Throttle => "waiting in the throttle",
            State::Preparing => "being prepared",
            State::Body => "reading the body",
            State::Waiting => "waiting for a process",
            State::Starting => "starting a process",
            State::Script => "script runs",
            State::Producing => "waiting for output",
            State::Sending => "sending",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRequest {
    /// The id (UNIQUE_ID).
    pub id: String,
    pub state: State,
    /// Time since its head was complete, milliseconds.
    pub age_ms: u64,
    pub client: String,
    /// The user, if a route has asked for one.
    pub user: Option<String>,
    pub method: String,
    /// The host, as the client has sent it.
    pub host: String,
    /// Path and query, as the client has sent them.
    pub target: String,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`, with `, https` for an encrypted one.
    pub protocol: String,
    /// The handler: `file`, `script` …; `-` until it is decided.
    pub handler: String,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// The script process that works for it.
    pub pid: Option<i32>,
    pub script: Option<String>,
    pub worker: usize,
}
