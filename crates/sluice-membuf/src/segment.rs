//! The memfd behind a script process's memory buffer: made empty, sealed, filled with real memory at each begin.
//!
//! Not here: what is done with the memory (plain_buffer.rs, ring_reader.rs) and the limit on its size (sluice-server).
//!
//! # Seals
//!
//! `F_SEAL_SHRINK`, at creation: a mapping of the server can never come to lie behind the end of the file, where
//! touching it is a SIGBUS. `F_SEAL_SEAL`: the script cannot add seals that would make the next begin fail.
//! `F_SEAL_GROW` is not set, because a process that lives may ask for more in its next request. A script that grows
//! the file by itself gains nothing: the server maps its own length only, and the script's limits bound what it can
//! allocate (RLIMIT_FSIZE, its cgroup). `F_SEAL_WRITE` and `F_SEAL_FUTURE_WRITE`, which alone would forbid to punch
//! holes, would forbid the script's writable mapping too.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::layout::{CONTROL_BYTES, PAGE_BYTES, RING_BYTES_MIN};
use crate::mapping::{Control, DataView};
use crate::plain_buffer::PlainBuffer;
use crate::ring_reader::RingReader;

/// Why a buffer could not begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum BeginError {
    /// The machine cannot spare the memory now. The server's fault: 503.
    NoMemory,
    /// Larger than a file of this process may be (RLIMIT_FSIZE) or than it can address. The script's fault: 413.
    TooLarge,
    /// The buffer of an earlier exchange, or a piece of it, is still held. The caller's fault: wait for it to be
    /// freed first.
    InUse,
    /// The system refused for another reason. The server's fault: 503.
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

/// The memory buffer of one script process, seen from the server.
///
/// One buffer at a time: the next begins when nobody holds a handle or a piece of the one before, because the script
/// may then overwrite what is still to be sent. The memory goes back to the system when the segment and all that came
/// of it are dropped, even if a process that the script left behind still has the descriptor.
#[derive(Debug)]
pub struct Segment {
    file: Arc<MemFile>,
    view: Option<Arc<DataView>>,
    control: Option<Arc<Control>>,
}

impl Segment {
    /// Makes an empty memory buffer: a descriptor, no memory.
    ///
    /// # Errors
    /// What memfd_create(2) or fcntl(2) says: no descriptors left, no memory.
    pub fn create() -> io::Result<Segment> {
        let file = MemFile {
            fd: create_memfd(c"sluice-buffer")?,
            allocated_bytes: 0,
        };
        file.seal(libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL)?;
        Ok(Segment {
            file: Arc::new(file),
            view: None,
            control: None,
        })
    }

    /// The memfd, for the script process's descriptor 4. Close-on-exec here.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.fd.as_fd()
    }

    /// Begins a plain buffer of at least `bytes` bytes, rounded up to a page, at least one.
    ///
    /// Allocates for real: the time grows with the size (about 0.1 s for 1 GiB), and a script that grows the file at
    /// the same moment holds it up. Large ones belong off the event loop.
    ///
    /// # Errors
    /// See [`BeginError`]; after one, the segment can be asked again.
    pub fn begin_plain(&mut self, bytes: u64) -> Result<PlainBuffer, BeginError> {
        let capacity = round_up(bytes.max(1))?;
        self.allocate(capacity)?;
        let view = self.map_view(capacity)?;
        Ok(PlainBuffer::new(Arc::clone(&self.file), view, capacity))
    }

    /// Begins a ring of at least `bytes` bytes, rounded up to a page, at least [`RING_BYTES_MIN`]. Allocates as
    /// [`Segment::begin_plain`] does.
    ///
    /// # Errors
    /// See [`BeginError`]; after one, the segment can be asked again.
    pub fn begin_ring(&mut self, bytes: u64) -> Result<RingReader, BeginError> {
        let capacity = round_up(bytes.max(RING_BYTES_MIN))?;
        let total = capacity.checked_add(CONTROL_BYTES as u64).ok_or(BeginError::TooLarge)?;
        self.allocate(total)?;
        let view = self.map_view(total)?;
        let control = self.map_control()?;
        control.reset(capacity);
        Ok(RingReader::new(Arc::clone(&self.file), view, control, capacity))
    }

    /// Whether a buffer, or a piece of one, is still held, so that the next cannot begin.
    pub fn is_in_use(&mut self) -> bool {
        Arc::get_mut(&mut self.file).is_none()
    }

    /// Gives back the memory beyond the first `bytes_kept` bytes (at least a page), for a process that goes idle. Does
    /// nothing while in use.
    ///
    /// The next begin allocates again what it needs.
    pub fn trim(&mut self, bytes_kept: u64) {
        // Not the first page, as in MemFile's drop.
        let bytes_kept = round_up(bytes_kept.max(PAGE_BYTES)).unwrap_or(u64::MAX);
        if let Some(file) = Arc::get_mut(&mut self.file)
            && bytes_kept < file.allocated_bytes
        {
            file.punch_from(bytes_kept);
            self.view = None;
        }
    }

    /// Makes sure that the first `total_bytes` of the file are there, in memory: holes may have been punched since
    /// last time.
    fn allocate(&mut self, total_bytes: u64) -> Result<(), BeginError> {
        // get_mut, not a count: it also orders the last holder's reads before what the script does next.
        let file = Arc::get_mut(&mut self.file).ok_or(BeginError::InUse)?;
        // Asked before, because the kernel signals SIGXFSZ (deadly by default) instead of just failing.
        if usize::try_from(total_bytes).is_err() || total_bytes > file_bytes_max() {
            return Err(BeginError::TooLarge);
        }
        let growth = total_bytes.saturating_sub(file.allocated_bytes);
        if growth > UNCHECKED_BYTES_MAX && memory_available_bytes().is_some_and(|available| growth > available) {
            return Err(BeginError::NoMemory);
        }
        file.allocate(total_bytes)
    }

    /// A view of at least `total_bytes`: the one before when it is large enough, a script asks for the same size
    /// again and again.
    fn map_view(&mut self, total_bytes: u64) -> Result<Arc<DataView>, BeginError> {
        let bytes = usize::try_from(total_bytes).map_err(|_| BeginError::TooLarge)?;
        if let Some(view) = self.view.as_ref().filter(|view| view.bytes() >= bytes) {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(DataView::map(self.file.fd.as_fd(), bytes)?);
        self.view = Some(Arc::clone(&view));
        Ok(view)
    }

    fn map_control(&mut self) -> Result<Arc<Control>, BeginError> {
        if let Some(control) = &self.control {
            return Ok(Arc::clone(control));
        }
        let control = Arc::new(Control::map(self.file.fd.as_fd())?);
        self.control = Some(Arc::clone(&control));
        Ok(control)
    }
}

