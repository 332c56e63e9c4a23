//! The standard error of a script: each line is logged with the script, its process and its exchange.
//!
//! A script that writes too much loses only its own lines: the pipe is always read, and beyond `LINES_PER_SECOND` lines are
//! counted instead of logged.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;

use crate::process::Process;

/// Longer lines are split after so many bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Lines of one process that are logged within a second; further ones are counted.
const LINES_PER_SECOND: u32 = 100;

/// Bytes read after the end of the process at most: what a pipe can hold, so that none of its own are missed.
const LAST_BYTES_MAX: usize = 1 << 20;

/// The reader of one process's standard error.
pub(crate) struct StderrReader {
    pipe: pipe::Receiver,
    process: Arc<Process>,
    line: Vec<u8>,
    is_open: bool,
    second: Instant,
    in_second: u32,
    suppressed: u64,
}

impl StderrReader {
    /// Registers the pipe with the calling worker's event loop.
    pub(crate) fn new(pipe: OwnedFd, process: Arc<Process>) -> std::io::Result<StderrReader> {
        Ok(StderrReader {
            pipe: pipe::Receiver::from_owned_fd_unchecked(pipe)?,
            process,
            line: Vec::new(),
            is_open: true,
            second: Instant::now(),
            in_second: 0,
            suppressed: 0,
        })
    }

    /// Waits for output and logs its lines. Pending for ever once the script has closed its end.
    pub(crate) async fn read(&mut self) {
        if !self.is_open || self.pipe.readable().await.is_err() {
            return std::future::pending().await;
        }
        self.take();
    }

    /// The process has ended: logs the lines that are left, the last one even without a newline.
    pub(crate) fn finish(&mut self) {
        let mut bytes = 0;
        while self.is_open && bytes < LAST_BYTES_MAX {
            match self.take() {
                0 => break,
                taken => bytes += taken,
            }
        }
        self.end_line();
        self.report_suppressed();
    }

    /// Reads once. Returns the number of bytes.
    fn take(&mut self) -> usize {
        let mut bytes = [0; 8192];
        match self.pipe.try_read(&mut bytes) {
            Ok(0) => self.is_open = false,
            Ok(length) => {
                self.split(&bytes[..length]);
                return length;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_open = false,
        }
        0
    }

    fn split(&mut self, bytes: &[u8]) {
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
        let text = without_controls(&String::from_utf8_lossy(&line));
        if text.is_empty() {
            return;
        }
        self.process.note_error(&text);
        if self.second.elapsed() > Duration::from_secs(1) {
            self.report_suppressed();
            self.second = Instant::now();
            self.in_second = 0;
        }
        self.in_second += 1;
        if self.in_second > LINES_PER_SECOND {
            self.suppressed += 1;
            return;
        }
        let Process { pid, script, site, .. } = &*self.process;
        match self.process.exchange() {
            Some(id) => tracing::warn!(target: "script", site, script, pid, %id, "{text}"),
            None => tracing::warn!(target: "script", site, script, pid, "{text}"),
        }
    }

    fn report_suppressed(&mut self) {
        if self.suppressed > 0 {
            let Process { pid, script, .. } = &*self.process;
            tracing::warn!(target: "script", script, pid, "{} more error lines not logged", self.suppressed);
            self.suppressed = 0;
        }
    }
}

/// Escapes control characters, so that a line cannot look like two in the log, or move the cursor of a terminal.
fn without_controls(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for character in line.trim_end().chars() {
        match character {
            '\t' => text.push(' '),
            control if control.is_control() => text.extend(control.escape_default()),
            other => text.push(other),
        }
    }
    text
}
