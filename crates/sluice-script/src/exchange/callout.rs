//! Callouts: requests that a script sends to the server while it writes its reply.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::StatusCode;
use sluice_gateway::{AgentAnswer, Answer, Callout, CalloutRequest, RequestEncoding, RequestWish, ScriptControl};
use sluice_http::escape::Escaped;
use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};
use sluice_http::target::Target;
use sluice_membuf::BeginError;

use crate::exchange::{Answering, Buffer};
use crate::process::{BufferMemory, LineSource, Process, ProcessSpec};
use crate::resources::Resources;
use crate::route::Map;

/// Lines that an exchange may have logged in an interval, as for standard error; further ones are counted.
const LINES_MAX: u32 = 100;

const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Callouts {
    map: Arc<dyn Map>,
    notices: Notices,
    resources: Arc<Resources>,
    /// 0 if the route allows no memory buffers.
    pub memory_buffer_max: u64,
    pub buffer: Buffer,
    /// The status of the response, once the head of the reply is complete.
    pub status: Option<StatusCode>,
    /// Script-Control, those of the callouts and that of the head merged.
    pub control: ScriptControl,
    /// CGIPLUS: the encoding of the process's next request.
    pub encoding: Option<RequestEncoding>,
    /// CGIPLUS: the next request can come by a socket.
    pub can_use_socket: bool,
    /// CGIPLUS: the script has asked for its next requests by a socket.
    pub wants_socket: bool,
    /// LIFETIME: how long the process may be idle; `Some(None)` is without limit.
    pub lifetime: Option<Option<Duration>>,
    /// FAILED: why the reply must not be taken for a complete one.
    pub failure: Option<String>,
    /// The verdict of an authentication agent about the user; `None` if the script is no agent.
    pub agent: Option<AgentAnswer>,
    /// The client has disconnected.
    pub is_client_gone: bool,
}

impl Callouts {
    pub(crate) fn new(
        map: Arc<dyn Map>,
        process: Arc<Process>,
        resources: Arc<Resources>,
        memory_buffer_max: u64,
    ) -> Callouts {
        Callouts {
            map,
            notices: Notices { process, limited: RateLimitedLog::default() },
            resources,
            memory_buffer_max,
            buffer: Buffer::new(),
            status: None,
            control: ScriptControl::default(),
            encoding: None,
            can_use_socket: false,
            wants_socket: false,
            lifetime: None,
            failure: None,
            agent: None,
            is_client_gone: false,
        }
    }

    /// Carries out a callout. `None` if no answer is wanted, or if it comes later, from the memory buffer.
    pub(crate) fn serve(&mut self, request: CalloutRequest, segment: &mut Option<BufferMemory>) -> Option<Answer> {
        let CalloutRequest { wants_answer, request } = request;
        let answering = if wants_answer {
            Answering::Wanted
        } else {
            Answering::Unwanted
        };
        let answer = match request {
            // The relay has taken the bytes of a region before, and answers when they were sent (`relay::region`).
            Callout::Noop | Callout::BufferRegion(_) => Answer::ok("OK"),
            Callout::BufferFree(_) => return None,
            Callout::MapPath(path) => match Target::parse_lenient(&path)
                .ok()
                .and_then(|to| self.map.file_of(&to.path))
            {
                Some(file) => Answer::ok(text_of(file)),
                None => Answer::new(404, "no file belongs to this path"),
            },
            Callout::MapFile(file) => match self.map.path_of(&file) {
                Some(path) => Answer::ok(path),
                None => Answer::new(404, "no path leads to this file"),
            },
            Callout::Lifetime(lifetime) => {
                self.lifetime = Some(lifetime);
                Answer::ok(lifetime.map_or("none".to_owned(), |time| time.as_secs().to_string()))
            }
            Callout::Cgiplus(wish) => self.note_wish(wish),
            Callout::Noticed(text) => {
                self.notices.log(&text);
                Answer::ok("OK")
            }
            Callout::Watch(text) => {
                let text = self.notices.masked(&text);
                let process = &self.notices.process;
                tracing::debug!(target: "watch", script = &*process.script(), pid = process.pid, "{text}");
                Answer::ok("OK")
            }
            Callout::Failed(text) => {
                self.failure = Some(self.notices.masked(&text));
                Answer::ok("OK")
            }
            Callout::HttpStatus => Answer::ok(format!("{:03}", self.status.map_or(0, |status| status.as_u16()))),
            Callout::ScriptControl(control) => self.take_control(control),
            Callout::BufferBegin { bytes, kind } if self.status.is_none() => {
                let bytes_max = self.memory_buffer_max;
                let begun = self.buffer.begin(segment, kind, bytes, bytes_max, answering)?;
                self.answer_begun(begun)
            }
            Callout::BufferBegin { .. } => Answer::new(400, "BUFFER-BEGIN comes before the head of the reply"),
            Callout::BufferWrite(_) if self.is_client_gone => Answer::new(410, "the client has left"),
            Callout::BufferWrite(part) => self.buffer.write(part.bytes, part.offset, answering)?,
            Callout::BufferEnd => self.buffer.end(answering)?,
            Callout::Agent(line) => {
                let Some(agent) = &mut self.agent else {
                    return wants_answer.then(|| Answer::new(400, "unknown callout"));
                };
                agent.take(line);
                return None;
            }
            Callout::Invalid { reason } => Answer::new(400, reason),
        };
        wants_answer.then_some(answer)
    }

