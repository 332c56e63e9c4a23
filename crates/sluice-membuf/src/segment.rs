//! The memory buffer of one script process: a sealed memfd of fixed length, allocated at each BUFFER-BEGIN and cleared between exchanges.
//!
//! # Seals
//!
//! - `F_SEAL_SHRINK`: the file never becomes shorter than a mapping of the server, where an access would raise SIGBUS.
//! - `F_SEAL_GROW`: the script cannot allocate more in the file than its largest buffer. So the file has its full length from the start, without memory.
//! - `F_SEAL_SEAL`: the script cannot add seals that would make the next begin fail.
//! - `F_SEAL_WRITE` and `F_SEAL_FUTURE_WRITE` are not set: only they would forbid punching holes, but also the script's writable mapping.
//!
//! # Bytes of earlier exchanges
//!
//! ```text
//!   0        cleared_bytes          stale_bytes           allocated bytes                    length of the file
//!   |--------------|---------------------|------------------------|-----------------------------------|
//!    this exchange's  an earlier exchange's    zeros since allocated    no memory, unless the script
//!                     bytes: cleared at begin                           wrote there: punched at the first
//!                                                                       allocation of the exchange
//! ```
//! They are cleared when the next exchange begins a buffer, not when an exchange ends, because a process that the script left running may still write
//! in between. What it writes after the begin is the script's own fault: a server cannot tell these bytes from those that are meant.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::fs::SealFlags;
use thiserror::Error;

use crate::budget::{Budget, OverBudget};
use crate::layout::{CONTROL_BYTES, PAGE_BYTES, RING_BYTES_MIN};
use crate::mapping::{Control, DataView, WritableData};
use crate::mem_file::{FileSize, MemFile, file_bytes_max};
use crate::output_regions::{AREA_BYTES, OutputRegion, OutputRegions};
use crate::plain_buffer::PlainBuffer;
use crate::ring_reader::RingReader;
use crate::shared_memory::{Parts, Release, SharedMemory};

/// Bytes that an idle process keeps: the default ring, 1 MiB, needs no allocation. Clearing takes 7 to 40 µs (docs/internals/memory-buffer.md).
pub const KEPT_BYTES: u64 = (1 << 20) + CONTROL_BYTES as u64;

/// Why [`Segment::begin_plain`] or [`Segment::begin_ring`] failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BeginError {
    /// Not enough free memory. The server's fault: 503.
    #[error("no memory for a memory buffer of that size")]
    NoMemory,
    /// The memory buffers of all processes together would exceed their budget. The server's fault: 503; 413 if this one alone would.
    #[error("{}", .0.text())]
    OverBudget(OverBudget),
    /// Larger than the segment's limit, than a file may be (RLIMIT_FSIZE), or than the address space. The script's fault: 413.
    #[error("a memory buffer of that size is beyond what the system allows")]
    TooLarge,
    /// The previous buffer, or a chunk of it, is still held. The caller's fault: wait until it is freed.
    #[error("the memory buffer of the exchange before is still being sent")]
    InUse,
    /// Another error of the system. The server's fault: 503.
    #[error("the system refused the memory buffer: {0}")]
    Io(#[source] io::Error),
}

impl From<io::Error> for BeginError {
    fn from(error: io::Error) -> BeginError {
        match error.raw_os_error() {
            Some(libc::ENOMEM | libc::ENOSPC) => BeginError::NoMemory,
            Some(libc::EFBIG) => BeginError::TooLarge,
            _ => BeginError::Io(error),
        }
    }
}

/// The memory buffer of one script process, on the server's side.
///
/// One buffer at a time: the next one begins only when no handle or chunk of the previous one is held, because the script may then overwrite the
/// memory. The memory is released when the segment and everything created from it are dropped, even if a process left behind has the descriptor.
#[derive(Debug)]
pub struct Segment {
    memory: Arc<SharedMemory>,
    /// Bytes at the start that were cleared for this exchange.
    cleared_bytes: u64,
    /// End of the bytes that an earlier exchange may have written, as far as they were allocated.
    stale_bytes: u64,
    /// An earlier exchange may have written beyond the allocated bytes.
    has_strays: bool,
}

impl Segment {
    /// Creates a memory buffer without memory, for buffers of up to `bytes_max` bytes, in no budget; the last holder releases it.
    ///
    /// # Errors
    /// What memfd_create(2), ftruncate(2) or fcntl(2) says: no descriptors left, no memory.
    pub fn create(bytes_max: u64) -> io::Result<Segment> {
        Segment::create_within(&Budget::new(u64::MAX), bytes_max, Arc::new(drop))
    }

