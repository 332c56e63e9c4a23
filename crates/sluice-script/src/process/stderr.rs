//! The standard error of a script: each line is logged with the script, its process and its exchange.
//!
//! Threads read the pipe (`pipe_reader`). A script that writes too much loses only its own lines: the pipe is always read, and beyond `LINES_MAX` lines in an `INTERVAL`, or
//! the bound on all its processes (`script_log`), they are counted instead of logged.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_http::escape::Escaped;
use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};
use tokio::time::{sleep, timeout};

use crate::process::line_source::LineSource;
use crate::process::pipe_end::PipeEnd;
use crate::process::pipe_reader::PipeReader;
use crate::process::script_process::Process;

/// Longer lines are split after so many bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Lines of one process that are logged within an interval, or of one exchange with an engine; further ones are counted.
const LINES_MAX: u32 = 100;

/// The text of EMSGSIZE (strerror(3)).
const TOO_LARGE: &str = "Message too long";

/// The interval: so short that a script whose output is being debugged soon has its lines logged again.
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes read after the end of the process at most: what a pipe can hold, so that none of its own are missed.
const LAST_BYTES_MAX: usize = 1 << 20;

/// How long that may take. Only another process can keep the pipe locked then.
const LAST_READ_MAX: Duration = Duration::from_secs(1);

/// Bytes of a read.
const READ_BYTES: usize = 8192;

/// The reader of one process's standard error.
pub(crate) struct StderrReader {
    pipe: PipeReader,
    process: Arc<Process>,
    line: Vec<u8>,
    /// The script and the exchange that have begun the line.
    source: LineSource,
    is_open: bool,
    limited: RateLimitedLog,
}

impl StderrReader {
    /// Registers the pipe with the calling worker's event loop.
    pub(crate) fn new(pipe: PipeEnd, process: Arc<Process>) -> std::io::Result<StderrReader> {
        let pipe = PipeReader::new(pipe, READ_BYTES)?;
        process.errors.set_pipe(pipe.shared());
        Ok(StderrReader {
            pipe,
            source: process.source_of_lines(),
            process,
            line: Vec::new(),
            is_open: true,
            limited: RateLimitedLog::default(),
        })
    }

    /// Waits for output and logs its lines, or logs the count of those that were not logged, once their interval is over. Pending
    /// for ever once the script has closed its end.
    pub(crate) async fn read(&mut self) {
        tokio::select! {
            bytes = poll_fn(|context| self.pipe.poll_read(context)), if self.is_open => self.take(bytes),
            () = sleep(INTERVAL), if self.limited.has_suppressed() => self.log_suppressed(self.limited.take()),
            else => std::future::pending().await,
        }
    }

    /// The process has ended: logs the lines that are left, the last one even without a newline.
    pub(crate) async fn finish(&mut self) {
        let _ = timeout(LAST_READ_MAX, self.read_last()).await;
        self.end_line();
        self.log_suppressed(self.limited.take());
    }

    async fn read_last(&mut self) {
        let mut taken = 0;
        while taken < LAST_BYTES_MAX && self.has_bytes() {
            let bytes = poll_fn(|context| self.pipe.poll_read(context)).await;
            taken += bytes.as_ref().map_or(0, Vec::len);
            self.take(bytes);
        }
    }

    /// Whether there is something to read now. It asks the pipe itself: what a script has written just before the end of its reply may not
    /// have made the pipe readable in the event loop yet.
    pub(crate) fn has_bytes(&self) -> bool {
        self.is_open && self.pipe.shared().has_bytes()
    }

    fn take(&mut self, bytes: Option<Vec<u8>>) {
        match bytes {
            Some(bytes) => self.split(&bytes),
            None => self.is_open = false,
        }
    }

    fn split(&mut self, bytes: &[u8]) {
        let source = self.process.source_of_lines();
        if self.source != source {
            // A line without its end that an earlier exchange has written is no part of one of this exchange.
            self.end_line();
            if source.is_run_by_engine && self.source.exchange != source.exchange {
                // As if each request had a process of its own: a script that writes much must not silence the next one.
                self.log_suppressed(self.limited.take());
                self.limited = RateLimitedLog::default();
            }
            self.source = source;
        }
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
                continue;
            }
            self.line.push(byte);
            if self.line.len() == LINE_BYTES_MAX {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = self.process.sentinels.masked(&line);
        let text = String::from_utf8_lossy(&line).replace('\t', " ");
        // A line must not look like two in the log, or move the cursor of a terminal.
        let text = Escaped(text.trim_end()).to_string();
        if text.is_empty() {
            return;
        }
        // Another exchange must not show it as its own.
        if self.source == self.process.source_of_lines() {
            self.process.note_error(&text);
        }
        let now = Instant::now();
        self.log_suppressed(self.limited.take_due(INTERVAL, now));
        if !self.limited.admits(LINES_MAX, INTERVAL, now) || !self.process.log.admits(text.len(), now) {
            return;
        }
        let Process { pid, site, .. } = &*self.process;
        let LineSource { script, exchange, .. } = &self.source;
        match exchange {
            Some(id) => tracing::warn!(target: "script", site, script, pid, %id, "{text}"),
            None => tracing::warn!(target: "script", site, script, pid, "{text}"),
        }
        self.explain(&text);
    }

    /// Logs what an error means that comes of a record mailbox. A write beyond the socket's buffer fails in the script (EMSGSIZE), so
    /// that the server does not see the record that is too large.
    fn explain(&self, text: &str) {
        let pid = self.process.pid;
        let script = &*self.process.script();
        if let Some(bytes_max) = self.process.record_bytes_max
            && text.contains(TOO_LARGE)
        {
            tracing::warn!(
                target: "script",
                script,
                pid,
                "it wrote a record of more than {bytes_max} bytes (record_size of the route, WWW_GATEWAY_MRS): \
                 write less at once, or set mailbox = \"stream\""
            );
        }
    }

    fn log_suppressed(&self, suppressed: Option<Suppressed>) {
        if let Some(suppressed) = suppressed {
            let pid = self.process.pid;
            let script = &*self.source.script;
            tracing::warn!(target: "script", script, pid, "standard error: {suppressed}");
        }
    }
}
