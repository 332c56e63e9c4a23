//! The reading of a pipe of a script process: the event loop says when, a thread does it (`pipe_threads`).

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::Errno;
use tokio::net::unix::pipe;

use crate::process::{PipeEnd, Transfer, Work};

/// The reader of a pipe, on one event loop.
pub(crate) struct PipeReader {
    /// A duplicate, which is closed before the end itself.
    registered: pipe::Receiver,
    shared: Arc<ReaderShared>,
}

/// A pipe that is read, as the event loop and the threads share it.
pub(crate) struct ReaderShared {
    end: PipeEnd,
    chunk_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    is_working: bool,
    is_at_end: bool,
    waker: Option<Waker>,
}

impl PipeReader {
    pub(crate) fn new(end: PipeEnd, chunk_bytes: usize) -> io::Result<PipeReader> {
        let shared = ReaderShared { end, chunk_bytes, state: Mutex::default() };
        let registered = shared.register()?;
        let shared = Arc::new(shared);
        Ok(PipeReader { registered, shared })
    }

    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        self.registered = self.shared.register()?;
        Ok(())
    }

    pub(crate) fn shared(&self) -> &Arc<ReaderShared> {
        &self.shared
    }

    /// Ready when a thread has read what there was, and a newline that was all of it is gone.
    pub(crate) fn poll_late_newline(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if state.bytes == b"\n" {
            state.bytes.clear();
        }
        let has_been_read = !state.bytes.is_empty() || state.is_at_end;
        if state.is_working {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        if has_been_read || !self.shared.end.events(PollFlags::IN).contains(PollFlags::IN) {
            return Poll::Ready(());
        }
        self.begin(self.shared.lock(), context);
        Poll::Pending
    }

    fn begin(&self, mut state: MutexGuard<'_, State>, context: &Context<'_>) {
        state.is_working = true;
        state.waker = Some(context.waker().clone());
        drop(state);
        let shared = Arc::clone(&self.shared);
        self.shared.end.perform(Work::Transfer(shared));
    }

    pub(crate) fn poll_read(&self, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        loop {
            let mut state = self.shared.lock();
            if !state.bytes.is_empty() {
                return Poll::Ready(Some(std::mem::take(&mut state.bytes)));
            }
            if state.is_at_end {
                return Poll::Ready(None);
            }
            if state.is_working {
                state.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let events = self.shared.end.events(PollFlags::IN);
            if events.contains(PollFlags::IN) {
                self.begin(state, context);
                return Poll::Pending;
            }
            if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                state.is_at_end = true;
                return Poll::Ready(None);
            }
            drop(state);
            if ready!(self.registered.poll_read_ready(context)).is_err() {
                return Poll::Ready(None);
            }
            let empty = || Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock));
            let _ = self.registered.try_io(empty);
        }
    }
}

impl ReaderShared {
    fn register(&self) -> io::Result<pipe::Receiver> {
        pipe::Receiver::from_owned_fd_unchecked(self.end.duplicate()?)
    }

    /// Whether there is anything that nobody has taken. One system call, which takes no lock of the pipe.
    pub(crate) fn has_bytes(&self) -> bool {
        let state = self.lock();
        let is_open = !state.is_at_end;
        let is_taken = state.is_working || !state.bytes.is_empty();
        drop(state);
        is_taken || is_open && self.end.events(PollFlags::IN).contains(PollFlags::IN)
    }

    /// Whether the script has closed it, and nothing is left. One system call at most.
    pub(crate) fn has_ended(&self) -> bool {
        let is_at_end = self.lock().is_at_end;
        let has_hung_up = || self.end.events(PollFlags::IN).contains(PollFlags::HUP);
        (is_at_end || has_hung_up()) && !self.has_bytes()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transfer for ReaderShared {
    fn transfer(&self) {
        let mut bytes = Vec::with_capacity(self.chunk_bytes);
        let read = loop {
            match rustix::io::read(self.end.as_fd(), spare_capacity(&mut bytes)) {
                Err(Errno::INTR) => {}
                read => break read,
            }
        };
        let mut state = self.lock();
        state.is_at_end = !matches!(read, Ok(1..) | Err(Errno::AGAIN));
        state.bytes.append(&mut bytes);
        state.is_working = false;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn verb(&self) -> &'static str {
        "read"
    }
}