    /// Creates a segment as [`Segment::create`] does, within a budget. The last holder calls `release`, which drops the memory on a thread that may wait.
    ///
    /// # Errors
    /// As of [`Segment::create`].
    pub fn create_within(budget: &Arc<Budget>, bytes_max: u64, release: Release) -> io::Result<Segment> {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let length = length_for(bytes_max);
        let start = length.next_multiple_of(LARGEST_PAGE_BYTES);
        let has_regions = length > 0 && start.saturating_add(AREA_BYTES) <= file_bytes_limit();
        let size = FileSize {
            buffer_bytes: length,
            area_bytes: if has_regions { start - length + AREA_BYTES } else { 0 },
        };
        let file = MemFile::create(c"sluice-buffer", size, seals, budget)?;
        Ok(Segment {
            memory: Arc::new(SharedMemory::new(
                file,
                has_regions.then(|| OutputRegions::new(start)),
                release,
            )),
            cleared_bytes: 0,
            stale_bytes: 0,
            has_strays: false,
        })
    }

    /// The memfd, which becomes the script's descriptor 4. Close-on-exec in this process.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// Has another function drop the memory. Without effect while a buffer of it is held.
    pub fn set_release(&mut self, release: Release) {
        if let Some(memory) = Arc::get_mut(&mut self.memory) {
            memory.set_release(release);
        }
    }

    /// Begins a plain buffer within some microseconds. `None` if memory is missing: call [`Segment::begin_plain`] then, on a thread that may wait.
    pub fn try_begin_plain(&mut self, bytes: u64) -> Option<Result<PlainBuffer, BeginError>> {
        let capacity = plain_capacity(bytes).ok().filter(|capacity| self.is_ready(*capacity))?;
        Some(self.begin_plain_prepared(capacity))
    }

    /// Begins a ring within some microseconds, as [`Segment::try_begin_plain`] does a plain buffer.
    pub fn try_begin_ring(&mut self, bytes: u64) -> Option<Result<RingReader, BeginError>> {
        let total = ring_total(bytes).ok().filter(|total| self.is_ready(*total))?;
        Some(self.begin_ring_prepared(total))
    }

    /// Begins a plain buffer of at least `bytes` bytes, rounded up to a page; at least one page. Bytes of earlier exchanges read as zeros.
    ///
    /// Allocates at once, in time that grows with the size (about 0.3 s for 1 GiB), and delayed by a write of the script: see [`Segment::try_begin_plain`].
    ///
    /// # Errors
    /// See [`BeginError`]; the segment remains usable.
    pub fn begin_plain(&mut self, bytes: u64) -> Result<PlainBuffer, BeginError> {
        let capacity = plain_capacity(bytes)?;
        self.allocate(capacity)?;
        self.begin_plain_prepared(capacity)
    }

    fn begin_plain_prepared(&mut self, capacity: u64) -> Result<PlainBuffer, BeginError> {
        self.prepare(capacity)?;
        Ok(PlainBuffer::new(Arc::clone(&self.memory), capacity))
    }

    /// Begins a ring of at least `bytes` bytes, rounded up to a page; at least [`RING_BYTES_MIN`]. Otherwise as [`Segment::begin_plain`].
    ///
    /// # Errors
    /// See [`BeginError`]; the segment remains usable.
    pub fn begin_ring(&mut self, bytes: u64) -> Result<RingReader, BeginError> {
        let total = ring_total(bytes)?;
        self.allocate(total)?;
        self.begin_ring_prepared(total)
    }

    fn begin_ring_prepared(&mut self, total: u64) -> Result<RingReader, BeginError> {
        let capacity = total - CONTROL_BYTES as u64;
        self.prepare(total)?.map_control()?.reset(capacity);
        Ok(RingReader::new(Arc::clone(&self.memory), capacity))
    }

    /// A region for the next reply. `None` if all are being sent, or there are none.
    #[must_use]
    pub fn free_region(&self) -> Option<OutputRegion> {
        self.memory.parts().regions.as_ref()?.free()
    }

    /// The `bytes` bytes from `offset` on of a region that was free at the start of the exchange, without a copy; they are in use until
    /// the last clone is dropped. `None` if a region has no such bytes, or too many parts are in use: the script's fault.
    ///
    /// The script can change the bytes at any time, as those of a ring ([`RingReader::take`]).
    ///
    /// # Errors
    /// What mmap(2) says, at the first use.
    pub fn output(&self, region: OutputRegion, offset: u64, bytes: u64) -> io::Result<Option<Bytes>> {
        match &self.memory.parts().regions {
            Some(regions) => regions.output(self.fd(), region, offset, bytes),
            None => Ok(None),
        }
    }

