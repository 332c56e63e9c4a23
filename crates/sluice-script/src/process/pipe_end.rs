//! One end of a pipe of a script process: closed by a thread, because the last close(2) of a pipe takes its lock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;

use crate::process::{PipeOwner, PipeThreads, Work};

pub(crate) struct PipeEnd {
    /// `None` once it is being closed.
    fd: Option<OwnedFd>,
    side: Side,
    /// The name in messages.
    channel: &'static str,
    owner: Arc<PipeOwner>,
    threads: PipeThreads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Reading,
    /// The script waits for its end.
    Writing,
}

impl PipeEnd {
    pub(crate) fn new(
        fd: OwnedFd,
        side: Side,
        channel: &'static str,
        owner: &Arc<PipeOwner>,
        threads: &PipeThreads,
    ) -> PipeEnd {
        PipeEnd {
            fd: Some(fd),
            side,
            channel,
            owner: Arc::clone(owner),
            threads: threads.clone(),
        }
    }

    /// The writing end of the pipe that this is the reading end of.
    pub(crate) fn writing(&self, fd: OwnedFd) -> PipeEnd {
        PipeEnd::new(fd, Side::Writing, self.channel, &self.owner, &self.threads)
    }

    pub(crate) fn perform(&self, work: Work) {
        self.threads.perform(&self.owner, self.channel, work);
    }

    /// The result of a call that empties the pipe, by a thread. `BrokenPipe`: the threads have ended.
    pub(crate) async fn empty_by<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (sender, done) = oneshot::channel();
        let call = Box::new(move || drop(sender.send(call())));
        let (verb, bytes) = ("empty", 0);
        self.perform(Work::Call { verb, bytes, call });
        done.await.map_err(|_| io::ErrorKind::BrokenPipe)?
    }

    /// Another descriptor of the same open end, for the event loop. Its close takes no lock while this one is open.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    /// Which of these events there are now. Takes no lock of the pipe.
    pub(crate) fn events(&self, wanted: PollFlags) -> PollFlags {
        events(self, wanted)
    }
}

impl AsFd for PipeEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is taken by drop alone").as_fd()
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            match self.side {
                Side::Reading => self.threads.close_later(&self.owner, self.channel, fd),
                Side::Writing => self.threads.perform(&self.owner, self.channel, Work::Close(fd)),
            }
        }
    }
}

/// `WouldBlock` if there is no room for a write now: for `try_io`, so that an event that comes after the question is not lost.
pub(crate) fn has_room(fd: &impl AsFd) -> io::Result<()> {
    match events(fd, PollFlags::OUT).is_empty() {
        true => Err(io::ErrorKind::WouldBlock.into()),
        false => Ok(()),
    }
}

fn events(fd: &impl AsFd, wanted: PollFlags) -> PollFlags {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(fd, wanted)];
    match poll(&mut polled, Some(&NOW)) {
        Ok(1..) => polled[0].revents(),
        _ => PollFlags::empty(),
    }
}
