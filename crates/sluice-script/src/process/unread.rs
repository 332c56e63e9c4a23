//! The bytes of a pipe to a script that the script has not read: a thread takes them out again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode as FileMode, OFlags};

/// Default capacity of a pipe, bytes (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;

/// Reads to empty a pipe; each takes at least a page.
const READS_MAX: usize = 32;

/// Takes all unread bytes out of a pipe, and returns how many there were. Each byte goes either to the script or to this function,
/// so a count that is complete shows that the script has read none. Fails if the script itself refills the pipe.
pub(crate) fn take_unread(pipe: BorrowedFd<'_>) -> io::Result<u64> {
    if rustix::io::ioctl_fionread(pipe)? == 0 {
        return Ok(0);
    }
    let reader = open_again(pipe, OFlags::RDONLY)?;
    let mut unread = vec![0; PIPE_BYTES];
    let mut taken = 0;
    // One read takes all bytes of a pipe, or two if they wrap. Further bytes can only come from the script itself.
    for _ in 0..READS_MAX {
        match rustix::io::read(&reader, &mut unread) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(taken),
            Ok(length) => taken += length as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("there is more and more of it"))
}

/// Another end of a pipe, which is not blocking: the descriptor's link in /proc opens the pipe again (proc(5)), and the ends that there are
/// stay as they are. `access` is RDONLY or WRONLY.
pub(crate) fn open_again(pipe: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
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
