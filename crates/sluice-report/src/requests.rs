//! Requests in progress.

use std::time::Duration;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::action::Buttons;
use crate::html::table;
use crate::scripts::end_button;
use crate::text;
use crate::view::View;

/// Requests that the page shows; the JSON has all.
const SHOWN_MAX: usize = 200;

/// The requests in progress at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// How many there are.
    pub total: usize,
    /// The oldest of them, the oldest first.
    pub requests: Vec<Request>,
    /// Workers that did not answer in time; their requests are missing.
    pub silent_workers: usize,
}

/// The state of a request.
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
    /// It waits in the queue of a throttle.
    Throttle,
    /// A thread lists a directory, or compresses a file.
    Preparing,
    /// The request body is being stored.
    Body,
    /// It waits for a script process.
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
    /// Its name, for people.
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

/// A request in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its id (UNIQUE_ID).
    pub id: String,
    /// What it does.
    pub state: State,
    /// Time since its head was complete, milliseconds.
    pub age_ms: u64,
    /// The address of the client.
    pub client: String,
    /// The user, if a route has asked for one.
    pub user: Option<String>,
    /// The method.
    pub method: String,
    /// The host, as the client has sent it.
    pub host: String,
    /// Path and query, as the client has sent them.
    pub target: String,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`, with `, https` for an encrypted one.
    pub protocol: String,
    /// What answers: `file`, `script` …; `-` until that is decided.
    pub handler: String,
    /// Bytes of the request body so far.
    pub received_bytes: u64,
    /// Bytes of the response body so far.
    pub sent_bytes: u64,
    /// The script process.
    pub pid: Option<i32>,
    /// The script's file.
    pub script: Option<String>,
    /// The worker.
    pub worker: usize,
}

impl View for Requests {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        let columns = [
            "",
            "asked for",
            "state",
            "time",
            "client",
            "answered by",
            "in",
            "out",
            "request",
            "protocol",
            "worker",
        ];
        let rows: Vec<_> = self
            .requests
            .iter()
            .take(SHOWN_MAX)
            .map(|request| request.row(buttons))
            .collect();
        html! {
            p {
                (text::number(self.total as u64)) " in progress"
                @if self.total > rows.len() { "; the oldest " (text::number(rows.len() as u64)) " are shown" }
                ". This page is one of them."
            }
            @if self.silent_workers > 0 {
                p { (self.silent_workers) " workers did not answer in time: their requests are missing." }
            }
            (table(&columns, &rows))
        }
    }
}

impl Request {
    fn row(&self, buttons: &Buttons<'_>) -> Vec<Markup> {
        vec![
            end_button(buttons, &self.id),
            html! { span.long { (self.method) " " (self.host) (self.target) } },
            html! { (self.state.name()) },
            html! { (text::time(Duration::from_millis(self.age_ms))) },
            html! { (self.client) @if let Some(user) = &self.user { br; "user " (user) } },
            html! {
                (self.handler)
                @if let Some(script) = &self.script { br; (script) }
                @if let Some(pid) = self.pid { br; "process " (pid) }
            },
            html! { (text::bytes(self.received_bytes)) },
            html! { (text::bytes(self.sent_bytes)) },
            html! { code { (self.id) } },
            html! { (self.protocol) },
            html! { (self.worker) },
        ]
    }
}
