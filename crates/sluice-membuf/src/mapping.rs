//! Mappings of a memfd, each with its permitted use: read the data, fill it, use the control page.
//!
//! Dropping a mapping unmaps it.
//!
//! # Soundness of the views
//!
//! A page of a mapping can be accessed without SIGBUS because the memfd is at least as long as the mapping and sealed
//! against shrinking (segment.rs does both before it maps; ring_writer.rs checks the length). If the script punches a
//! hole, the kernel supplies a zero page on the next access, or bus_error.rs does if the kernel has no memory.
//!
//! The bytes behind a view of the data can change while it is held, because the other process can write at any time. Rust has no type for that, and
//! `bytes::Bytes` needs a `&[u8]`. So these rules apply: no code in this crate reads through the slice, and its users pass it to the kernel or copy it
//! (a TLS record is filled by a copy, then encrypted in place). No bound, branch or invariant may depend on the values, nor on two reads being equal.
//! If a byte changes during a read, the old or the new value is sent, in the response of that script.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use crate::bus_error::Registration;
use crate::layout::{CONTROL_BYTES, ControlPage};

/// The server's view of the data: read-only in the page tables, not only in the type.
#[derive(Debug)]
pub(crate) struct DataView(Mapping);

impl DataView {
    pub(crate) fn map(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<DataView> {
        DataView::map_at(memory, 0, bytes)
    }

    /// A view of the bytes from `offset` on, which is a multiple of the page size.
    pub(crate) fn map_at(memory: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<DataView> {
        Mapping::map_at(memory, offset, bytes, libc::PROT_READ, libc::MAP_SHARED).map(DataView)
    }

    /// A view of a memfd that is sealed against writing. Private, because Linux before 6.7 refuses a shared mapping.
    pub(crate) fn map_private(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<DataView> {
        Mapping::map(memory, bytes, libc::PROT_READ, libc::MAP_PRIVATE).map(DataView)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The part at `offset`. Panics if it is outside of the mapping, which the cursors' arithmetic excludes.
    pub(crate) fn slice(&self, offset: usize, bytes: usize) -> &[u8] {
        let start = self.0.start_of(offset, bytes);
        // SAFETY: `start_of` checked the range against the mapping, which lives as long as `self`; every bit pattern is
        // a valid u8. The values may change meanwhile: see the head of this file.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) }
    }
}

/// A writable view of the data: the script's, or the server's view of the part that it clears between exchanges.
#[derive(Debug)]
pub(crate) struct WritableData(Mapping);

impl WritableData {
    pub(crate) fn map(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<WritableData> {
        Mapping::map(memory, bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED).map(WritableData)
    }

    /// The part at `offset`, writable. Panics if it is outside of the mapping, which the cursors' arithmetic excludes.
    pub(crate) fn slice_mut(&mut self, offset: usize, bytes: usize) -> &mut [u8] {
        let start = self.0.start_of(offset, bytes);
        // SAFETY: `start_of` checked the range; `&mut self` makes this the only slice of this mapping. The caller
        // passes room that the server has freed, which the server does not read before the next commit.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Writes zeros to the part at `offset`. Panics if it is outside of the mapping.
    pub(crate) fn clear(&mut self, offset: usize, bytes: usize) {
        let start = self.0.start_of(offset, bytes);
        // SAFETY: `start_of` checked the range; `&mut self` makes this the only access through this mapping. No
        // reference is made, because the script may write there at the same time: its byte or the zero remains.
        unsafe { start.write_bytes(0, bytes) }
    }
}

#[derive(Debug)]
pub(crate) struct Control(Mapping);

impl Control {
    pub(crate) fn map(memory: BorrowedFd<'_>) -> io::Result<Control> {
        Mapping::map(
            memory,
            CONTROL_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
        )
        .map(Control)
    }
}

impl Deref for Control {
    type Target = ControlPage;

    fn deref(&self) -> &ControlPage {
        let start = self.0.start_of(0, CONTROL_BYTES);
        // SAFETY: mmap returns page-aligned addresses, more than a ControlPage needs; the length was checked; every field is an atomic integer, for
        // which every bit pattern is valid and which another process may change at any time.
        unsafe { start.cast::<ControlPage>().as_ref() }
    }
}

#[derive(Debug)]
struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
    /// Only `None` while it is dropped.
    registration: Option<Registration>,
}

// SAFETY: the address is valid on every thread; the views above define the access.
unsafe impl Send for Mapping {}
// SAFETY: as above; through a shared reference the views give atomics, or slices that this process does not write to.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn map(memory: BorrowedFd<'_>, bytes: usize, protection: libc::c_int, sharing: libc::c_int) -> io::Result<Mapping> {
        Mapping::map_at(memory, 0, bytes, protection, sharing)
    }

    fn map_at(
        memory: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
        protection: libc::c_int,
        sharing: libc::c_int,
    ) -> io::Result<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, sharing, memory.as_raw_fd(), offset) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).expect("mmap returns the zero address only for MAP_FIXED");
        let mut mapping = Mapping { address, bytes, registration: None };
        mapping.registration = Some(Registration::new(address.as_ptr() as usize, bytes, protection)?);
        Ok(mapping)
    }

    fn start_of(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "a view must be within its mapping"
        );
        // SAFETY: `offset` is within the mapping, checked above, and a mapping is smaller than isize::MAX.
        unsafe { self.address.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.registration = None;
        // SAFETY: unmaps exactly what `map` mapped, once; every view borrows from `self`, so none is left.
        unsafe {
            libc::munmap(self.address.as_ptr().cast(), self.bytes);
        }
    }
}
