//! A bound on the bytes that all threads hold together: reserved before they are used, returned when they are released.
//!
//! The memory buffers of the server share one budget (mem_file.rs), the stored request bodies another one (sluice-script).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may be held at once, and those that are.
#[derive(Debug)]
pub struct Budget {
    bytes_max: AtomicU64,
    used_bytes: AtomicU64,
}

// Relaxed in all methods: the counters publish no other data, and each change is one atomic operation.
impl Budget {
    /// A budget of `bytes_max` bytes, all of them free.
    #[must_use]
    pub fn new(bytes_max: u64) -> Arc<Budget> {
        Arc::new(Budget {
            bytes_max: AtomicU64::new(bytes_max),
            used_bytes: AtomicU64::new(0),
        })
    }

    /// Sets another bound, in bytes. Reservations that exceed it remain.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// The bound, in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that are reserved now.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Whether more than three quarters are reserved, so that nothing should be kept that is not in use.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.used_bytes() > self.bytes_max() / 4 * 3
    }

    fn reserve(&self, bytes: u64, held_bytes: u64) -> Result<(), OverBudget> {
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max());
        let added = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.map(drop).map_err(|used_bytes| OverBudget {
            bytes,
            held_bytes,
            used_bytes,
            bytes_max: self.bytes_max(),
        })
    }
}

/// A reservation that would exceed the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverBudget {
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Bytes that the reservation had already.
    pub held_bytes: u64,
    /// Bytes that were reserved at that time.
    pub used_bytes: u64,
    /// The bound, in bytes.
    pub bytes_max: u64,
}

impl OverBudget {
    /// Whether the whole budget would not be enough, so that waiting for others does not help.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.held_bytes.saturating_add(self.bytes) > self.bytes_max
    }

    pub(crate) fn text(&self) -> &'static str {
        match self.is_too_large() {
            true => "a memory buffer of that size is beyond the limit of the whole server (limits.memory_buffers)",
            false => "the memory buffers of the server are all in use, try again later",
        }
    }
}

/// Bytes of a budget. They are returned when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// No bytes yet.
    #[must_use]
    pub fn empty(budget: &Arc<Budget>) -> Reservation {
        Reservation { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// The budget has not so many left; nothing has changed.
    pub fn grow(&mut self, bytes: u64) -> Result<(), OverBudget> {
        self.budget.reserve(bytes, self.bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Returns all bytes but `bytes`; does nothing if there are no more than that.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(surplus) = self.bytes.checked_sub(bytes) {
            self.bytes = bytes;
            self.budget.used_bytes.fetch_sub(surplus, Ordering::Relaxed);
        }
    }

    /// The budget that the bytes belong to.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_never_exceed_the_budget_and_return_their_bytes() {
        let budget = Budget::new(10);
        let (mut first, mut second) = (Reservation::empty(&budget), Reservation::empty(&budget));
        first.grow(6).unwrap();
        let over = OverBudget {
            bytes: 5,
            held_bytes: 0,
            used_bytes: 6,
            bytes_max: 10,
        };
        assert_eq!(second.grow(5), Err(over));
        assert!(!over.is_too_large());
        assert!(first.grow(5).unwrap_err().is_too_large());
        assert!(second.grow(u64::MAX).is_err(), "no overflow");
        second.grow(4).unwrap();
        assert!(budget.is_tight());
        first.shrink_to(7);
        assert_eq!(budget.used_bytes(), 10, "more than it has");
        first.shrink_to(1);
        assert!(!budget.is_tight());
        drop(second);
        assert_eq!(budget.used_bytes(), 1);
        budget.set_bytes_max(0);
        assert!(first.grow(1).is_err());
        drop(first);
        assert_eq!(budget.used_bytes(), 0);
    }
}
