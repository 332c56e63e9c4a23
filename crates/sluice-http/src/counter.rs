//! Counters that one thread changes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count of one worker. Only its thread may change it: by a load and a store, without the lock of an atomic addition.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    // Relaxed: each counter stands for itself, and a reader may see it a moment late.
    pub fn add(&self, count: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// The count now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_adds() {
        let counter = Counter::default();
        counter.add(2);
        counter.add(3);
        assert_eq!(counter.value(), 5);
    }
}
