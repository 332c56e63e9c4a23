//! The memory buffer of one script process: a memfd, created empty and sealed, with memory allocated at each
//! BUFFER-BEGIN.
//!
//! Not here: the use of the memory (plain_buffer.rs, ring_reader.rs), the system calls (mem_file.rs), and the limit on
//! the size (sluice-script).
//!
//! # Seals
//!
//! - `F_SEAL_SHRINK`, set at creation: the file can never become shorter than a mapping of the server, where an access
//!   would raise SIGBUS.
//! - `F_SEAL_SEAL`, set: the script cannot add seals that would make the next begin fail.
//! - `F_SEAL_GROW`, not set: a persistent process may need a larger buffer for its next request. A script gains nothing
//!   by growing the file itself: the server maps only the length it allocated, and the script's limits apply to what
//!   the script allocates (RLIMIT_FSIZE, its cgroup).
//! - `F_SEAL_WRITE` and `F_SEAL_FUTURE_WRITE`, not set: only they would forbid punching holes, but they would also
//!   forbid the script's writable mapping.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::layout::{CONTROL_BYTES, PAGE_BYTES, RING_BYTES_MIN};
use crate::mapping::{Control, DataView};
use crate::mem_file::{MemFile, file_bytes_max};
use crate::plain_buffer::PlainBuffer;
use crate::ring_reader::RingReader;

/// Why [`Segment::begin_plain`] or [`Segment::begin_ring`] failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum BeginError {
    /// Not enough free memory. The server's fault: 503.
    NoMemory,
    /// Larger than a file of this process may be (RLIMIT_FSIZE), or than its address space. The script's fault: 413.
    TooLarge,
    /// The previous buffer, or a chunk of it, is still held. The caller's fault: wait until it is freed.
    InUse,
    /// Another error of the system. The server's fault: 503.
    Io(io::Error),
}

impl std::fmt::Display for BeginError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BeginError::NoMemory => f.write_str("no memory for a memory buffer of that size"),
            BeginError::TooLarge => f.write_str("a memory buffer of that size is beyond what the system allows"),
            BeginError::InUse => f.write_str("the memory buffer of the exchange before is still being sent"),
            BeginError::Io(error) => write!(f, "the system refused the memory buffer: {error}"),
        }
    }
}

impl std::error::Error for BeginError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BeginError::Io(error) => Some(error),
            _ => None,
        }
    }
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
/// One buffer at a time: the next one begins only when no handle and no chunk of the previous one is held, because the
/// script may overwrite the memory then. The memory is released when the segment and everything created from it are
/// dropped, even if a process that the script left behind still has the descriptor.
#[derive(Debug)]
pub struct Segment {
    file: Arc<MemFile>,
    view: Option<Arc<DataView>>,
    control: Option<Arc<Control>>,
}

impl Segment {
    /// Creates an empty memory buffer: a descriptor without memory.
    ///
    /// # Errors
    /// What memfd_create(2) or fcntl(2) says: no descriptors left, no memory.
    pub fn create() -> io::Result<Segment> {
        let file = MemFile::create(c"sluice-buffer", libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL)?;
        Ok(Segment {
            file: Arc::new(file),
            view: None,
            control: None,
        })
    }