    /// Ready when a memory buffer has begun, with the answer if one is wanted; the segment is back then.
    pub(crate) fn poll_begun(
        &mut self,
        segment: &mut Option<BufferMemory>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Answer>> {
        let (begun, answering) = ready!(self.buffer.poll_begun(segment, context));
        let answer = self.answer_begun(begun);
        Poll::Ready((answering == Answering::Wanted).then_some(answer))
    }

    fn answer_begun(&self, begun: Result<Answer, BeginError>) -> Answer {
        let error = match begun {
            Ok(answer) => return answer,
            Err(error) => error,
        };
        if let BeginError::OverBudget(over) = &error {
            self.resources.log_memory_refused(&self.notices.process.script(), *over);
        }
        let code = match &error {
            BeginError::OverBudget(over) if over.is_too_large() => 413,
            BeginError::NoMemory | BeginError::OverBudget(_) => 503,
            BeginError::TooLarge => 413,
            _ => 500,
        };
        Answer::new(code, error.to_string())
    }

    fn take_control(&mut self, control: ScriptControl) -> Answer {
        if self.status.is_some() && (control.error.is_some() || control.http_status.is_some()) {
            return Answer::new(400, "a status and an error come before the head of the reply");
        }
        let answer = match control.ignored.first() {
            None => Answer::ok("OK"),
            Some(directive) if control.is_empty() => {
                Answer::new(400, format!("{directive}: unknown directive, or its value is invalid"))
            }
            Some(directive) => Answer::ok(format!("OK, but {directive} has no effect")),
        };
        self.obey(control);
        answer
    }

    /// Adds the directives of a Script-Control to those before; the ignored ones are logged.
    pub(crate) fn obey(&mut self, mut control: ScriptControl) {
        self.notices.log_ignored(&std::mem::take(&mut control.ignored));
        if control.lifetime.is_some() {
            self.lifetime = control.lifetime;
        }
        self.control = std::mem::take(&mut self.control).overridden_by(control);
    }

    fn note_wish(&mut self, wish: RequestWish) -> Answer {
        if wish.by_socket && !self.can_use_socket {
            return Answer::new(
                400,
                "CGIPLUS: socket comes within the first request of a process that is kept",
            );
        }
        self.encoding = wish.encoding.or(self.encoding);
        self.wants_socket |= wish.by_socket;
        Answer::ok("OK")
    }
}

struct Notices {
    process: Arc<Process>,
    limited: RateLimitedLog,
}

impl Notices {
    /// The text with zeros for the digits of the process's sentinels.
    fn masked(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.process.spec.sentinels.masked(text.as_bytes())).into_owned()
    }

    fn log(&self, text: &str) {
        let now = Instant::now();
        self.log_suppressed(self.limited.take_due(INTERVAL, now));
        if !self.limited.admits(LINES_MAX, INTERVAL, now) || !self.process.spec.log.admits(text.len(), now) {
            return;
        }
        let text = self.masked(text);
        let (pid, site) = (self.process.pid, &self.process.spec.site);
        let LineSource { script, exchange: id, .. } = self.process.source_of_lines();
        let script = &*script;
        match id {
            Some(id) => tracing::info!(target: "script", site, script, pid, %id, "{text}"),
            None => tracing::info!(target: "script", site, script, pid, "{text}"),
        }
    }

    /// Logs directives of Script-Control that have no effect, each once for a script.
    fn log_ignored(&self, directives: &[Box<str>]) {
        let (pid, ProcessSpec { site, log, .. }) = (self.process.pid, &self.process.spec);
        let script = &*self.process.script();
        for directive in directives.iter().filter(|directive| log.is_first(directive)) {
            let directive = self.masked(directive);
            let directive = Escaped(&directive);
            tracing::warn!(
                target: "script",
                site,
                script,
                pid,
                "Script-Control: {directive} has no effect: the directive is unknown or its value invalid (docs/guides/scripts.md)"
            );
        }
    }

    fn log_suppressed(&self, suppressed: Option<Suppressed>) {
        if let Some(suppressed) = suppressed {
            let pid = self.process.pid;
            tracing::info!(target: "script", script = &*self.process.script(), pid, "NOTICED: {suppressed}");
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.log_suppressed(self.limited.take());
    }
}

fn text_of(file: PathBuf) -> String {
    file.into_os_string()
        .into_string()
        .unwrap_or_else(|bytes| bytes.to_string_lossy().into_owned())
}
