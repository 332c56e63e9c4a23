//! What lies where in the shared memory: the sizes, and the ring's control page.
//!
//! Not here: who may write which field when (doorbell.rs). A library in another language follows this table; the same
//! one is drawn in `docs/internals/memory-buffer.md`.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of the control page at the start of a ring; the data area follows it. The same on every machine, whatever
/// its page size.
pub const CONTROL_BYTES: usize = 4096;

/// Buffers are rounded up to a multiple of this many bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Fewest bytes in a ring's data area: with one page, writer and reader would take turns instead of overlapping.
pub const RING_BYTES_MIN: u64 = 2 * PAGE_BYTES;

/// The first eight bytes of a ring: its layout and version.
pub const MAGIC: [u8; 8] = *b"SLUICER1";

/// Words that mean nothing yet; the model checker does without them.
#[cfg(not(loom))]
type Reserved<const WORDS: usize> = [AtomicU64; WORDS];
#[cfg(loom)]
type Reserved<const WORDS: usize> = [AtomicU64; 0];

/// The first page of a ring, native-endian, every field atomic because two processes use it at once.
///
/// Fields are grouped by who writes them, a group to a pair of cache lines: one at 0 (server, at BEGIN only), one at
/// 64 (script), one at 128 (server).
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct ControlPage {
    /// [`MAGIC`]. Written by the server at BEGIN, last.
    pub(crate) magic: AtomicU64,
    /// Bytes in the data area. Written by the server at BEGIN, never read back by it.
    pub(crate) capacity: AtomicU64,
    reserved_begin: Reserved<6>,

    /// Bytes that the script has committed since BEGIN, free-running.
    pub(crate) head: AtomicU64,
    /// The value of `tail` at which the waiting script wants to be woken.
    pub(crate) wake_at: AtomicU64,
    /// Futex word: 1 while the script waits for room. Script stores 1, server swaps 0.
    pub(crate) writer_waits: AtomicU32,
    reserved_word: AtomicU32,
    reserved_script: Reserved<5>,

    /// Bytes that the server has freed (sent) since BEGIN, free-running.
    pub(crate) tail: AtomicU64,
    /// 1 while the server waits for the doorbell. Server stores 1, script swaps 0.
    pub(crate) reader_sleeps: AtomicU32,
    /// 1: the client is gone or the exchange was ended; every further write fails.
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
    /// Makes the page that of a fresh ring of `capacity` bytes: everything zero, then capacity, then the magic.
    ///
    /// The script learns of it by the answer to BUFFER-BEGIN, so nothing here needs an order but the magic, which comes
    /// last for a script that looks too early.
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
