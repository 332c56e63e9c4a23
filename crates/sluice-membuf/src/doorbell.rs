//! The handshakes through the control page: publishing counters, and deciding when the other side must be woken.
//!
//! No system calls are made here: each step that may have to wake the other side returns `true` if it must, and the caller makes the call (a futex wake
//! for the script, a byte on the mailbox for the server). So loom can explore the protocol.
//!
//! Both directions use the same handshake (Dekker's): one side publishes a counter and then checks whether the other
//! sleeps; the other announces that it sleeps and then checks the counter again. A sequentially consistent fence
//! separates the two steps on either side, so at least one of them sees the other's write, and no wake-up is lost.
//!
//! ```text
//!   script                                   server
//!   commit:        head = h                  announce_sleep: reader_sleeps = 1
//!                  -- fence --                               -- fence --
//!                  reader_sleeps? -> ring                    head moved? -> do not sleep
//!
//!   announce_wait: wake_at = t, waits = 1    publish_tail:   tail = t       (close: closed = 1)
//!                  -- fence --                               -- fence --
//!                  tail or closed? -> go on                  waits and tail >= wake_at? -> wake
//! ```
//!
//! Both sides write the two words that announce a sleep only by swaps. Plain stores would also be correct (a swap reads the value directly before its
//! own in the modification order), but loom does not implement that rule, and one swap per sleep costs nothing.
//!
//! A peer may use sequentially consistent loads and stores instead of the fences: all of them are in one total order (C++20 `[atomics.order]`).

use crate::layout::ControlPage;
use crate::sync::{Ordering, fence};

/// The server's steps.
impl ControlPage {
    /// The script's counter of committed bytes, not validated.
    pub(crate) fn committed(&self) -> u64 {
        // Acquire: pairs with the Release store in `commit`; the data up to head was written before that.
        self.head.load(Ordering::Acquire)
    }

    /// Announces that the server is about to wait for the doorbell. `false`: head is no longer `seen`, do not wait.
    ///
    /// After `false` a doorbell may still arrive, because the script may have seen the announcement before it was withdrawn.
    pub(crate) fn announce_sleep(&self, seen: u64) -> bool {
        // AcqRel: pairs with the other swaps of this word (see the head of this file).
        self.reader_sleeps.swap(1, Ordering::AcqRel);
        // Pairs with the fence in `commit`: either the load below sees the new head, or `commit` sees the announcement.
        fence(Ordering::SeqCst);
        if self.head.load(Ordering::Acquire) == seen {
            return true;
        }
        self.announce_awake();
        false
    }

    /// Withdraws the announcement: the server reads the ring again without a doorbell.
    pub(crate) fn announce_awake(&self) {
        // AcqRel: as in `announce_sleep`. If the script sees it late, it rings the doorbell once too often.
        self.reader_sleeps.swap(0, Ordering::AcqRel);
    }

    /// Frees everything up to `tail`. `true`: the script waits for that and must be woken.
    #[must_use]
    pub(crate) fn publish_tail(&self, tail: u64) -> bool {
        // Release: pairs with the Acquire load in `freed`; the server's reads happen before the script overwrites the data.
        self.tail.store(tail, Ordering::Release);
        // Pairs with the fence in `announce_wait`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the Release store of writer_waits, so that wake_at is that of this wait or a later one.
        self.writer_waits.load(Ordering::Acquire) != 0
            && tail >= self.wake_at.load(Ordering::Relaxed)
            && self.take_waiter()
    }

    /// Makes every further write of the script fail. `true`: the script waits for room and must be woken.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        // Release: pairs with the Acquire load in `is_closed`.
        self.closed.store(1, Ordering::Release);
        // Pairs with the fence in `announce_wait`; needed for a script that sets writer_waits by a store, not a swap.
        fence(Ordering::SeqCst);
        self.take_waiter()
    }

    fn take_waiter(&self) -> bool {
        // AcqRel: pairs with the other swaps of this word. Of several threads that free at the same time, one makes the call.
        self.writer_waits.swap(0, Ordering::AcqRel) != 0
    }
}

/// The script's steps.
impl ControlPage {
    /// The server's counter of freed bytes.
    pub(crate) fn freed(&self) -> u64 {
        // Acquire: pairs with the Release store in `publish_tail`.
        self.tail.load(Ordering::Acquire)
    }

    /// Whether the server has ended the exchange.
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release store in `close`.
        self.closed.load(Ordering::Acquire) != 0
    }

    /// Commits everything up to `head`. `true`: the server sleeps, so the doorbell must be rung.
    #[must_use]
    pub(crate) fn commit(&self, head: u64) -> bool {
        // Release: pairs with the Acquire loads of head on the server's side.
        self.head.store(head, Ordering::Release);
        // Pairs with the fence in `announce_sleep`.
        fence(Ordering::SeqCst);
        // The load comes first because a swap would take the cache line from the server on every commit. AcqRel: pairs with the other swaps of this word.
        self.reader_sleeps.load(Ordering::Relaxed) != 0 && self.reader_sleeps.swap(0, Ordering::AcqRel) != 0
    }

    /// Announces that the script is about to wait until tail reaches `wake_at`. `false`: it has, or the ring is closed; do not wait.
    pub(crate) fn announce_wait(&self, wake_at: u64) -> bool {
        self.wake_at.store(wake_at, Ordering::Relaxed);
        // AcqRel: pairs with the Acquire load of writer_waits in `publish_tail`, and with the other swaps of this word.
        self.writer_waits.swap(1, Ordering::AcqRel);
        // Pairs with the fences in `publish_tail` and `close`.
        fence(Ordering::SeqCst);
        if self.freed() < wake_at && !self.is_closed() {
            return true;
        }
        self.withdraw_wait();
        false
    }

    /// Withdraws the announcement, after the wait or its time-out.
    pub(crate) fn withdraw_wait(&self) {
        // AcqRel: as in `announce_wait`. If the server sees it late, it makes one futex call too many.
        self.writer_waits.swap(0, Ordering::AcqRel);
    }
}
