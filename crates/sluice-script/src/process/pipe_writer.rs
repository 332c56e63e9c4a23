//! The writing of a pipe of a script process: bytes wait in a queue, a thread writes them (`pipe_threads`).
//!
//! The server has both ends: poll(2) on the reading end, which takes no lock, says whether all is read; how much is left only a thread may ask.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::Errno;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::process::{PipeEnd, Transfer, Work, has_room};

/// Bytes that wait for a thread, or for room in the pipe. With those in the pipe they are no more than a body keeps that can be repeated (`sluice_http::body_source`).
const QUEUE_BYTES_MAX: usize = 32 << 10;

/// Memory of the queue that is used again, bytes: most requests fit.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Default capacity of a pipe, bytes (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;

/// Reads to empty a pipe; each takes at least a page.
const READS_MAX: usize = 32;

/// How long a pipe that is to be emptied may keep its thread. Its script process is ended earlier.
const EMPTYING_MAX: Duration = Duration::from_secs(3);

pub(crate) struct PipeWriter {
    /// A duplicate of the writing end, once the pipe was full. It is closed before the end itself.
    room: Option<pipe::Sender>,
    /// The script gets an end-of-file after the bytes in the queue, and no others.
    pub is_truncated: bool,
    shared: Arc<WriterShared>,
}

