//! Faults of a script process in its reply, with the state of the process, for one line in the log.

use std::fmt::{self, Display};
use std::io;
use std::sync::Arc;

use http::StatusCode;
use sluice_gateway::{BufferPart, ChunkFault, ErrorRequest, HeadFault, OutputFault};
use sluice_http::fault::{Fault, ProcessDetail, ProcessReport, RequestedPage, ScriptFault, ServerFault};
use sluice_launch::{Exit, StartError};
use sluice_membuf::{PARTS_MAX, ReadFault};

use crate::process::{ShebangProblem, linker_advice_at_end};

/// The state of a process. Displayed as `script /x/y, pid 7, exit status 1; its last error line: "…"`.
#[derive(Clone, Debug)]
pub(crate) struct ProcessState {
    /// SCRIPT_FILENAME.
    pub script: Box<str>,
    pub pid: i32,
    pub exit: Option<Exit>,
    /// The limit that has ended it, if one has: `used more than cpu_time = 2s (SIGXCPU)`.
    pub limit: Option<Box<str>>,
    /// The last lines of its standard error in this exchange, the oldest first.
    pub error_lines: Vec<Box<str>>,
}

/// How a process has ended, and the limit that has ended it, if one has.
pub(crate) fn end_text(exit: Exit, limit: Option<&str>) -> String {
    match limit {
        Some(limit) => format!("{exit}: the script {limit}"),
        None => exit.to_string(),
    }
}

impl ProcessDetail for ProcessState {
    fn report(&self) -> ProcessReport {
        ProcessReport {
            pid: self.pid,
            end: self.exit.map(|exit| end_text(exit, self.limit.as_deref())),
            error_lines: self.error_lines.iter().map(ToString::to_string).collect(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct BadReply {
    pub process: ProcessState,
    pub violation: Violation,
}

impl ProcessDetail for BadReply {
    fn report(&self) -> ProcessReport {
        let report = self.process.report();
        match self.violation {
            // It is well: only its script has failed.
            Violation::Failed(_) if report.end.is_none() => ProcessReport { pid: 0, ..report },
            _ => report,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Violation {
    Head(HeadFault),
    Shebang(HeadFault, ShebangProblem),
    Output(OutputFault),
    /// Output arrived before the script had read its request: it belongs to an earlier one, or the script does not read requests.
    BeforeRequest,
    /// Output arrived while the script had not read all of its request from the pipe: it may belong to an earlier one.
    WithinRequest,
    AwaitsOtherChannel,
    /// The script is made for the other mode: how it has shown that, and what to do about it.
    WrongMode(&'static str, String),
    AwaitsNextRequest,
    AwaitsMoreInput,
    /// Two replies arrived together: the first may be that of an earlier request.
    TwoReplies,
    /// The cursors of the memory buffer are impossible, or its pages are waited for.
    MemoryBuffer(ReadFault),
    MailboxDuringRing(usize),
    /// BUFFER-REGION with bytes that the request has not announced; `None` if it does not say which.
    Region(Option<BufferPart>),
    RegionParts(BufferPart),
    Mailbox(io::Error),
    Answers(io::Error),
    Chunks(ChunkFault),
    Short(u64),
    EndedWithinBody,
    FailedAfterHead,
    NoSentinel,
    Failed(String),
}

/// An error page that a script has asked for (`Script-Control: X-error-text`).
#[derive(Debug)]
pub(crate) struct RequestedError {
    pub process: Option<ProcessState>,
    /// 400 to 599.
    pub status: StatusCode,
    pub error: ErrorRequest,
}

/// The fault of a script that says that it has failed, and why. `status` (X-http-status) is that of the error page if it is 500 to 599, otherwise 502.
pub(crate) fn failed(process: ProcessState, reason: Option<String>, status: Option<StatusCode>) -> Fault {
    let violation = Violation::Failed(reason.unwrap_or_default());
    let process = Arc::new(BadReply { process, violation });
    match status.filter(StatusCode::is_server_error) {
        Some(status) => ScriptFault::Failed { status, process }.into(),
        None => ScriptFault::BadReply(process).into(),
    }
}

/// The script's fault, or the server's if the machine is to blame.
pub(crate) fn launch_fault(script: &str, error: &StartError, problem: Option<&ShebangProblem>) -> Fault {
    let failure = Arc::new(match problem {
        Some(problem) => format!(
            "script {script}: cannot be started: {problem} (errno {})",
            error.errno()
        ),
        None => format!("script {script}: cannot be started: {error}"),
    });
    if matches!(error, StartError::Refused(_)) {
        ScriptFault::Refused(failure).into()
    } else if error.is_script_fault() {
        ScriptFault::NotStarted(failure).into()
    } else if error.is_temporary() {
        ServerFault::NoLauncher(failure).into()
    } else {
        ServerFault::NotStarted(failure).into()
    }
}

impl From<RequestedError> for Fault {
    fn from(mut error: RequestedError) -> Fault {
        let text = error.error.text.take();
        let status = error.status;
        let detail = Arc::new(error);
        ScriptFault::Requested(Box::new(RequestedPage { status, text, detail })).into()
    }
}

impl Display for RequestedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(process) = &self.process {
            write!(out, "{process}: ")?;
        }
        write!(out, "asked for an error page ({})", self.status.as_u16())?;
        match self.error.origin().as_str() {
            "" => Ok(()),
            origin => write!(out, ": {origin}"),
        }
    }
}

impl ProcessState {
    /// Whether the process has ended with an error that it has explained.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.exit, Some(Exit::Code(1..) | Exit::Signal(_))) && !self.error_lines.is_empty()
    }

    /// Writes the state without the error output.
    fn fmt_state(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "script {}, pid {}", self.script, self.pid)?;
        match self.exit {
            Some(exit) => write!(out, ", {}", end_text(exit, self.limit.as_deref())),
            None => Ok(()),
        }
    }
}

impl Display for ProcessState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_state(out)?;
        let line = self.error_lines.last().map(|line| &**line);
        if let Some(line) = line {
            write!(out, "; its last error line: {line:?}")?;
        }
        match linker_advice_at_end(self.exit, line) {
            Some(advice) => write!(out, " ({advice})"),
            None => Ok(()),
        }
    }
}

impl Display for BadReply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadReply { process, violation } = self;
        match violation {
            // The reason says what its last error line says, too.
            Violation::Failed(reason) if !reason.is_empty() => process.fmt_state(out)?,
            _ => Display::fmt(process, out)?,
        }
        write!(out, ": {violation}")
    }
}

