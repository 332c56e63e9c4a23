//! What a script process does wrong in its reply, with all that is known of the process, for one line in the log.

use std::fmt::{self, Display};
use std::io;
use std::sync::Arc;

use sluice_gateway::{HeadFault, OutputFault};
use sluice_http::fault::{Fault, ScriptFault, ServerFault};
use sluice_launch::{Exit, LaunchError};
use sluice_membuf::RingFault;

/// What is known of a process at one moment. Displayed as
/// `script /x/y, pid 7, exit status 1; its last error line: "…"`.
#[derive(Clone, Debug)]
pub(crate) struct ProcessState {
    /// SCRIPT_FILENAME.
    pub script: Box<str>,
    pub pid: i32,
    pub exit: Option<Exit>,
    /// Empty if it has written none.
    pub last_error: Box<str>,
}

/// A reply that cannot be used.
#[derive(Debug)]
pub(crate) struct BadReply {
    pub process: ProcessState,
    pub violation: Violation,
}

/// What is wrong with a reply.
#[derive(Debug)]
pub(crate) enum Violation {
    /// The head is malformed.
    Head(HeadFault),
    /// Sentinels or callouts are out of order.
    Output(OutputFault),
    /// Output arrived before the script had read its request: it belongs to an earlier one, or the script does not read requests.
    BeforeRequest,
    /// Two replies arrived together: the first may be that of an earlier request.
    TwoReplies,
    /// The cursors of the memory buffer are impossible.
    MemoryBuffer(RingFault),
    /// So many bytes on the mailbox while the memory buffer was open as a ring.
    MailboxDuringRing(usize),
    /// The mailbox cannot be read.
    Mailbox(io::Error),
    /// Answers to callouts cannot be written.
    Answers(io::Error),
    /// The body ended so many bytes short of the Content-Length.
    Short(u64),
    /// A signal ended the process within the body.
    EndedWithinBody,
    /// The reply of a CGIplus script ended without the sentinel.
    NoSentinel,
}

/// A process that was not started.
#[derive(Debug)]
struct LaunchFailure {
    script: Box<str>,
    error: LaunchError,
}

/// The script's fault, or the server's if the machine is to blame.
pub(crate) fn launch_fault(script: &str, error: LaunchError) -> Fault {
    let is_script_fault = error.is_script_fault();
    let script = script.into();
    let failure = Arc::new(LaunchFailure { script, error });
    if is_script_fault {
        ScriptFault::NotStarted(failure).into()
    } else {
        ServerFault::NotStarted(failure).into()
    }
}

impl Display for ProcessState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "script {}, pid {}", self.script, self.pid)?;
        if let Some(exit) = self.exit {
            write!(out, ", {exit}")?;
        }
        if !self.last_error.is_empty() {
            write!(out, "; its last error line: {:?}", self.last_error)?;
        }
        Ok(())
    }
}

impl Display for BadReply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.process, self.violation)
    }
}

impl Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Head(fault) => Display::fmt(fault, out),
            Violation::Output(fault) => Display::fmt(fault, out),
            Violation::BeforeRequest => out.write_str(
                "wrote to its mailbox before it had read the request (CGIPLUSIN); \
                 a script that writes one reply and ends has mode = \"cgi\"",
            ),
            Violation::TwoReplies => out.write_str(
                "ended its reply twice (CGIPLUSEOF), so that it is not known which request the first end belongs to",
            ),
            Violation::MemoryBuffer(fault) => write!(out, "memory buffer: {fault}"),
            Violation::MailboxDuringRing(bytes) => write!(
                out,
                "wrote {bytes} bytes to its mailbox while its memory buffer was open as a ring"
            ),
            Violation::Mailbox(error) => write!(out, "mailbox: {error}"),
            Violation::Answers(error) => Display::fmt(error, out),
            Violation::Short(bytes) => write!(out, "ended {bytes} bytes short of its Content-Length"),
            Violation::EndedWithinBody => out.write_str("ended within its body"),
            Violation::NoSentinel => out.write_str("its reply did not end with the sentinel (CGIPLUSEOF)"),
        }
    }
}

impl Display for LaunchFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "script {}: cannot be started: {}", self.script, self.error)
    }
}
