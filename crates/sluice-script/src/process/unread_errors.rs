//! Unread output on the standard error of a process: whether there is any, and the request to read it.
//!
//! The reaper of a process reads its standard error when the event loop says so, which may be after the end of the reply. Where a line must
//! come with its exchange, the reaper is asked to read at once.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::process::pipe_reader::ReaderShared;

/// The standard error of a process, for those who do not read it themselves.
pub(crate) struct UnreadErrors {
    pipe: OnceLock<Arc<ReaderShared>>,
    /// How often it is to be read to the end.
    requests: watch::Sender<u64>,
}

impl UnreadErrors {
    /// The errors of a process whose pipe is not registered yet.
    pub(crate) fn new() -> UnreadErrors {
        UnreadErrors {
            pipe: OnceLock::new(),
            requests: watch::Sender::new(0),
        }
    }

    pub(crate) fn set_pipe(&self, pipe: &Arc<ReaderShared>) {
        let _ = self.pipe.set(Arc::clone(pipe));
    }

    /// Whether the pipe has bytes, or they have been read and are not logged yet. One system call, which takes no lock of the pipe.
    pub(crate) fn has_bytes(&self) -> bool {
        self.pipe.get().is_some_and(|pipe| pipe.has_bytes())
    }

    /// Has the reaper read what is there. Returns the number of the request.
    pub(crate) fn request(&self) -> u64 {
        let mut number = 0;
        self.requests.send_modify(|requests| {
            *requests += 1;
            number = *requests;
        });
        number
    }

    pub(crate) fn requests(&self) -> watch::Receiver<u64> {
        self.requests.subscribe()
    }
}
