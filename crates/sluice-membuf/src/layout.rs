//! The layout of the shared memory: the sizes, and the ring's control page.
//!
//! Libraries in other languages follow this layout, which `docs/internals/memory-buffer.md` also shows.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of the control page at the start of a ring, the same whatever the machine's page size; the data area follows it.
pub const CONTROL_BYTES: usize = 4096;

/// Buffer sizes are rounded up to a multiple of this, bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Fewest bytes in a ring's data area. With one page, writer and reader would take turns instead of overlapping.
pub const RING_BYTES_MIN: u64 = 2 * PAGE_BYTES;

/// The first eight bytes of a ring, which identify the layout and its version.
pub const MAGIC: [u8; 8] = *b"SLUICER1";

/// Reserved words; left out for the model checker.
#[cfg(not(loom))]
type Reserved<const WORDS: usize> = [AtomicU64; WORDS];
#[cfg(loom)]
type Reserved<const WORDS: usize> = [AtomicU64; 0];

/// The first page of a ring, native-endian. Every field is atomic because two processes use it at the same time.
///
/// Fields are grouped by their writer, each group in cache lines of its own: at 0 (server, at BUFFER-BEGIN only), at 64 (script), at 128 (server).
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct ControlPage {
    /// [`MAGIC`]. Written by the server at BUFFER-BEGIN, last.
    pub(crate) magic: AtomicU64,
    /// Bytes in the data area. Written by the server at BUFFER-BEGIN, never read back by it.
    pub(crate) capacity: AtomicU64,
    reserved_begin: Reserved<6>,

    /// Bytes that the script has committed since BUFFER-BEGIN; never wraps.
    pub(crate) head: AtomicU64,
    /// The value of `tail` at which the waiting script wants to be woken.
    pub(crate) wake_at: AtomicU64,
    /// Futex word: 1 while the script waits for room. Script stores 1, server swaps 0.
    pub(crate) writer_waits: AtomicU32,
    reserved_word: AtomicU32,
    reserved_script: Reserved<5>,

    /// Bytes that the server has sent and freed since BUFFER-BEGIN; never wraps.
    pub(crate) tail: AtomicU64,
    /// 1 while the server waits for the doorbell. Server stores 1, script swaps 0.
    pub(crate) reader_sleeps: AtomicU32,
    /// 1: the client is gone or the exchange has ended; every further write fails.
    pub(crate) closed: AtomicU32,
    reserved_end: Reserved<494>,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(ControlPage, magic) == 0);
    assert!(offset_of!(ControlPage, capacity) == 8);
    assert!(offset_of!(ControlPage, head) == 64);
    assert!(offset_of!(ControlPage, wake_at) == 72);
    assert!(offset_of!(ControlPage, writer_waits) == 80);
    assert!(offset_of!(ControlPage, tail) == 128);
    assert!(offset_of!(ControlPage, reader_sleeps) == 136);
    assert!(offset_of!(ControlPage, closed) == 140);
    assert!(size_of::<ControlPage>() == CONTROL_BYTES);
};

impl ControlPage {
    /// Initialises the page for a ring of `capacity` bytes: everything zero, then the capacity, then the magic.
    ///
    /// The answer to BUFFER-BEGIN orders these stores before the script's loads. The magic comes last for a script that reads the page earlier.
    pub(crate) fn reset(&self, capacity: u64) {
        self.magic.store(0, Ordering::Relaxed);
        for counter in [&self.head, &self.wake_at, &self.tail] {
            counter.store(0, Ordering::Relaxed);
        }
        for word in [
            &self.writer_waits,
            &self.reserved_word,
            &self.reader_sleeps,
            &self.closed,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        let reserved = self
            .reserved_begin
            .iter()
            .chain(&self.reserved_script)
            .chain(&self.reserved_end);
        reserved.for_each(|word| word.store(0, Ordering::Relaxed));
        self.capacity.store(capacity, Ordering::Relaxed);
        // Release: pairs with the Acquire load of the magic in RingWriter::open.
        self.magic.store(u64::from_ne_bytes(MAGIC), Ordering::Release);
    }
}