/// Growth up to this many bytes is not worth a look at what the machine has left. 16 MiB: the look costs 1 % of it.
const UNCHECKED_BYTES_MAX: u64 = 16 << 20;

/// How often an allocation that a signal interrupted is begun again. A signal undoes it all (fallocate(2)); more than
/// a few in a row is a timer that will not let it end.
const ALLOCATE_TRIES_MAX: u32 = 8;

/// The memfd. Held by the segment and by every buffer and piece that came of it: whoever is last gives the memory back.
#[derive(Debug)]
pub(crate) struct MemFile {
    fd: OwnedFd,
    /// The most that was ever allocated and not given back, bytes.
    allocated_bytes: u64,
}

impl MemFile {
    fn seal(&self, seals: libc::c_int) -> io::Result<()> {
        // SAFETY: F_ADD_SEALS takes an integer and touches no memory of ours.
        let result = unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        if result == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    fn allocate(&mut self, total_bytes: u64) -> Result<(), BeginError> {
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

    /// Gives back all memory from `offset` on, also what the script has allocated itself. The length stays.
    fn punch_from(&mut self, offset: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // A failure keeps the memory until the descriptors are closed, which is all that could be done about it.
        let _ = self.fallocate(mode, offset, i64::MAX.unsigned_abs() - offset);
        self.allocated_bytes = self.allocated_bytes.min(offset);
    }

    fn fallocate(&self, mode: libc::c_int, offset: u64, bytes: u64) -> io::Result<()> {
        let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
        let offset = libc::off_t::try_from(offset).map_err(too_large)?;
        let bytes = libc::off_t::try_from(bytes).map_err(too_large)?;
        // SAFETY: works on the file; mapped memory keeps its addresses, and what is punched reads as zeros.
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
        // Not the first page: a script that still runs finds there that the ring is closed.
        if self.allocated_bytes > PAGE_BYTES {
            self.punch_from(PAGE_BYTES);
        }
    }
}

/// An empty memfd that can be sealed. The name is for /proc (memfd_create(2)).
pub(crate) fn create_memfd(name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Never a program to execute. Kernels before 6.3 do not know that flag and say EINVAL.
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
    // SAFETY: a descriptor that was just made, and that nobody else knows of.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn round_up(bytes: u64) -> Result<u64, BeginError> {
    bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(BeginError::TooLarge)
}

/// The largest file this process may make, bytes (RLIMIT_FSIZE).
pub(crate) fn file_bytes_max() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: writes one rlimit to where the pointer says. On failure the value stays: no limit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
    }
    limit.rlim_cur
}

/// What the kernel thinks can be allocated without swapping (`MemAvailable`, proc_meminfo(5)), bytes.
///
/// An allocation beyond it would not fail: the kernel would kill somebody to make room.
fn memory_available_bytes() -> Option<u64> {
    let report = fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}
