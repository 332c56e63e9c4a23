//! A memfd: creation, seals, allocation, and the release of its memory.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::budget::{Budget, OverBudget, Reservation};
use crate::layout::PAGE_BYTES;

/// Most attempts at an allocation. A signal undoes all of it (fallocate(2)); several in a row mean a timer that would interrupt every attempt.
const ALLOCATE_TRIES_MAX: u32 = 8;

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
    is_area_released: bool,
    is_memory_kept: bool,
    /// The allocated bytes, in the budget of all memory buffers.
    reservation: Reservation,
}

impl MemFile {
    /// Creates a memfd of this size without memory, and seals it with these seals. Close-on-exec.
    pub(crate) fn create(name: &CStr, size: FileSize, seals: SealFlags, budget: &Arc<Budget>) -> io::Result<MemFile> {
        let file = MemFile {
            fd: create_memfd(name)?,
            size,
            allocated_bytes: 0,
            is_area_released: false,
            is_memory_kept: false,
            reservation: Reservation::empty(budget),
        };
        ftruncate(&file.fd, size.total())?;
        fcntl_add_seals(&file.fd, seals)?;
        Ok(file)
    }

    /// Bytes for buffers, with and without memory.
    pub(crate) fn length(&self) -> u64 {
        self.size.buffer_bytes
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.reservation.budget()
    }

    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), OverBudget> {
        self.reservation.grow(bytes)
    }

    /// Bytes of memory that the file has, whoever allocated them; 0 if the kernel does not say. fstat(2) waits for no write.
    pub(crate) fn resident_bytes(&self) -> u64 {
        const BLOCK_BYTES: u64 = 512;
        let blocks = fstat(&self.fd).map_or(0, |status| status.st_blocks);
        u64::try_from(blocks).unwrap_or(0) * BLOCK_BYTES
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The most bytes that were ever allocated and not released.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    /// Allocates the first `total_bytes` of the file (fallocate(2)), which are reserved. Waits for a write of the script in progress.
    pub(crate) fn allocate(&mut self, total_bytes: u64) -> io::Result<()> {
        let allocate = || fallocate(&self.fd, FallocateFlags::empty(), 0, total_bytes);
        let mut result = allocate();
        for _ in 1..ALLOCATE_TRIES_MAX {
            if result != Err(Errno::INTR) {
                break;
            }
            result = allocate();
        }
        if result.is_ok() {
            self.allocated_bytes = self.allocated_bytes.max(total_bytes);
        }
        self.reservation.shrink_to(self.allocated_bytes);
        Ok(result?)
    }

    /// Releases all memory of buffers from `offset` on, also what the script has allocated; the length stays. Waits for a write of the script in progress.
    pub(crate) fn punch_from(&mut self, offset: u64) {
        let end = if self.is_area_released {
            self.size.total()
        } else {
            self.size.buffer_bytes
        };
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If it fails, the memory remains until all descriptors are closed; nothing more can be done.
        let _ = fallocate(&self.fd, hole, offset, end.saturating_sub(offset));
        self.allocated_bytes = self.allocated_bytes.min(offset);
        self.reservation.shrink_to(self.allocated_bytes);
    }

    /// The area is no longer used: its memory is released with the file.
    pub(crate) fn release_area(&mut self) {
        self.is_area_released = true;
    }

    /// Whether its drop would release memory: more than the first page, which a script that still runs reads to learn that the ring is closed.
    pub(crate) fn has_memory(&self) -> bool {
        self.allocated_bytes > PAGE_BYTES || self.resident_bytes() > PAGE_BYTES
    }

    /// The drop releases no memory, and so does not wait for a write of the script.
    pub(crate) fn keep_memory(&mut self) {
        self.is_memory_kept = true;
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
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Not executable. Kernels before 6.3 do not support that flag and return EINVAL.
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create(name, flags)?),
        created => Ok(created?),
    }
}

/// Bytes in the largest file that this process may create (RLIMIT_FSIZE).
pub(crate) fn file_bytes_max() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}
