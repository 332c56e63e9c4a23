//! Who tells whom what through the control page, and when the other side has to be woken. No system call is made here.
//!
//! Each step that may have to wake the other side answers `true` when it has to; the caller then makes the call (a
//! futex wake for the script, a byte on the mailbox for the server). That keeps the protocol pure, so that loom can
//! explore it.
//!
//! Both directions are the same handshake (Dekker's): one side publishes a counter and then looks whether the other
//! sleeps; the other says that it sleeps and then looks at the counter again. A sequentially consistent fence stands
//! between the two steps on either side, so at least one of them sees the other's write, and no wake-up is lost.
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
//! The two words that say who sleeps are written by both sides, and here only by swaps. Plain stores would do as well
//! (a swap reads the value directly before its own in the modification order), but loom does not know that rule, and
//! a swap a sleep costs nothing.
//!
//! A peer that uses sequentially consistent loads and stores in place of the fences takes part on equal terms: such
//! operations and the fences stand in one total order (C++20 `[atomics.order]`).

use crate::layout::ControlPage;
use crate::sync::{Ordering, fence};

/// The server's steps.
impl ControlPage {
    /// The script's counter of committed bytes, as it claims it.
    pub(crate) fn committed(&self) -> u64 {
        // Acquire: pairs with the Release store in `commit`; the data up to head was written before it.
        self.head.load(Ordering::Acquire)
    }

    /// Says that the server is about to wait for the doorbell. `false`: head is no longer `seen`, do not wait.
    ///
    /// After `false` a doorbell may still come: the script can have seen the announcement before it was taken back.
    pub(crate) fn announce_sleep(&self, seen: u64) -> bool {
        // AcqRel: pairs with the other swaps of this word; see the head of this file.
        self.reader_sleeps.swap(1, Ordering::AcqRel);
        // Pairs with the fence in `commit`: either this load sees the new head or that one sees the announcement.
        fence(Ordering::SeqCst);
        if self.head.load(Ordering::Acquire) == seen {
            return true;
        }
        self.announce_awake();
        false
    }

    /// Takes the announcement back: the server looks at the ring by itself again, a doorbell would be a wasted one.
    pub(crate) fn announce_awake(&self) {
        // AcqRel: as in `announce_sleep`. When the script sees it does not matter; the worst is one doorbell too many.
        self.reader_sleeps.swap(0, Ordering::AcqRel);
    }

    /// Frees everything up to `tail`. `true`: the script waits for that and has to be woken.
    #[must_use]
    pub(crate) fn publish_tail(&self, tail: u64) -> bool {
        // Release: pairs with the Acquire load in `freed`; what was read from there was read before the script
        // overwrites it.
        self.tail.store(tail, Ordering::Release);
        // Pairs with the fence in `announce_wait`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the Release store of writer_waits, so that wake_at is that wait's or a later one's.
        self.writer_waits.load(Ordering::Acquire) != 0
            && tail >= self.wake_at.load(Ordering::Relaxed)
            && self.take_waiter()
    }

    /// Makes every further write of the script fail. `true`: the script waits for room and has to be woken.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        // Release: pairs with the Acquire load in `is_closed`.
        self.closed.store(1, Ordering::Release);
        // Pairs with the fence in `announce_wait`. Two swaps of writer_waits would do without; a script that stores
        // would not.
        fence(Ordering::SeqCst);
        self.take_waiter()
    }

    fn take_waiter(&self) -> bool {
        // AcqRel: pairs with the other swaps of this word. Of several threads that free at once, one makes the call.
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

    /// Hands over everything up to `head`. `true`: the server sleeps and its doorbell has to be rung.
    #[must_use]
    pub(crate) fn commit(&self, head: u64) -> bool {
        // Release: pairs with the Acquire loads of head on the server's side.
        self.head.store(head, Ordering::Release);
        // Pairs with the fence in `announce_sleep`.
        fence(Ordering::SeqCst);
        // The load first: a swap would take the cache line from the server on every commit.
        // AcqRel: pairs with the other swaps of this word.
        self.reader_sleeps.load(Ordering::Relaxed) != 0 && self.reader_sleeps.swap(0, Ordering::AcqRel) != 0
    }

    /// Says that the script is about to wait until tail reaches `wake_at`. `false`: it has, or the ring is closed; do
    /// not wait.
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

    /// Takes the announcement back: woken, or tired of waiting.
    pub(crate) fn withdraw_wait(&self) {
        // AcqRel: as in `announce_wait`. When the server sees it does not matter; the worst is one futex wake too many.
        self.writer_waits.swap(0, Ordering::AcqRel);
    }
}
