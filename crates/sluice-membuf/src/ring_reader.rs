//! The server's side of the ring: takes what the script has committed, chunk by chunk, and frees it once sent.
//!
//! No call here blocks, and only an invalid counter in the control page makes one fail.
//!
//! ```text
//!              take() -> chunk         prepare_sleep() -> true
//!            +-----------------+     +------------------------+
//!            v                 |     |                        v
//!         reading -------------+-----+                     sleeping     (doorbell, or any other wake-up)
//!            ^                                                |
//!            +------------------ take() ----------------------+
//!   any state: an invalid counter -> every take() is RingFault;  close() -> the script's writes fail
//! ```

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::cursor::{ReadCursor, RingFault, Span};
use crate::futex;
use crate::layout::CONTROL_BYTES;
use crate::ledger::Ledger;
use crate::mapping::Control;
use crate::shared_memory::SharedMemory;
use crate::sync::lock;

/// The server's side of a ring. Dropping it closes the ring; chunks in flight stay valid.
pub struct RingReader {
    memory: Arc<Memory>,
    cursor: ReadCursor,
    has_announced_sleep: bool,
    on_free: Arc<OnFree>,
}

impl RingReader {
    pub(crate) fn new(shared: Arc<SharedMemory>, capacity: u64) -> RingReader {
        RingReader {
            memory: Arc::new(Memory { ledger: Ledger::new(), shared }),
            cursor: ReadCursor::new(capacity),
            has_announced_sleep: false,
            on_free: Arc::default(),
        }
    }

    /// The next chunk that the script has committed, without a copy; `None` if there is nothing new.
    ///
    /// At most `bytes_max` bytes (0 counts as 1), and not past the end of the data area: the next call continues at its
    /// start. The script gets the room back when the last clone of this chunk, and of all chunks before it, is dropped.
    ///
    /// The script can change the bytes at any time. Pass them to the kernel or to a cipher; copy them before anything that depends on their values.
    ///
    /// # Errors
    /// A counter in the control page is impossible: the script's fault. Every later call returns the same error.
    pub fn take(&mut self, bytes_max: usize) -> Result<Option<Bytes>, RingFault> {
        if self.has_announced_sleep {
            self.memory.control().announce_awake();
            self.has_announced_sleep = false;
        }
        let taken = self
            .memory
            .ledger
            .take(self.memory.control(), &mut self.cursor, bytes_max as u64)?;
        Ok(taken.map(|taken| {
            let room = Room {
                memory: Arc::clone(&self.memory),
                span: taken.span,
                number: taken.number,
            };
            Bytes::from_owner(Chunk { room, _notify: Notify(Arc::clone(&self.on_free)) })
        }))
    }

    /// Asks the script for a doorbell. `true`: the ring is empty, and a NUL byte will arrive on the mailbox when it is not. `false`: call `take` now.
    ///
    /// Spurious doorbells are possible: take again, then ask again. `take` withdraws the request.
    pub fn prepare_sleep(&mut self) -> bool {
        self.has_announced_sleep = self.memory.control().announce_sleep(self.cursor.taken());
        self.has_announced_sleep
    }

    /// Makes every further write of the script fail, and wakes it if it waits, when the client is gone or the exchange has ended. Bytes committed
    /// before can still be taken.
    pub fn close(&mut self) {
        self.memory.close();
    }

    /// Whether all committed bytes have been taken and freed.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let taken = self.cursor.taken();
        self.memory.control().committed() == taken && self.memory.ledger.tail() == taken
    }

    /// Bytes freed since BUFFER-BEGIN: the longest prefix of the body whose chunks were all dropped.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.memory.ledger.tail()
    }

    /// Bytes taken and not yet freed.
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.cursor.taken() - self.memory.ledger.tail()
    }

    /// Bytes in the data area.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.cursor.capacity()
    }

    /// Sets the callback that runs after each chunk was freed, on the thread that dropped it; by then the chunk no longer keeps the segment in use. It
    /// replaces the previous one, also for chunks in flight.
    pub fn set_on_free(&mut self, call: Box<dyn Fn() + Send + Sync>) {
        *lock(&self.on_free.0) = Some(call.into());
    }
}

impl fmt::Debug for RingReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingReader")
            .field("cursor", &self.cursor)
            .field("sent_bytes", &self.sent_bytes())
            .finish_non_exhaustive()
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        self.memory.close();
    }
}

/// The mapped ring and its ledger. Holding the memory marks the segment as in use.
struct Memory {
    ledger: Ledger,
    shared: Arc<SharedMemory>,
}

impl Memory {
    fn control(&self) -> &Control {
        self.shared.control()
    }

    fn close(&self) {
        if self.control().close() {
            futex::wake(&self.control().writer_waits);
        }
    }
}

/// A chunk in flight. Fields drop in this order: the memory is released before `on_free` is called.
struct Chunk {
    room: Room,
    _notify: Notify,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        let narrow = |bytes: u64| usize::try_from(bytes).expect("a span is within the mapping");
        self.room.memory.shared.view().slice(
            CONTROL_BYTES + narrow(self.room.span.position),
            narrow(self.room.span.bytes),
        )
    }
}

/// The part of the data area that a chunk occupies.
struct Room {
    memory: Arc<Memory>,
    span: Span,
    number: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        let control = self.memory.control();
        if self.memory.ledger.free(control, self.number) {
            futex::wake(&control.writer_waits);
        }
    }
}

#[derive(Default)]
struct OnFree(Mutex<Option<Arc<dyn Fn() + Send + Sync>>>);

struct Notify(Arc<OnFree>);

impl Drop for Notify {
    fn drop(&mut self) {
        // Called without the lock, so that the callback may set another one.
        let call = lock(&self.0.0).clone();
        if let Some(call) = call {
            call();
        }
    }
}
