//! The file of the server log, for the thread that writes it: appended to, reopened and rotated as an access log is.

use std::io;
use std::path::Path;

use sluice_settings::{LogTarget, Rotation};

use crate::clock::Now;
use crate::sink::Sink;

/// Bytes of lines that wait because the disk is full; more are counted and dropped.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The open file of the server log.
pub struct LineFile {
    sink: Sink,
}

impl LineFile {
    /// Opens a file for appending; creates it if necessary. An error is the administrator's fault.
    pub fn open(path: &Path, rotation: &Rotation) -> io::Result<LineFile> {
        let target = LogTarget::File(path.to_owned());
        let sink = Sink::open("server log", &target, rotation)?.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(LineFile { sink })
    }

    /// Replaces the log of before. The lines that wait in it wait in this one, if it has the same name, or are written now, or lost.
    pub fn replace(&mut self, mut before: LineFile) {
        match self.sink.has_target_of(&before.sink) {
            true => self.sink.continue_for(before.sink),
            false => before.finish(),
        }
    }

    /// Writes whole lines. Those that cannot be written wait.
    pub fn write(&mut self, lines: &[u8]) {
        let now = Now::read();
        self.sink.write_lines(lines, now, WAITING_BYTES_MAX);
        self.sink.report(now);
    }

    /// Whether lines wait, so that `retry` must be called, about once a second.
    pub fn is_waiting(&self) -> bool {
        self.sink.is_waiting()
    }

    /// Tries to write the lines that wait.
    pub fn retry(&mut self) {
        let now = Now::read();
        self.sink.retry(now);
        self.sink.report(now);
    }

    /// Opens the file again under its name, because it may have been renamed.
    pub fn reopen(&mut self) {
        self.sink.reopen();
    }

    /// Tries to write the lines that wait a last time, and reports those that are lost.
    pub fn finish(&mut self) {
        self.sink.finish(Now::read());
    }
}