/// A pipe that is written, as the event loop and the threads share it.
pub(crate) struct WriterShared {
    read: PipeEnd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` after the end of a truncated body.
    write: Option<Arc<PipeEnd>>,
    queue: Vec<u8>,
    /// Bytes that a thread is writing; what the pipe does not take returns to the queue.
    in_hand: usize,
    is_working: bool,
    awaits_room: bool,
    is_broken: bool,
    count: Count,
    waker: Option<Waker>,
    /// The waker waits for the end of the job, and not only for a pipe that is full.
    wakes_at_end: bool,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Count {
    #[default]
    Unknown,
    Wanted,
    Known(u64),
}

enum Written {
    All,
    /// Only so many bytes: the pipe is full.
    Part(usize),
    Broken,
}

impl PipeWriter {
    /// The writer of a pipe of which the server has both ends.
    pub(crate) fn new(write: PipeEnd, read: PipeEnd) -> PipeWriter {
        let state = State { write: Some(Arc::new(write)), ..State::default() };
        PipeWriter {
            shared: Arc::new(WriterShared { read, state: Mutex::new(state) }),
            room: None,
            is_truncated: false,
        }
    }

    pub(crate) fn rebind(&mut self) {
        self.room = None;
    }

    /// The reading end, to tell the pipe from others.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.read.as_fd()
    }

    /// Takes as many bytes as there is room for. `WouldBlock`: none. `BrokenPipe`: it has no writing end, or the system refuses it.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.shared.lock();
        if self.is_truncated || state.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = state.room();
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let length = bytes.len().min(room);
        state.queue.extend_from_slice(&bytes[..length]);
        if !state.is_working && !state.awaits_room {
            self.shared.begin(state);
        }
        Ok(length)
    }

    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.drive(context)?;
        let mut state = self.shared.lock();
        if state.room() > 0 {
            return Poll::Ready(Ok(()));
        }
        state.wait_for_end(context);
        Poll::Pending
    }

    /// Ready when all bytes are in the pipe, or will never be.
    pub(crate) fn poll_flushed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let _ = self.drive(context);
        let mut state = self.shared.lock();
        if state.is_flushed() || state.is_broken {
            drop(state);
            self.end_if_written();
            return Poll::Ready(());
        }
        state.wait_for_end(context);
        Poll::Pending
    }

    /// Has the task woken when the pipe is full, and goes on when there is room again.
    pub(crate) fn drive(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.end_if_written();
        let mut state = self.shared.lock();
        if state.is_working {
            state.wakes_at_end |= self.is_truncated;
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Ok(());
        }
        let Some(write) = state.write.clone().filter(|_| state.awaits_room) else {
            return Ok(());
        };
        drop(state);
        let room = match self.room.take() {
            Some(room) => self.room.insert(room),
            None => self
                .room
                .insert(pipe::Sender::from_owned_fd_unchecked(write.duplicate()?)?),
        };
        while let Poll::Ready(ready) = room.poll_write_ready(context) {
            ready?;
            if room.try_io(|| has_room(&*write)).is_err() {
                continue;
            }
            let mut state = self.shared.lock();
            state.awaits_room = false;
            state.waker = Some(context.waker().clone());
            self.shared.begin(state);
            break;
        }
        Ok(())
    }

    /// Whether a thread is writing the last bytes at this moment: a script may have read them, and may answer, before the thread has come back.
    pub(crate) fn is_writing_last(&self) -> bool {
        let state = self.shared.lock();
        state.is_working && state.queue.is_empty()
    }

    /// Whether the script has read everything. One system call, which takes no lock of the pipe.
    pub(crate) fn is_all_read(&self) -> bool {
        self.shared.lock().is_flushed() && self.shared.read.events(PollFlags::IN).is_empty()
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.shared.lock().is_flushed()
    }

    pub(crate) fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<u64> {
        if self.is_all_read() {
            self.shared.lock().count = Count::Unknown;
            return Poll::Ready(0);
        }
        let _ = self.drive(context);
        let mut state = self.shared.lock();
        if let Count::Known(unread) = state.count {
            state.count = Count::Unknown;
            return Poll::Ready(unread);
        }
        let is_new = std::mem::replace(&mut state.count, Count::Wanted) == Count::Unknown;
        state.wait_for_end(context);
        if is_new && !state.is_working {
            self.shared.begin(state);
        }
        Poll::Pending
    }

    /// Forgets a question of `poll_unread`, and its answer.
    pub(crate) fn forget_count(&self) {
        self.shared.lock().count = Count::Unknown;
    }

    /// Takes out what the script has not read, and returns how many bytes there were. A pipe without a writing end gets one again.
    /// Fails if the system refuses it, or the script keeps the pipe locked.
    pub(crate) async fn empty(&mut self) -> io::Result<u64> {
        let emptied = timeout(EMPTYING_MAX, async {
            poll_fn(|context| self.poll_idle(context)).await;
            let shared = Arc::clone(&self.shared);
            self.shared.read.empty_by(move || shared.empty()).await
        });
        let emptied = emptied.await?;
        self.room = None;
        self.is_truncated = false;
        emptied
    }

    /// Ready when no thread has a job for the pipe; then no other one gets one until `WriterShared::empty` has been called.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if state.is_working {
            state.wait_for_end(context);
            return Poll::Pending;
        }
        state.is_working = true;
        Poll::Ready(())
    }

    /// The script reads an end-of-file after the bytes that were taken before. `drive` brings it about.
    pub(crate) fn truncate(&mut self) {
        self.is_truncated = true;
        self.end_if_written();
    }

    /// Closes the writing end of a truncated pipe once all bytes are in it.
    fn end_if_written(&mut self) {
        if !self.is_truncated {
            return;
        }
        let mut state = self.shared.lock();
        if !state.is_flushed() && !state.is_broken {
            return;
        }
        let write = state.write.take();
        drop(state);
        // The duplicate first: the last close may wait, so it is left to a thread (`PipeEnd`).
        self.room = None;
        drop(write);
    }
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<WriterShared>, mut state: MutexGuard<'_, State>) {
        state.is_working = true;
        drop(state);
        let shared = Arc::clone(self);
        self.read.perform(Work::Transfer(shared));
    }

    fn empty(&self) -> io::Result<u64> {
        let taken = take_unread(self.read.as_fd());
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.queue).len() as u64;
        state.awaits_room = false;
        if state.write.is_none() {
            drop(state);
            let opened = open_again(self.read.as_fd(), OFlags::WRONLY);
            let opened = opened.map(|write| Arc::new(self.read.writing(write)));
            state = self.lock();
            match opened {
                Ok(write) => state.write = Some(write),
                Err(error) => {
                    state.end_job();
                    return Err(error);
                }
            }
        }
        state.end_job();
        Ok(taken? + waiting)
    }
}

impl Transfer for WriterShared {
    /// Writes what waits, and counts what is unread if somebody has asked.
    fn transfer(&self) {
        let mut bytes = Vec::new();
        loop {
            let mut state = self.lock();
            std::mem::swap(&mut bytes, &mut state.queue);
            let is_asked = state.count == Count::Wanted;
            if bytes.is_empty() && !is_asked {
                if state.queue.capacity() > KEPT_BYTES_MAX {
                    state.queue = Vec::new();
                }
                return state.end_job();
            }
            state.in_hand = bytes.len();
            let write = state.write.clone();
            drop(state);
            let written = write.map_or(Written::Broken, |write| write_all(&write, &bytes));
            let unread = is_asked.then(|| rustix::io::ioctl_fionread(&self.read).unwrap_or(0));
            let mut state = self.lock();
            let rest = match written {
                Written::Part(length) if state.write.is_some() => bytes.split_off(length),
                _ => Vec::new(),
            };
            state.in_hand = 0;
            state.awaits_room = !rest.is_empty();
            state.is_broken |= matches!(written, Written::Broken) && state.write.is_some();
            state.queue.splice(..0, rest);
            if let Some(unread) = unread
                && state.count == Count::Wanted
            {
                state.count = Count::Known(unread + state.queue.len() as u64);
            }
            // Somebody may have asked while the bytes were written.
            if state.awaits_room && state.count != Count::Wanted {
                return state.end_job();
            }
            bytes.clear();
        }
    }

    fn verb(&self) -> &'static str {
        "write to"
    }
}

impl State {
    fn room(&self) -> usize {
        QUEUE_BYTES_MAX - self.queue.len() - self.in_hand
    }

    fn is_flushed(&self) -> bool {
        self.queue.is_empty() && !self.is_working
    }

    fn wait_for_end(&mut self, context: &mut Context<'_>) {
        self.waker = Some(context.waker().clone());
        self.wakes_at_end = true;
    }

    /// The thread has nothing more to do. Those who wait are woken; a pipe that is full needs its event loop.
    fn end_job(&mut self) {
        self.is_working = false;
        let wakes = std::mem::take(&mut self.wakes_at_end) || self.awaits_room;
        if let Some(waker) = self.waker.take().filter(|_| wakes) {
            waker.wake();
        }
    }
}

fn write_all(write: &PipeEnd, bytes: &[u8]) -> Written {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::write(write, &bytes[done..]) {
            Ok(length) => done += length,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Written::Part(done),
            Err(_) => return Written::Broken,
        }
    }
    Written::All
}

/// Takes all unread bytes out of a pipe, and returns how many there were. Each byte goes either to the script or to this function,
/// so a count that is complete shows that the script has read none. Fails if the script itself refills the pipe.
fn take_unread(pipe: BorrowedFd<'_>) -> io::Result<u64> {
    if rustix::io::ioctl_fionread(pipe)? == 0 {
        return Ok(0);
    }
    let reader = open_again(pipe, OFlags::RDONLY)?;
    let mut unread = vec![0; PIPE_BYTES];
    let mut taken = 0;
    // One read takes all bytes of a pipe, or two if they wrap. Further bytes can only come from the script itself.
    for _ in 0..READS_MAX {
        match rustix::io::read(&reader, &mut unread) {
            Ok(0) | Err(Errno::AGAIN) => return Ok(taken),
            Ok(length) => taken += length as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("there is more and more of it"))
}

/// Another end of a pipe, non-blocking: its link in /proc opens the pipe again (proc(5)), and the ends that there are stay. `access`: RDONLY or WRONLY.
fn open_again(pipe: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, FileMode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn unread_bytes_are_taken_out_and_counted() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(take_unread(writer.as_fd()).expect("an empty pipe"), 0);
        rustix::io::write(&writer, b"0123456789").expect("room in the pipe");
        let mut read = [0; 4];
        rustix::io::read(&reader, &mut read).expect("bytes");
        assert_eq!(take_unread(writer.as_fd()).expect("the rest"), 6);
        assert_eq!(rustix::io::ioctl_fionread(&reader).expect("a pipe"), 0);
    }
}
