//! The allowance of a worker for the bytes that WATCH masks and searches, so that a watch does not delay requests that it does not show.
//!
//! Each byte that is masked or searched is charged. While the allowance is overdrawn, connections and bodies whose bytes are watched wait
//! (`Tracer::bytes_wait`); nothing is lost, and other requests of the worker go on.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Bytes that are scanned without a pause: a millisecond of work.
pub(crate) const BURST_BYTES: i64 = 128 << 10;

/// The time that a byte takes, nanoseconds. One that takes longer is charged as several: some bytes, of many short names, take ten times as long as others.
const NANOS_PER_BYTE: u128 = 8;

/// A byte is charged as so many at most, because a busy machine interrupts the work.
const CHARGED_MAX: u128 = 8;

/// Bytes per millisecond that the allowance grows by, up to `BURST_BYTES`. Time at work does not count, so this takes a third of the worker's time at most.
pub(crate) const BYTES_PER_MS: i64 = 64 << 10;

/// Bytes of one connection or exchange that need not wait, so that a small request does not wait for a large transfer.
pub(crate) const FREE_BYTES: usize = 16 << 10;

/// Bytes that must have become free before a pause ends, so that a transfer does not wake for each packet.
const STEP_BYTES: i64 = 64 << 10;

/// Nanoseconds in which a full allowance is certainly regained.
const REGAINED_NANOS_MAX: i64 = (BURST_BYTES * 1_000_000 / BYTES_PER_MS) * 1000;

/// The bytes that may be scanned now. Negative while it is overdrawn.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: Cell<i64>,
    /// When `left` was last brought up to date. `None` before the first charge.
    at: Cell<Option<Instant>>,
}

impl Allowance {
    pub(crate) fn new() -> Allowance {
        Allowance { left: Cell::new(BURST_BYTES), at: Cell::new(None) }
    }

    /// Scans bytes: does the work, and charges it. In the time that it takes nothing is regained, however slow the machine is.
    pub(crate) fn scan<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        self.regain(begun);
        let done = work();
        let ended = Instant::now();
        self.at.set(Some(ended));
        self.charge(charged(bytes, ended - begun), ended);
        done
    }

    fn charge(&self, bytes: usize, now: Instant) {
        self.regain(now);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.left.set(self.left.get().saturating_sub(bytes));
    }

    /// How long to wait before more bytes are scanned. `None` if there is room.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.regain(now);
        let missing = STEP_BYTES - self.left.get();
        (self.left.get() <= 0).then(|| {
            let nanos = missing.saturating_mul(1_000_000) / BYTES_PER_MS;
            Duration::from_nanos(nanos.unsigned_abs())
        })
    }

    fn regain(&self, now: Instant) {
        let before = self.at.replace(Some(now)).unwrap_or(now);
        let nanos = i64::try_from(now.saturating_duration_since(before).as_nanos()).unwrap_or(i64::MAX);
        let regained = nanos.min(REGAINED_NANOS_MAX) * BYTES_PER_MS / 1_000_000;
        if regained == 0 {
            // Less than a byte: it is counted with the next one.
            self.at.set(Some(before));
        }
        self.left.set(self.left.get().saturating_add(regained).min(BURST_BYTES));
    }
}

fn charged(bytes: usize, took: Duration) -> usize {
    let most = bytes as u128 * CHARGED_MAX;
    let by_time = (took.as_nanos() / NANOS_PER_BYTE).min(most);
    usize::try_from(by_time).unwrap_or(usize::MAX).max(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_so_many_bytes_of_each_millisecond_are_scanned() {
        let allowance = Allowance::new();
        let begin = Instant::now();
        let mut now = begin;
        let mut scanned = 0;
        while now < begin + Duration::from_millis(100) {
            match allowance.wait(now) {
                Some(wait) => now += wait,
                None => {
                    allowance.charge(16 << 10, now);
                    scanned += 16 << 10;
                }
            }
        }
        let most = BURST_BYTES + 100 * BYTES_PER_MS + STEP_BYTES + (16 << 10);
        assert!((100 * BYTES_PER_MS..=most).contains(&scanned), "{scanned}");
    }

    #[test]
    fn bytes_that_take_long_are_charged_as_several() {
        let micros = Duration::from_micros;
        assert_eq!(charged(1000, micros(0)), 1000);
        assert_eq!(charged(1000, micros(8)), 1000);
        assert_eq!(charged(1000, micros(16)), 2000);
        assert_eq!(charged(1000, micros(1_000_000)), 8000);
    }

    #[test]
    fn an_overdrawn_allowance_waits_in_proportion_to_what_was_scanned() {
        let allowance = Allowance::new();
        let now = Instant::now();
        assert_eq!(allowance.wait(now), None);
        allowance.charge(10 << 20, now);
        let waits = Duration::from_nanos(((10 << 20) - 128 * 1024 + 64 * 1024) * 1_000_000 / (64 << 10));
        assert_eq!(allowance.wait(now), Some(waits));
        assert_eq!(allowance.wait(now + waits), None);
        let later = now + Duration::from_secs(3600);
        assert_eq!(allowance.wait(later), None);
        allowance.charge(128 << 10, later);
        assert!(allowance.wait(later).is_some());
    }
}
