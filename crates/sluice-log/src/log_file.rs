//! A log file: the lines that the workers hand to the log's thread, and the sink that it writes to.
//!
//! A worker appends to its own buffer, whose lock it shares with the thread alone, and never waits for a file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sluice_settings::LogTarget;

use crate::clock::Now;
use crate::sink::Sink;
use crate::tail::LogSource;
use crate::wakeup::{Wakeup, lock};

/// Bytes that every worker's buffer may hold, however many buffers there are.
pub(crate) const BUFFER_BYTES_LEAST: usize = 64 << 10;

pub(crate) struct LogFile {
    /// One for each worker, so that workers do not wait for each other.
    pub(crate) buffers: Box<[WorkerBuffer]>,
    pub(crate) buffer_bytes_max: AtomicUsize,
    wakeup: Arc<Wakeup>,
    /// Only the thread writes to it; others hold the lock only to read or set a value.
    pub(crate) sink: Mutex<Sink>,
    pub(crate) source: Arc<LogSource>,
}

/// The pending lines of one worker. Aligned, so that two workers never write to one cache line.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WorkerBuffer {
    lines: Mutex<Vec<u8>>,
    /// Lines dropped since the last flush.
    pub(crate) lost: AtomicU64,
}

/// The work of the thread with every file in one pass.
#[derive(Clone, Copy)]
pub(crate) struct FlushPass<'a> {
    pub now: Now,
    /// Opens the files again, but for these.
    pub reopen: Option<&'a BTreeSet<PathBuf>>,
    /// Whether no pass follows.
    pub is_last: bool,
    /// Bytes of lines that one file may keep while they cannot be written.
    pub waiting_bytes_max: usize,
}

impl LogFile {
    pub(crate) fn new(sink: Sink, workers: usize, wakeup: Arc<Wakeup>) -> LogFile {
        LogFile {
            buffers: (0..workers).map(|_| WorkerBuffer::default()).collect(),
            buffer_bytes_max: AtomicUsize::new(BUFFER_BYTES_LEAST),
            wakeup,
            source: Arc::new(sink.source()),
            sink: Mutex::new(sink),
        }
    }

    /// Has a line written into a worker's buffer, or counts it as lost if the buffer is full.
    pub(crate) fn write(&self, worker: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let buffer = &self.buffers[worker % self.buffers.len()];
        {
            let mut lines = lock(&buffer.lines);
            if lines.len() > self.buffer_bytes_max.load(Ordering::Relaxed) {
                // Relaxed: the thread may read the count some time later.
                buffer.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            write(&mut lines);
        }
        self.wakeup.wake_if_asleep();
    }

    pub(crate) fn has_lines(&self) -> bool {
        self.buffers
            .iter()
            .any(|buffer| !lock(&buffer.lines).is_empty() || buffer.lost.load(Ordering::Relaxed) > 0)
    }

    /// Writes the lines of all workers to the file. `scratch` is empty. Returns whether lines wait that could not be written.
    pub(crate) fn flush(&self, scratch: &mut Vec<u8>, pass: FlushPass<'_>) -> bool {
        let mut sink = lock(&self.sink);
        if let (Some(except), LogTarget::File(path)) = (pass.reopen, &sink.target)
            && !except.contains(path)
        {
            sink.reopen();
        }
        if sink.is_waiting() {
            sink.retry(pass.now);
        }
        for buffer in &self.buffers {
            std::mem::swap(scratch, &mut *lock(&buffer.lines));
            sink.failures.lost += buffer.lost.swap(0, Ordering::Relaxed);
            if !scratch.is_empty() {
                if let Some(recent) = &self.source.recent {
                    recent.add(scratch);
                }
                sink.write_lines(scratch, pass.now, pass.waiting_bytes_max);
                scratch.clear();
            }
            // A burst must not leave large buffers behind.
            scratch.shrink_to(BUFFER_BYTES_LEAST);
        }
        sink.report(pass.now);
        if pass.is_last {
            sink.finish(pass.now);
        }
        sink.is_waiting()
    }
}
