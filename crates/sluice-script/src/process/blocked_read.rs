//! The read(2) in which a silent script process may wait, and its channel: a pipe, or the socket of requests. So a script that runs in the wrong mode, or
//! that does not end its reply, is found at once, and not by its time-out.
//!
//! Here: what the launcher reads in `/proc/PID/syscall`, `fd` and `task` (proc(5)), after some silence. Where the kernel does not tell, or
//! the script waits in another way (poll(2), a child process), nothing is found, and the time-out remains.

use std::os::fd::BorrowedFd;

use sluice_launch::{Company, Probe};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::process::Call;

/// The identity of a pipe, the same for both of its ends, or of one end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelId {
    device: u64,
    inode: u64,
}

impl ChannelId {
    /// The channel of a descriptor of it. `None` if the kernel does not say.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Option<ChannelId> {
        let stat = rustix::fs::fstat(fd).ok()?;
        Some(ChannelId { device: stat.st_dev, inode: stat.st_ino })
    }

    /// Whether a link in `/proc/PID/fd` names it (proc(5)).
    pub(crate) fn is_named(self, link: &str) -> bool {
        let number = link.strip_prefix("pipe:[").or_else(|| link.strip_prefix("socket:["));
        number.and_then(|number| number.strip_suffix(']')?.parse().ok()) == Some(self.inode)
    }
}

/// A process whose main thread waits in read(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockedRead {
    /// The channel that it reads.
    pub channel: ChannelId,
    /// Whether it has certainly neither other threads nor processes that it started, which might do its work meanwhile.
    pub is_alone: bool,
}

/// Starts to find on which of these channels the main thread of a process waits in read(2); `None` if it does something else.
pub(crate) fn find(probe: &Probe, channels: [Option<ChannelId>; 3]) -> JoinHandle<Option<BlockedRead>> {
    let probe = probe.clone();
    spawn_blocking(move || {
        let observation = probe.observe()?;
        let is_read = Call::from_line(&observation.call)?.name == Some("read");
        let file = observation.file.as_ref().filter(|file| is_read && file.is_channel)?;
        let (device, inode) = (file.device, file.inode);
        let channel = ChannelId { device, inode };
        // Its processes are searched last, which takes longest.
        channels.contains(&Some(channel)).then_some(())?;
        Some(BlockedRead {
            channel,
            is_alone: observation.has_one_thread && probe.company() == Company::Alone,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_the_same_pipe_and_have_its_name() {
        use std::os::fd::AsFd;
        let (reader, writer) = std::io::pipe().unwrap();
        let (other, _) = std::io::pipe().unwrap();
        let id = ChannelId::of(reader.as_fd()).unwrap();
        assert_eq!(Some(id), ChannelId::of(writer.as_fd()));
        assert_ne!(Some(id), ChannelId::of(other.as_fd()));
        assert!(id.is_named(&format!("pipe:[{}]", id.inode)) && !id.is_named("pipe:[1]") && !id.is_named("/dev/null"));
    }
}
