//! The send queue of a socket: bytes that its peer has not acknowledged.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes in a socket's send queue: on TCP those not acknowledged (tcp(7), SIOCOUTQ), on a unix socket those not read, with the kernel's overhead.
///
/// # Errors
/// The descriptor is not a connected socket: the caller's fault.
pub fn unacknowledged_bytes(socket: impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int to its argument.
    match unsafe { libc::ioctl(descriptor, libc::TIOCOUTQ, &raw mut bytes) } {
        0 => Ok(u32::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_count_until_the_peer_has_read_them() {
        let (mut own, mut other) = UnixStream::pair().unwrap();
        assert_eq!(unacknowledged_bytes(&own).unwrap(), 0);
        own.write_all(&[0; 1000]).unwrap();
        assert!(unacknowledged_bytes(&own).unwrap() >= 1000);
        other.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(unacknowledged_bytes(&own).unwrap(), 0);
    }
}
