//! Mappings of a memory buffer, and what may be done through each: read the data, fill it, use the control page.
//!
//! Not here: how the memory comes to be (segment.rs). A mapping is unmapped when it is dropped.
//!
//! # What the views rely on
//!
//! A page of a mapping can be touched without a fault signal because the memfd is at least as long as the mapping and
//! is sealed against shrinking (segment.rs does both before it maps; ring_writer.rs checks the length). A hole that the
//! script punches is filled with a zero page when it is touched.
//!
//! The bytes behind a view of the data can change while it is held: the other process can write at any time. No Rust
//! type says that of a `&[u8]`, which `bytes::Bytes` needs. What is relied on: nothing in this crate reads through the
//! slice, and whoever gets it hands it to the kernel or copies it (a TLS record is filled by a copy, then encrypted in
//! place). No bound, no branch and no type's invariant may depend on the values, nor on two reads agreeing; a byte that
//! changes under the reader comes out as the one value or the other, in the body of that script's own response.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use crate::layout::{CONTROL_BYTES, ControlPage};

/// The server's view of data: read-only by the page tables, not only by the type.
#[derive(Debug)]
pub(crate) struct DataView(Mapping);

impl DataView {
    pub(crate) fn map(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<DataView> {
        Mapping::map(memory, bytes, libc::PROT_READ, libc::MAP_SHARED).map(DataView)
    }

    /// The same, of a memfd that is sealed against writing: before Linux 6.7 it cannot be mapped shared.
    pub(crate) fn map_private(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<DataView> {
        Mapping::map(memory, bytes, libc::PROT_READ, libc::MAP_PRIVATE).map(DataView)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The part at `offset`. Panics outside of the mapping, which the cursors' arithmetic excludes.
    pub(crate) fn slice(&self, offset: usize, bytes: usize) -> &[u8] {
        let start = self.0.start_of(offset, bytes);
        // SAFETY: `start_of` checked the range against the mapping, which lives as long as `self`; any byte is a valid
        // u8. That the values may change meanwhile: see the head of this file.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) }
    }
}

/// The script's view of the data, to be filled.
#[derive(Debug)]
pub(crate) struct DataRoom(Mapping);

impl DataRoom {
    pub(crate) fn map(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<DataRoom> {
        Mapping::map(memory, bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED).map(DataRoom)
    }

    /// The part at `offset`, to be filled. Panics outside of the mapping, which the cursors' arithmetic excludes.
    pub(crate) fn slice_mut(&mut self, offset: usize, bytes: usize) -> &mut [u8] {
        let start = self.0.start_of(offset, bytes);
        // SAFETY: `start_of` checked the range; `&mut self` makes this the only slice of this mapping. The caller
        // asks for room that the server has freed: it does not look there before the next commit.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}

/// The control page, readable and writable.
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
        // SAFETY: mmap gives page alignment, more than a ControlPage needs; the length was checked; every field is an
        // atomic integer, for which any bits are valid and which another process may change at any time.
        unsafe { start.cast::<ControlPage>().as_ref() }
    }
}

/// Pages of a memfd in this process, from its start.
#[derive(Debug)]
struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address of shared memory means the same on every thread; what is done through it is up to the views above.
unsafe impl Send for Mapping {}
// SAFETY: as above; through a shared reference the views give slices that nobody here writes to, or atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn map(memory: BorrowedFd<'_>, bytes: usize, protection: libc::c_int, sharing: libc::c_int) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, sharing, memory.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).expect("mmap gives the zero address only for MAP_FIXED");
        Ok(Mapping { address, bytes })
    }

    fn start_of(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "a view lies within its mapping"
        );
        // SAFETY: `offset` is within the mapping, checked above, and a mapping is smaller than isize::MAX.
        unsafe { self.address.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, once; every view borrows from `self`, so none is left.
        unsafe {
            libc::munmap(self.address.as_ptr().cast(), self.bytes);
        }
    }
}
