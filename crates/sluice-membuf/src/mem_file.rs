//! A memfd: creation, seals, allocation, and the release of its memory.
//!
//! Not here: the buffers in it (segment.rs), and memfds that never change (sealed_memfd.rs).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::layout::PAGE_BYTES;

/// Most attempts at an allocation that signals interrupt. A signal undoes all of it (fallocate(2)); several in a row
/// mean a timer that would interrupt every attempt.
const ALLOCATE_TRIES_MAX: u32 = 8;

/// A memfd. The segment and every buffer and chunk created from it hold it; the last holder's drop releases the memory.
#[derive(Debug)]
pub(crate) struct MemFile {
    fd: OwnedFd,
    allocated_bytes: u64,
}

impl MemFile {
    /// Creates an empty memfd with these seals. Close-on-exec.
    ///
    /// # Errors
    /// What memfd_create(2) or fcntl(2) says: no descriptors left, no memory.
    pub(crate) fn create(name: &CStr, seals: libc::c_int) -> io::Result<MemFile> {
        let file = MemFile {
            fd: create_memfd(name)?,
            allocated_bytes: 0,
        };
        file.seal(seals)?;
        Ok(file)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The most bytes that were ever allocated and not released.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    fn seal(&self, seals: libc::c_int) -> io::Result<()> {
        // SAFETY: F_ADD_SEALS takes an integer and accesses no memory of this process.
        let result = unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        if result == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Allocates the first `total_bytes` of the file (fallocate(2)); the file becomes at least that long.
    pub(crate) fn allocate(&mut self, total_bytes: u64) -> io::Result<()> {
        let mut result = self.fallocate(0, 0, total_bytes);
        for _ in 1..ALLOCATE_TRIES_MAX {
            if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
                break;
            }
            result = self.fallocate(0, 0, total_bytes);
        }
        result?;
        self.allocated_bytes = self.allocated_bytes.max(total_bytes);
        Ok(())
    }

    /// Releases all memory from `offset` on, including what the script has allocated. The length does not change.
    pub(crate) fn punch_from(&mut self, offset: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // If it fails, the memory remains until all descriptors are closed; nothing more can be done.
        let _ = self.fallocate(mode, offset, i64::MAX.unsigned_abs() - offset);
        self.allocated_bytes = self.allocated_bytes.min(offset);
    }

    fn fallocate(&self, mode: libc::c_int, offset: u64, bytes: u64) -> io::Result<()> {
        let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
        let offset = libc::off_t::try_from(offset).map_err(too_large)?;
        let bytes = libc::off_t::try_from(bytes).map_err(too_large)?;
        // SAFETY: changes the file only; mappings keep their addresses, and a hole reads as zeros.
        let result = unsafe { libc::fallocate(self.fd.as_raw_fd(), mode, offset, bytes) };
        if result == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        // Keeps the first page, because a script that still runs reads there that the ring is closed.
        if self.allocated_bytes > PAGE_BYTES {
            self.punch_from(PAGE_BYTES);
        }
    }
}

/// Creates an empty memfd that can be sealed. The name appears in /proc only (memfd_create(2)).
pub(crate) fn create_memfd(name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Not executable. Kernels before 6.3 do not support that flag and return EINVAL.
    memfd_create(name, flags | libc::MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => memfd_create(name, flags),
        _ => Err(error),
    })
}

fn memfd_create(name: &CStr, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created it; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Bytes in the largest file that this process may create (RLIMIT_FSIZE).
pub(crate) fn file_bytes_max() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: writes one rlimit through the pointer. If it fails, the value remains: no limit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
    }
    limit.rlim_cur
}