    /// Ready when none of these bytes is in use ([`Segment::output`]). Otherwise the task is woken on the thread that drops them; one task waits at a time.
    pub fn poll_output_freed(&self, region: OutputRegion, offset: u64, bytes: u64, context: &Context<'_>) -> Poll<()> {
        match &self.memory.parts().regions {
            Some(regions) => regions.poll_free(region, offset, bytes, context),
            None => Poll::Ready(()),
        }
    }

    /// Whether a buffer or a chunk of one is still held, so that the next buffer cannot begin.
    pub fn is_in_use(&mut self) -> bool {
        Arc::get_mut(&mut self.memory).is_none()
    }

    /// The exchange is over: bytes that are in the memory now are cleared before another exchange can send them.
    pub fn end_exchange(&mut self) {
        self.cleared_bytes = 0;
        self.stale_bytes = self.memory.parts().file.allocated_bytes();
        self.has_strays = true;
    }

    /// Whether an idle process would keep more memory than [`KEPT_BYTES`], or any if most of the budget is in use.
    #[must_use]
    pub fn needs_trim(&self) -> bool {
        let file = &self.memory.parts().file;
        // A script may write where no buffer is: such memory is in no budget, and would stay with an idle process.
        file.allocated_bytes() > self.kept_bytes() || file.resident_bytes() > KEPT_BYTES + AREA_BYTES + SLACK_BYTES
    }

    /// Releases the memory that an idle process does not keep; the next begin allocates what it needs. Does nothing while in use. Waits for a write of
    /// the script that is in progress, so call it on a thread that may wait.
    pub fn trim(&mut self) {
        let bytes_kept = self.kept_bytes();
        if let Some(memory) = Arc::get_mut(&mut self.memory) {
            memory.parts_mut().trim(bytes_kept);
            self.stale_bytes = self.stale_bytes.min(bytes_kept);
        }
    }

    /// At least one page, as MemFile's drop keeps.
    fn kept_bytes(&self) -> u64 {
        let is_tight = self.memory.parts().file.budget().is_tight();
        if is_tight { PAGE_BYTES } else { KEPT_BYTES }
    }

    fn is_ready(&mut self, total_bytes: u64) -> bool {
        let is_free = !self.is_in_use();
        is_free && total_bytes <= KEPT_BYTES && !self.needs_allocation(total_bytes)
    }

    fn needs_allocation(&self, total_bytes: u64) -> bool {
        self.stale_bytes > KEPT_BYTES || !self.memory.parts().file.has_all(total_bytes)
    }

    /// Ensures that the first `total_bytes` of the file are allocated. Waits for a write of the script to the file that is in progress.
    fn allocate(&mut self, total_bytes: u64) -> Result<(), BeginError> {
        if !self.needs_allocation(total_bytes) {
            return Ok(());
        }
        let parts = Arc::get_mut(&mut self.memory).ok_or(BeginError::InUse)?.parts_mut();
        if self.has_strays {
            self.stale_bytes = self.stale_bytes.min(KEPT_BYTES);
            parts.file.punch_from(self.stale_bytes);
            self.has_strays = false;
        }
        parts.file.allocate_within_limits(total_bytes)
    }

    /// Ensures that the first `total_bytes` of the file, which are allocated, are mapped, and without bytes of earlier exchanges. Waits for nobody.
    fn prepare(&mut self, total_bytes: u64) -> Result<&mut Parts, BeginError> {
        // get_mut, not strong_count, because it also orders the last holder's reads before the script's next writes.
        let parts = Arc::get_mut(&mut self.memory).ok_or(BeginError::InUse)?.parts_mut();
        let stale = self.cleared_bytes..total_bytes.min(self.stale_bytes);
        if !stale.is_empty() {
            parts.clear(stale.start, stale.end)?;
            self.cleared_bytes = stale.end;
        }
        parts.map_view(total_bytes)?;
        Ok(parts)
    }
}

impl MemFile {
    /// Whether the first `total_bytes` are allocated. If the script punched holes, usually too few bytes are resident: they are allocated again.
    fn has_all(&self, total_bytes: u64) -> bool {
        total_bytes <= self.allocated_bytes() && self.resident_bytes() >= self.allocated_bytes()
    }