impl Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Head(fault) => Display::fmt(fault, out),
            Violation::Shebang(fault, problem) => write!(out, "{fault}: {problem}"),
            Violation::Output(fault) => Display::fmt(fault, out),
            Violation::BeforeRequest => {
                out.write_str("wrote to its mailbox before it had read the request (CGIPLUSIN)")
            }
            Violation::WithinRequest => out.write_str(
                "wrote to its mailbox before it had read all of the request (CGIPLUSIN), so that it is not known which request the output belongs to: read \
                 up to the end of the variables first",
            ),
            Violation::AwaitsOtherChannel => out.write_str(
                "waits for a request on CGIPLUSIN, and has asked for its requests by the socket (CGIPLUS: socket): they come by descriptor 5 (CGIPLUSSOCK)",
            ),
            Violation::WrongMode(how, advice) => write!(out, "{how}: {advice}"),
            Violation::AwaitsNextRequest => out.write_str(
                "waits for its next request (CGIPLUSIN), and has not ended its reply: has it flushed its output, and written CGIPLUSEOF?",
            ),
            Violation::AwaitsMoreInput => out.write_str(
                "waits for more input than its CONTENT_LENGTH: the standard input of a CGIplus script has no end-of-file",
            ),
            Violation::TwoReplies => out.write_str(
                "ended its reply twice (CGIPLUSEOF), so that it is not known which request the first end belongs to",
            ),
            Violation::MemoryBuffer(ReadFault::Ring(fault)) => write!(out, "memory buffer: {fault}"),
            Violation::MemoryBuffer(ReadFault::Waits) => out.write_str(
                "its memory buffer keeps the server waiting, because a process takes its pages away (fallocate(2)); \
                 scripts of its user have no memory buffers for ten minutes",
            ),
            Violation::Region(None) => out.write_str("BUFFER-REGION without a decimal number of bytes"),
            Violation::Region(Some(BufferPart { bytes, offset })) => write!(
                out,
                "BUFFER-REGION of {bytes} bytes at offset {offset}, but its request has announced no region with them \
                 (WWW_GATEWAY_REGION)"
            ),
            Violation::RegionParts(BufferPart { bytes, offset }) => write!(
                out,
                "BUFFER-REGION of {bytes} bytes at offset {offset}, while {PARTS_MAX} parts are still being sent to the client; \
                 the script should name larger parts, or wait by BUFFER-FREE"
            ),
            Violation::MailboxDuringRing(bytes) => write!(
                out,
                "wrote {bytes} bytes to its mailbox while its memory buffer was open as a ring"
            ),
            Violation::Mailbox(error) => write!(out, "mailbox: {error}"),
            Violation::Answers(error) => Display::fmt(error, out),
            Violation::Chunks(fault) => Display::fmt(fault, out),
            Violation::Short(bytes) => write!(out, "ended {bytes} bytes short of its Content-Length"),
            Violation::EndedWithinBody => out.write_str("ended within its body"),
            Violation::FailedAfterHead => out.write_str("failed after the head of its reply, without a body"),
            Violation::Failed(reason) if reason.is_empty() => out.write_str("failed (callout FAILED)"),
            Violation::Failed(reason) => write!(out, "failed: {reason}"),
            Violation::NoSentinel => out.write_str("its reply did not end with the sentinel (CGIPLUSEOF)"),
        }
    }
}
