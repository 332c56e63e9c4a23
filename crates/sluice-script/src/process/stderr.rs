//! The standard error of a script: its lines are logged with the script, its process and its exchange.
//!
//! Lines that arrive together are one record, as a traceback: its first line with the details, the others below it (`LogRecord`).
//! Threads read the pipe (`pipe_reader`). A script that writes too much loses only its own lines: the pipe is always read, and beyond `LINES_MAX` lines in an `INTERVAL`, or
//! the bound on all its processes (`script_log`), they are counted instead of logged.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_http::escape::Escaped;
use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};
use sluice_settings::Mailbox;
use tokio::time::{sleep, sleep_until, timeout};

use crate::process::{LineSource, PipeEnd, PipeReader, Process};

/// Longer lines are split after so many bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Lines of one process that are logged within an interval, or of one exchange with an engine; further ones are counted.
const LINES_MAX: u32 = 100;

/// A record ends once no line has come for so long: many programs write each line of a traceback by itself.
const RECORD_PAUSE: Duration = Duration::from_millis(20);

/// How long a record may take that goes on.
const RECORD_TIME_MAX: Duration = Duration::from_millis(200);

/// Lines of a record; further ones begin another record.
const RECORD_LINES_MAX: usize = 50;

/// Bytes after which a record gets no more lines.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// The text of EMSGSIZE (strerror(3)).
const TOO_LARGE: &str = "Message too long";

/// The interval: so short that a script whose output is being debugged soon has its lines logged again.
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes read after the end of the process at most: what a pipe can hold, so that none of its own are missed.
const LAST_BYTES_MAX: usize = 1 << 20;

/// How long that may take. Only another process can keep the pipe locked then.
const LAST_READ_MAX: Duration = Duration::from_secs(1);

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
    /// The lines that are to be logged, of `source`.
    record: LogRecord,
}

/// Lines that are logged together, each escaped.
#[derive(Default)]
struct LogRecord {
    /// The first line, with the details.
    first: String,
    /// The others, each after a newline.
    others: String,
    lines: usize,
    /// When its first and its last line came. `None` without a line.
    times: Option<(Instant, Instant)>,
}

impl LogRecord {
    fn add(&mut self, line: &str, now: Instant) {
        match self.lines {
            0 => line.clone_into(&mut self.first),
            _ => self.others.extend(["\n", line]),
        }
        self.lines += 1;
        self.times = Some((self.times.map_or(now, |(begun, _)| begun), now));
    }

    fn is_full(&self) -> bool {
        self.lines >= RECORD_LINES_MAX || self.first.len() + self.others.len() >= RECORD_BYTES_MAX
    }

    /// When it is logged, if no line comes before. `None` without a line.
    fn due(&self) -> Option<Instant> {
        let (begun, last) = self.times?;
        Some((last + RECORD_PAUSE).min(begun + RECORD_TIME_MAX))
    }
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
            record: LogRecord::default(),
        })
    }

    /// Waits for output and logs its lines, or the count of those that were not logged. Pending for ever once the script has closed its end.
    pub(crate) async fn read(&mut self) {
        let due = self.record.due();
        tokio::select! {
            bytes = poll_fn(|context| self.pipe.poll_read(context)), if self.is_open => self.take(bytes),
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.log_record(),
            () = sleep(INTERVAL), if self.limited.has_suppressed() => self.log_suppressed(self.limited.take()),
            else => std::future::pending().await,
        }
    }

    /// The process has ended: logs the lines that are left, the last one even without a newline.
    pub(crate) async fn finish(&mut self) {
        let _ = timeout(LAST_READ_MAX, self.read_last()).await;
        self.end_line();
        self.log_record();
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

    /// Whether there is something to read now, asked of the pipe itself: a write just before the end of the reply may not have reached the event loop yet.
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
            self.log_record();
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
        let line = self.process.spec.sentinels.masked(&line);
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
        let suppressed = self.limited.take_due(INTERVAL, now);
        if suppressed.is_some() {
            self.log_record();
        }
        self.log_suppressed(suppressed);
        if !self.limited.admits(LINES_MAX, INTERVAL, now) || !self.process.spec.log.admits(text.len(), now) {
            return;
        }
        self.record.add(&text, now);
        if self.record.is_full() || self.means_too_large(&text) {
            self.log_record();
        }
    }

    /// Logs the lines so far, if there are any.
    pub(crate) fn log_record(&mut self) {
        let record = std::mem::take(&mut self.record);
        if record.times.is_none() {
            return;
        }
        let LogRecord { first, others, .. } = &record;
        let continued = (!others.is_empty()).then(|| others.trim_start_matches('\n'));
        let (pid, site) = (self.process.pid, &self.process.spec.site);
        let LineSource { script, exchange, .. } = &self.source;
        match exchange {
            Some(id) => tracing::warn!(target: "script", site, script, pid, %id, continued, "{first}"),
            None => tracing::warn!(target: "script", site, script, pid, continued, "{first}"),
        }
        if self.means_too_large(first) || self.means_too_large(others) {
            let bytes_max = self.process.spec.record_bytes_max;
            tracing::warn!(
                target: "script",
                script = &*self.process.script(),
                pid,
                "it wrote a record of more than {bytes_max} bytes (record_size of the route, WWW_GATEWAY_MRS): \
                 write less at once, or set mailbox = \"stream\""
            );
        }
    }

    /// Whether the text names an error of a record mailbox: a write beyond the socket's buffer fails in the script (EMSGSIZE), unseen by the server.
    fn means_too_large(&self, text: &str) -> bool {
        self.process.spec.mailbox == Mailbox::Record && text.contains(TOO_LARGE)
    }

    fn log_suppressed(&self, suppressed: Option<Suppressed>) {
        if let Some(suppressed) = suppressed {
            let pid = self.process.pid;
            let script = &*self.source.script;
            tracing::warn!(target: "script", script, pid, "standard error: {suppressed}");
        }
    }
}