    fn allocate_within_limits(&mut self, total_bytes: u64) -> Result<(), BeginError> {
        // The file's length, too, is within RLIMIT_FSIZE: beyond it the kernel sends SIGXFSZ besides failing.
        if usize::try_from(total_bytes).is_err() || total_bytes > self.length() {
            return Err(BeginError::TooLarge);
        }
        let growth = total_bytes.saturating_sub(self.allocated_bytes());
        if growth > UNCHECKED_BYTES_MAX && memory_bytes("MemAvailable:").is_some_and(|available| growth > available) {
            return Err(BeginError::NoMemory);
        }
        self.reserve(growth).map_err(BeginError::OverBudget)?;
        Ok(self.allocate(total_bytes)?)
    }
}

impl Parts {
    fn trim(&mut self, bytes_kept: u64) {
        self.file.punch_from(bytes_kept.max(PAGE_BYTES));
        // Its address space is only worth keeping for a buffer that begins without an allocation.
        if self.view.as_ref().is_some_and(|view| view.bytes() as u64 > KEPT_BYTES) {
            self.view = None;
        }
    }

    /// Maps at least `total_bytes`. The previous view is reused if it is large enough: most scripts ask for the same size every time.
    fn map_view(&mut self, total_bytes: u64) -> Result<(), BeginError> {
        let bytes = usize::try_from(total_bytes).map_err(|_| BeginError::TooLarge)?;
        if self.view.as_ref().is_none_or(|view| view.bytes() < bytes) {
            self.view = Some(DataView::map(self.file.fd(), bytes)?);
        }
        Ok(())
    }

    fn map_control(&mut self) -> Result<&Control, BeginError> {
        if self.control.is_none() {
            self.control = Some(Control::map(self.file.fd())?);
        }
        Ok(self.control.as_ref().expect("mapped just now"))
    }

    /// Clears bytes of the kept part, which has memory.
    fn clear(&mut self, from: u64, to: u64) -> Result<(), BeginError> {
        let narrow = |bytes| usize::try_from(bytes).map_err(|_| BeginError::TooLarge);
        let (from, to) = (narrow(from)?, narrow(to)?);
        if self.kept.as_ref().is_none_or(|kept| kept.bytes() < to) {
            let bytes = narrow(self.file.length().min(KEPT_BYTES))?;
            self.kept = Some(WritableData::map(self.file.fd(), bytes)?);
        }
        if let Some(kept) = &mut self.kept {
            kept.clear(from, to - from);
        }
        Ok(())
    }
}

/// Bytes of memory beyond the kept ones that are not worth a trim: the rest of a large page.
const SLACK_BYTES: u64 = 64 << 10;

/// The largest page of any machine, bytes: a mapping begins at a multiple of it.
const LARGEST_PAGE_BYTES: u64 = 64 << 10;

/// Growth up to this many bytes is allocated without checking the free memory. 16 MiB: the check costs 1 % of the allocation.
const UNCHECKED_BYTES_MAX: u64 = 16 << 20;

fn round_up(bytes: u64) -> Result<u64, BeginError> {
    bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(BeginError::TooLarge)
}

fn plain_capacity(bytes: u64) -> Result<u64, BeginError> {
    round_up(bytes.max(1))
}

/// The data area and the control page.
fn ring_total(bytes: u64) -> Result<u64, BeginError> {
    let capacity = round_up(bytes.max(RING_BYTES_MIN))?;
    capacity.checked_add(CONTROL_BYTES as u64).ok_or(BeginError::TooLarge)
}

/// The longest that a file may be, in whole pages.
fn file_bytes_limit() -> u64 {
    file_bytes_max().min(i64::MAX.unsigned_abs()) / PAGE_BYTES * PAGE_BYTES
}

/// The length of a file for buffers of up to `bytes_max` bytes, within RLIMIT_FSIZE: beyond it ftruncate(2) raises SIGXFSZ.
fn length_for(bytes_max: u64) -> u64 {
    let longest = file_bytes_limit();
    if bytes_max == 0 {
        return 0;
    }
    ring_total(bytes_max).map_or(longest, |total| total.min(longest))
}

/// Bytes of memory that this process can use: the machine's, or its control group's (cgroup v2, `memory.max`) if less. `None` if the system does not say.
#[must_use]
pub fn memory_total_bytes() -> Option<u64> {
    let machine = memory_bytes("MemTotal:")?;
    Some(control_group_bytes().map_or(machine, |limit| limit.min(machine)))
}

fn control_group_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let limit = fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.max")).ok()?;
    // "max" is no limit.
    limit.trim().parse().ok()
}

/// A line of proc_meminfo(5), in bytes. `MemAvailable:` is the kernel's estimate of the memory that can be allocated
/// without swapping: a larger allocation would not fail; the kernel's OOM killer would kill a process instead.
fn memory_bytes(name: &str) -> Option<u64> {
    let report = fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}
