//! The read(2) in which a silent script process may wait, and its channel: a pipe, or the socket of requests. So a script that runs in the wrong mode, or
//! that does not end its reply, is found at once, and not by its time-out.
//!
//! Here: what the launcher reads in `/proc/PID/syscall`, `fd` and `task` (proc(5)), after some silence. Where the kernel does not tell, or
//! the script waits in another way (poll(2), a child process), nothing is found, and the time-out remains.

use std::os::fd::BorrowedFd;

use sluice_launch::{Company, Observation, Probe};
use tokio::task::{JoinHandle, spawn_blocking};

/// The number of read(2), where it is known.
const READ: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("0")
} else if cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) {
    Some("63")
} else {
    None
};

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
        Some(ChannelId {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
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
        // Before its processes are searched, which takes longest.
        let channel = channel_in_read(&observation).filter(|channel| channels.contains(&Some(*channel)))?;
        Some(BlockedRead {
            channel,
            is_alone: observation.has_one_thread && probe.company() == Company::Alone,
        })
    })
}

fn channel_in_read(observation: &Observation) -> Option<ChannelId> {
    descriptor_in_read(&observation.call)?;
    let file = observation.file.as_ref().filter(|file| file.is_channel)?;
    Some(ChannelId {
        device: file.device,
        inode: file.inode,
    })
}

/// The descriptor in a line of `/proc/PID/syscall`, `0 0x3 0x7ffd…`, if the call is read(2).
fn descriptor_in_read(call: &str) -> Option<u32> {
    let mut words = call.split(' ');
    let number = words.next()?;
    let descriptor = words.next()?.strip_prefix("0x")?;
    (Some(number) == READ).then(|| u32::from_str_radix(descriptor, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn only_read_has_a_descriptor() {
        assert_eq!(
            descriptor_in_read("0 0x1b 0x7ffd 0x1 0x0 0x0 0x0 0x7ffe 0x7f\n"),
            Some(27)
        );
        assert_eq!(descriptor_in_read("1 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffe 0x7f\n"), None);
        assert_eq!(descriptor_in_read("running\n"), None);
        assert_eq!(descriptor_in_read("-1 0x7ffe 0x7f\n"), None);
    }

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
