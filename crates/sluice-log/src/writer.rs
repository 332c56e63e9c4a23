//! The log's thread: it takes all lines, writes them, and looks for more.
//!
//! While lines come it looks by itself, so that a busy server makes no system call per line.

use std::sync::{Arc, Mutex};

use sluice_settings::LogTarget;

use crate::clock::Now;
use crate::failures::RETRY;
use crate::log_file::{BUFFER_BYTES_LEAST, FlushPass, LogFile};
use crate::wakeup::{Wakeup, lock};

/// Bytes of lines that the thread has not written yet (a slow or full disk). Further lines are counted and dropped.
pub(crate) const PENDING_BYTES_MAX: usize = 16 << 20;

/// The state that the thread shares with `Log`.
#[derive(Default)]
pub(crate) struct Shared {
    /// The open files. The thread holds the lock while it writes; otherwise it is only taken to read a configuration.
    pub(crate) files: Mutex<Vec<Arc<LogFile>>>,
    pub(crate) wakeup: Arc<Wakeup>,
}

impl Shared {
    pub(crate) fn file(&self, target: &LogTarget) -> Option<Arc<LogFile>> {
        let files = lock(&self.files);
        files.iter().find(|file| lock(&file.sink).target == *target).cloned()
    }

    fn has_lines(&self) -> bool {
        lock(&self.files).iter().any(|file| file.has_lines())
    }
}

/// The body of the thread. Returns after `Command::End`.
pub(crate) fn run(shared: &Shared) {
    let mut scratch = Vec::new();
    let mut is_waiting = false;
    loop {
        let commands = shared.wakeup.wait(is_waiting.then_some(RETRY), || shared.has_lines());
        let mut files = lock(&shared.files);
        let pass = FlushPass {
            now: Now::read(),
            reopen: commands.reopen.as_ref(),
            // The command comes after the last line.
            is_last: commands.end,
            waiting_bytes_max: (PENDING_BYTES_MAX / files.len().max(1)).max(BUFFER_BYTES_LEAST),
        };
        is_waiting = false;
        files.retain(|file| {
            // A file that only this list holds gets no more holders: the list is locked. Its last line was written before the drop, so this flush finds it.
            let is_unused = Arc::strong_count(file) == 1;
            let is_last = pass.is_last || is_unused;
            is_waiting |= file.flush(&mut scratch, FlushPass { is_last, ..pass });
            !is_unused
        });
        if commands.end {
            return;
        }
    }
}
