//! A histogram of latencies: counts by duration, exact to a sixty-fourth, in a fixed amount of memory.

use std::time::Duration;

/// Values below this number of nanoseconds have a bucket each; every power of two above has as many.
const STEPS: u64 = 64;

/// Powers of two above `STEPS`: up to 2^46 ns, 19 hours, far more than the longest time-out.
const POWERS: u64 = 40;

#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    total_ns: u128,
    shortest_ns: u64,
    longest_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; usize::try_from(STEPS * (POWERS + 1)).expect("some thousands")],
            count: 0,
            total_ns: 0,
            shortest_ns: u64::MAX,
            longest_ns: 0,
        }
    }
}

impl Histogram {
    pub(super) fn record(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.total_ns += u128::from(ns);
        self.shortest_ns = self.shortest_ns.min(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    pub(super) fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.shortest_ns = self.shortest_ns.min(other.shortest_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The shortest duration; zero for an empty histogram.
    pub(super) fn shortest(&self) -> Duration {
        Duration::from_nanos(if self.count == 0 { 0 } else { self.shortest_ns })
    }

    /// The longest duration; zero for an empty histogram.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns)
    }

    /// The mean; zero for an empty histogram.
    pub(super) fn mean(&self) -> Duration {
        let mean = self.total_ns.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The duration that this many of a thousand do not exceed, to a sixty-fourth; zero for an empty histogram.
    pub(super) fn per_mille(&self, share: u64) -> Duration {
        let wanted = (self.count * share).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper_bound(index as u64).clamp(self.shortest_ns, self.longest_ns));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a number of nanoseconds.
fn bucket(ns: u64) -> usize {
    let power = u64::from(ns.max(1).ilog2()).saturating_sub(u64::from(STEPS.ilog2()));
    let index = match ns < STEPS {
        true => ns,
        false => (power + 1) * STEPS + ((ns >> power) - STEPS),
    };
    usize::try_from(index.min(STEPS * (POWERS + 1) - 1)).expect("some thousands")
}

/// The largest number of nanoseconds in a bucket.
fn upper_bound(index: u64) -> u64 {
    match (index / STEPS, index % STEPS) {
        (0, ns) => ns,
        (power, step) => ((STEPS + step + 1) << (power - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_those_of_the_durations() {
        let mut histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let close = |share, micros: u64| {
            let found = histogram.per_mille(share).as_nanos();
            let wanted = u128::from(micros) * 1000;
            assert!(found >= wanted && found <= wanted + wanted / 64 + 1, "{share}: {found}");
        };
        close(500, 500);
        close(900, 900);
        close(990, 990);
        assert_eq!(histogram.per_mille(1000), Duration::from_millis(1));
        assert_eq!(histogram.shortest(), Duration::from_micros(1));
        assert_eq!(histogram.mean(), Duration::from_nanos(500_500));
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!((twice.count(), twice.mean()), (2000, histogram.mean()));
        assert_eq!(Histogram::default().per_mille(500), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_bucket_ends_at_most_a_sixty_fourth_above_its_values(ns in 0..1_u64 << 45) {
            let bound = upper_bound(bucket(ns) as u64);
            prop_assert!(bound >= ns && bound - ns <= ns / STEPS, "{ns}: {bound}");
        }
    }
}
