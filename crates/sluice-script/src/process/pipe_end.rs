//! One end of a pipe of a script process: closed by a thread, because the last close(2) of a pipe takes its lock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::process::pipe_owner::PipeOwner;
use crate::process::pipe_threads::{PipeThreads, Work};

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

    /// Another descriptor of the same open end, for the event loop. Its close takes no lock while this one is open.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    /// Which of these events there are now. Takes no lock of the pipe.
    pub(crate) fn events(&self, wanted: PollFlags) -> PollFlags {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(self, wanted)];
        match poll(&mut polled, Some(&NOW)) {
            Ok(1..) => polled[0].revents(),
            _ => PollFlags::empty(),
        }
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
                Side::Writing => self.threads.close(&self.owner, self.channel, fd),
            }
        }
    }
}