    /// The memfd, which becomes the script's descriptor 4. Close-on-exec in this process.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.fd()
    }

    /// Begins a plain buffer of at least `bytes` bytes, rounded up to a page; at least one page.
    ///
    /// The memory is allocated at once, so the time grows with the size (about 0.1 s for 1 GiB); a script that grows
    /// the file at the same time delays it. Allocate large buffers outside of the event loop.
    ///
    /// # Errors
    /// See [`BeginError`]; the segment remains usable.
    pub fn begin_plain(&mut self, bytes: u64) -> Result<PlainBuffer, BeginError> {
        let capacity = round_up(bytes.max(1))?;
        self.allocate(capacity)?;
        let view = self.map_view(capacity)?;
        Ok(PlainBuffer::new(Arc::clone(&self.file), view, capacity))
    }

    /// Begins a ring of at least `bytes` bytes, rounded up to a page; at least [`RING_BYTES_MIN`]. Allocates as
    /// [`Segment::begin_plain`] does.
    ///
    /// # Errors
    /// See [`BeginError`]; the segment remains usable.
    pub fn begin_ring(&mut self, bytes: u64) -> Result<RingReader, BeginError> {
        let capacity = round_up(bytes.max(RING_BYTES_MIN))?;
        let total = capacity.checked_add(CONTROL_BYTES as u64).ok_or(BeginError::TooLarge)?;
        self.allocate(total)?;
        let view = self.map_view(total)?;
        let control = self.map_control()?;
        control.reset(capacity);
        Ok(RingReader::new(Arc::clone(&self.file), view, control, capacity))
    }

    /// Whether a buffer or a chunk of one is still held, so that the next buffer cannot begin.
    pub fn is_in_use(&mut self) -> bool {
        Arc::get_mut(&mut self.file).is_none()
    }

    /// Releases the memory beyond the first `bytes_kept` bytes (at least one page), for a process that goes idle. Does
    /// nothing while in use.
    ///
    /// The next begin allocates again what it needs.
    pub fn trim(&mut self, bytes_kept: u64) {
        // Keeps the first page, as MemFile's drop does.
        let bytes_kept = round_up(bytes_kept.max(PAGE_BYTES)).unwrap_or(u64::MAX);
        if let Some(file) = Arc::get_mut(&mut self.file)
            && bytes_kept < file.allocated_bytes()
        {
            file.punch_from(bytes_kept);
            self.view = None;
        }
    }

    /// Ensures that the first `total_bytes` of the file are allocated. They may not be, because the script can punch
    /// holes.
    fn allocate(&mut self, total_bytes: u64) -> Result<(), BeginError> {
        // get_mut, not strong_count, because it also orders the last holder's reads before the script's next writes.
        let file = Arc::get_mut(&mut self.file).ok_or(BeginError::InUse)?;
        // Checked before, because the kernel sends SIGXFSZ (fatal by default) besides failing.
        if usize::try_from(total_bytes).is_err() || total_bytes > file_bytes_max() {
            return Err(BeginError::TooLarge);
        }
        let growth = total_bytes.saturating_sub(file.allocated_bytes());
        if growth > UNCHECKED_BYTES_MAX && memory_available_bytes().is_some_and(|available| growth > available) {
            return Err(BeginError::NoMemory);
        }
        Ok(file.allocate(total_bytes)?)
    }

    /// A view of at least `total_bytes`. The previous one is reused if it is large enough, because most scripts ask for
    /// the same size every time.
    fn map_view(&mut self, total_bytes: u64) -> Result<Arc<DataView>, BeginError> {
        let bytes = usize::try_from(total_bytes).map_err(|_| BeginError::TooLarge)?;
        if let Some(view) = self.view.as_ref().filter(|view| view.bytes() >= bytes) {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(DataView::map(self.file.fd(), bytes)?);
        self.view = Some(Arc::clone(&view));
        Ok(view)
    }

    fn map_control(&mut self) -> Result<Arc<Control>, BeginError> {
        if let Some(control) = &self.control {
            return Ok(Arc::clone(control));
        }
        let control = Arc::new(Control::map(self.file.fd())?);
        self.control = Some(Arc::clone(&control));
        Ok(control)
    }
}

/// Growth up to this many bytes is allocated without checking the free memory. 16 MiB: the check costs 1 % of the
/// allocation.
const UNCHECKED_BYTES_MAX: u64 = 16 << 20;

fn round_up(bytes: u64) -> Result<u64, BeginError> {
    bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(BeginError::TooLarge)
}

/// The kernel's estimate of the memory that can be allocated without swapping (`MemAvailable`, proc_meminfo(5)), bytes.
///
/// A larger allocation would not fail; the kernel's OOM killer would kill a process instead.
fn memory_available_bytes() -> Option<u64> {
    let report = fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}
