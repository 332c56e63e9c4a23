//! Descriptors that the parent process has passed by number, as systemd does (sd_listen_fds(3)).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that is passed (SD_LISTEN_FDS_START).
const FIRST: RawFd = 3;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes `count` descriptors from number 3 on, and has execve(2) close them. The caller says by `count` that they were passed: nothing else of
/// this process may own one of these numbers, so call it before anything else is opened.
///
/// # Errors
/// One of them is not open, or they were taken before: none is taken.
pub fn take_passed_descriptors(count: usize) -> io::Result<Vec<OwnedFd>> {
    // Relaxed: only one call may succeed, and nothing else depends on the flag.
    if count == 0 {
        return Ok(Vec::new());
    }
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let count = RawFd::try_from(count).map_err(|_| io::ErrorKind::InvalidInput)?;
    let numbers = FIRST..FIRST.saturating_add(count);
    for number in numbers.clone() {
        // SAFETY: takes integers only; a number that is not open is an error.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: each is open, the parent has passed them for this process to own, and this is done once.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect())
}
