//! Reading the part of a file that is in the page cache, without waiting for a disk.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use bytes::{BufMut, BytesMut};

/// Reads up to `bytes` bytes of a file at offset `at`, as many as are contiguous in the page cache (preadv2(2), RWF_NOWAIT).
///
/// `None` if the first byte is not in the page cache or at the end of the file (Linux 5.9 and 5.10 do not distinguish them). The file's position stays.
///
/// # Errors
/// `Unsupported`: the file system does not support RWF_NOWAIT. `InvalidInput`: `at` is no valid offset, the caller's fault. Otherwise what preadv2(2) says.
pub fn read_cached(file: impl AsFd, bytes: usize, at: u64) -> io::Result<Option<Vec<u8>>> {
    let mut buffer: Vec<u8> = Vec::with_capacity(bytes);
    let read = read_nowait(file.as_fd(), &mut buffer.spare_capacity_mut()[..bytes], at)?;
    // SAFETY: the kernel has written this many bytes, never more than the part of the buffer that it was given.
    unsafe { buffer.set_len(read) };
    Ok((read > 0).then_some(buffer))
}

/// The same, appended to `memory`, as far as its capacity has room. Returns how many bytes were read: 0 where [`read_cached`] returns `None`.
///
/// # Errors
/// As of [`read_cached`].
pub fn append_cached(file: impl AsFd, memory: &mut BytesMut, bytes: usize, at: u64) -> io::Result<usize> {
    let room = memory.spare_capacity_mut();
    let bytes = bytes.min(room.len());
    let read = read_nowait(file.as_fd(), &mut room[..bytes], at)?;
    // SAFETY: the kernel has written this many bytes of the room.
    unsafe { memory.advance_mut(read) };
    Ok(read)
}

/// One preadv2(2) with RWF_NOWAIT; 0 if nothing is in the page cache.
fn read_nowait(file: BorrowedFd<'_>, room: &mut [MaybeUninit<u8>], at: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
    let target = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: one buffer, borrowed mutably for the call; the kernel only writes to it.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const target, 1, offset, libc::RWF_NOWAIT) };
    usize::try_from(read).or_else(|_| match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        error => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// An unlinked file in the directory for temporary files.
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
    fn bytes_just_written_are_read_from_the_page_cache() {
        let file = file(b"0123456789");
        let read = |bytes, at| match read_cached(&file, bytes, at) {
            // The file system of the temporary directory may not support it.
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
            let Some(buffer) = read(bytes, at) else { return };
            assert_eq!(buffer.as_deref(), expected.map(str::as_bytes), "{bytes} at {at}");
        }
    }

    #[test]
    fn an_invalid_offset_is_an_error() {
        let error = read_cached(file(b""), 1, u64::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
