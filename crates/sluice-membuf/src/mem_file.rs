//! A memfd: creation, seals, allocation, and the release of its memory.
//!
//! Not here: the buffers in it (segment.rs), and memfds that never change (sealed_memfd.rs).

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::budget::{Budget, OverBudget, Reservation};
use crate::layout::PAGE_BYTES;

/// Most attempts at an allocation that signals interrupt. A signal undoes all of it (fallocate(2)); several in a row
/// mean a timer that would interrupt every attempt.
const ALLOCATE_TRIES_MAX: u32 = 8;

/// The length of a memfd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSize {
    /// Bytes for buffers.
    pub(crate) buffer_bytes: u64,
    /// Bytes behind them, which are neither allocated nor released with buffers (output_regions.rs).
    pub(crate) area_bytes: u64,
}

impl FileSize {
    fn total(self) -> u64 {
        self.buffer_bytes + self.area_bytes
    }
}

/// A memfd of fixed length. Its drop releases the memory.
#[derive(Debug)]
pub(crate) struct MemFile {
    fd: OwnedFd,
    size: FileSize,
    allocated_bytes: u64,
    /// The drop releases the memory of the area as well.
    is_area_released: bool,
    /// The drop releases no memory.
    is_memory_kept: bool,
    /// The allocated bytes, in the budget of all memory buffers.
    reservation: Reservation,
}

impl MemFile {
    /// Creates a memfd of this size without memory, and seals it with these seals. Close-on-exec.
    ///
    /// # Errors
    /// What memfd_create(2), ftruncate(2) or fcntl(2) says: no descriptors left, no memory.
    pub(crate) fn create(name: &CStr, size: FileSize, seals: libc::c_int, budget: &Arc<Budget>) -> io::Result<MemFile> {
        let file = MemFile {
            fd: create_memfd(name)?,
            size,
            allocated_bytes: 0,
            is_area_released: false,
            is_memory_kept: false,
            reservation: Reservation::empty(budget),
        };
        file.set_length()?;
        file.seal(seals)?;
        Ok(file)
    }

    /// Bytes for buffers, with and without memory.
    pub(crate) fn length(&self) -> u64 {
        self.size.buffer_bytes
    }

    /// The budget of all memory buffers.
    pub(crate) fn budget(&self) -> &Budget {
        self.reservation.budget()
    }

    /// Reserves `bytes` more for the next allocation.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), OverBudget> {
        self.reservation.grow(bytes)
    }

    /// Bytes of memory that the file has, whoever allocated them; 0 if the kernel does not say (fstat(2), which waits
    /// for no write).
    pub(crate) fn resident_bytes(&self) -> u64 {
        const BLOCK_BYTES: u64 = 512;
        let mut status = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: writes one stat through the pointer.
        let result = unsafe { libc::fstat(self.fd.as_raw_fd(), status.as_mut_ptr()) };
        if result == -1 {
            return 0;
        }
        // SAFETY: all fields are integers, for which zeros are valid; fstat has filled them in.
        let status = unsafe { status.assume_init() };
        u64::try_from(status.st_blocks).unwrap_or(0) * BLOCK_BYTES
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

    fn set_length(&self) -> io::Result<()> {
        let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
        let length = libc::off_t::try_from(self.size.total()).map_err(too_large)?;
        // SAFETY: changes the file only, which nothing maps yet.
        let result = unsafe { libc::ftruncate(self.fd.as_raw_fd(), length) };
        if result == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Allocates the first `total_bytes` of the file (fallocate(2)), which are reserved. Waits for a write of the script
    /// that is in progress.
    pub(crate) fn allocate(&mut self, total_bytes: u64) -> io::Result<()> {
        let mut result = self.fallocate(0, 0, total_bytes);
        for _ in 1..ALLOCATE_TRIES_MAX {
            if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
                break;
            }
            result = self.fallocate(0, 0, total_bytes);
        }
        if result.is_ok() {
            self.allocated_bytes = self.allocated_bytes.max(total_bytes);
        }
        self.reservation.shrink_to(self.allocated_bytes);
        result
    }

    /// Releases all memory of buffers from `offset` on, including what the script has allocated. The length does not change. Waits
    /// for a write of the script that is in progress.
    pub(crate) fn punch_from(&mut self, offset: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // If it fails, the memory remains until all descriptors are closed; nothing more can be done.
        let end = if self.is_area_released {
            self.size.total()
        } else {
            self.size.buffer_bytes
        };
        let _ = self.fallocate(mode, offset, end.saturating_sub(offset));
        self.allocated_bytes = self.allocated_bytes.min(offset);
        self.reservation.shrink_to(self.allocated_bytes);
    }

    /// The area is no longer used: its memory is released with the file.
    pub(crate) fn release_area(&mut self) {
        self.is_area_released = true;
    }

    /// Whether it has memory that its drop would release: more than the first page, which a script that still runs reads to learn that the
    /// ring is closed.
    pub(crate) fn has_memory(&self) -> bool {
        self.allocated_bytes > PAGE_BYTES || self.resident_bytes() > PAGE_BYTES
    }

    /// The drop releases no memory, and so does not wait for a write of the script.
    pub(crate) fn keep_memory(&mut self) {
        self.is_memory_kept = true;
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
        if !self.is_memory_kept && (self.is_area_released || self.has_memory()) {
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
