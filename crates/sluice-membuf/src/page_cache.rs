//! Reading what of a file is in memory already, and never waiting for a disk.
//!
//! Not here: what to do about the rest (sluice-server has threads that may wait).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Up to `bytes` bytes of a file from `at` on, as many as lie there one after the other in the page cache (preadv2(2) with
/// RWF_NOWAIT). None where the first of them does not, or where the file has ended: Linux 5.9 and 5.10 cannot tell one from
/// the other. The file's position stays.
///
/// # Errors
/// What the system says. `Unsupported`: files of this file system cannot be read without waiting.
pub fn read_cached(file: impl AsFd, bytes: usize, at: u64) -> io::Result<Option<Vec<u8>>> {
    let offset = libc::off_t::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut piece: Vec<u8> = Vec::with_capacity(bytes);
    let target = libc::iovec {
        iov_base: piece.as_mut_ptr().cast(),
        iov_len: bytes,
    };
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: one buffer, whose `bytes` bytes were just allocated and are nobody else's; the kernel only writes to it.
    let read = unsafe { libc::preadv2(descriptor, &raw const target, 1, offset, libc::RWF_NOWAIT) };
    match usize::try_from(read) {
        Ok(0) => Ok(None),
        Ok(read) => {
            // SAFETY: the kernel has written so many bytes, and never more than the buffer holds.
            unsafe { piece.set_len(read) };
            Ok(Some(piece))
        }
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A file without a name, where temporary files lie.
    fn file(bytes: &[u8]) -> File {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sluice-page-cache-{}-{number}", std::process::id()));
        let options = File::options().read(true).write(true).create_new(true).clone();
        let mut file = options.open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn what_was_just_written_is_read_from_its_place_up_to_the_end() {
        let file = file(b"0123456789");
        let read = |bytes, at| match read_cached(&file, bytes, at) {
            // Temporary files may lie where the kernel cannot tell.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => None,
            read => Some(read.unwrap()),
        };
        for (bytes, at, expected) in [
            (4, 3, Some("3456")),
            (100, 8, Some("89")),
            (100, 10, None),
            (100, 11, None),
            (0, 0, None),
        ] {
            let Some(piece) = read(bytes, at) else { return };
            assert_eq!(piece.as_deref(), expected.map(str::as_bytes), "{bytes} at {at}");
        }
    }

    #[test]
    fn an_impossible_place_is_an_error() {
        let error = read_cached(file(b""), 1, u64::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
