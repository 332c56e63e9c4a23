//! Histograms of times with logarithmic buckets, each at most 1/16 wider than the one before, so that a percentile is exact to 6.25 %.
//!
//! ```text
//! microseconds   0 1 2 … 15 │ 16 17 … 31 │ 32 34 … 62 │ 64 68 … 124 │ …
//! bucket         0 1 2 … 15 │ 16 17 … 31 │ 32 33 … 47 │ 48 49 … 63  │ …
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets in each doubling of the time: two to the power of this.
const STEP_BITS: u32 = 4;
const STEPS: usize = 1 << STEP_BITS;

/// The last doubling: times from 2^32 microseconds (71 minutes) on are counted in its last bucket.
const DOUBLINGS: usize = 32 - STEP_BITS as usize;

pub const BUCKETS: usize = STEPS + DOUBLINGS * STEPS;

const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// A time in microseconds; the greatest number if it is longer.
#[must_use]
pub fn micros(time: Duration) -> u64 {
    // Without the division of 128 bits of `as_micros`.
    let whole = time.as_secs().saturating_mul(1_000_000);
    whole.saturating_add(u64::from(time.subsec_micros()))
}

/// The bucket of a time in microseconds.
#[must_use]
pub fn bucket_of(micros: u64) -> usize {
    if micros < STEPS as u64 {
        // Less than 16.
        return usize::try_from(micros).unwrap_or(0);
    }
    let shift = micros.ilog2() - STEP_BITS;
    let step = usize::try_from(micros >> shift).unwrap_or(0) & (STEPS - 1);
    (STEPS + shift as usize * STEPS + step).min(BUCKETS - 1)
}

/// The least time of a bucket, in microseconds.
fn least_micros(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (shift, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step) as u64) << shift
}

/// How long something took, in many cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub count: u64,
    pub sum_seconds: f64,
    /// The percentiles: half of the cases took no longer than the 50th percentile.
    pub percentiles: Vec<Percentile>,
    /// The buckets that are not empty.
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The percentage of all cases …
    pub percent: f64,
    /// … that took no longer than this; exact to 6.25 %.
    pub seconds: f64,
}

/// The cases of some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub bucket: usize,
    /// The upper bound: the cases took less than this.
    pub below_seconds: f64,
    pub count: u64,
}

impl Times {
    /// Summarizes the counts of all buckets; `sum_micros` is the sum of all times in microseconds.
    pub fn new(counts: impl IntoIterator<Item = u64>, sum_micros: u64) -> Times {
        let filled = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        let buckets: Vec<Bucket> = filled
            .map(|(bucket, count)| Bucket {
                bucket,
                below_seconds: seconds(least_micros(bucket + 1)),
                count,
            })
            .collect();
        let mut times = Times {
            count: buckets.iter().map(|bucket| bucket.count).sum(),
            sum_seconds: seconds(sum_micros),
            percentiles: Vec::new(),
            buckets,
        };
        if times.count > 0 {
            times.percentiles = PERCENTILES
                .map(|percent| Percentile { percent, seconds: times.percentile(percent) })
                .into();
        }
        times
    }

    /// The time that this part of all cases, in per cent, does not exceed. 0 without a case.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        // Exact below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let rank = self.count as f64 * percent / 100.0;
        let mut below = 0;
        for bucket in &self.buckets {
            below += bucket.count;
            #[allow(clippy::cast_precision_loss)]
            if below as f64 >= rank {
                return bucket.below_seconds;
            }
        }
        self.buckets.last().map_or(0.0, |bucket| bucket.below_seconds)
    }

    #[must_use]
    pub fn average(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let count = self.count.max(1) as f64;
        self.sum_seconds / count
    }

    #[must_use]
    pub fn since(&self, earlier: &Times) -> Times {
        let mut counts = [0; BUCKETS];
        for bucket in &self.buckets {
            counts[bucket.bucket.min(BUCKETS - 1)] += bucket.count;
        }
        for bucket in &earlier.buckets {
            let count = &mut counts[bucket.bucket.min(BUCKETS - 1)];
            *count = count.saturating_sub(bucket.count);
        }
        let mut times = Times::new(counts, 0);
        times.sum_seconds = (self.sum_seconds - earlier.sum_seconds).max(0.0);
        times
    }

    /// The cases in classes of times that double, as bars, from the least time to the greatest. Each with the time, in seconds, that it stays below.
    #[must_use]
    pub fn doublings(&self) -> Vec<Bucket> {
        let class = |bucket: &Bucket| bucket.bucket / STEPS;
        let of_class = |number| self.buckets.iter().filter(move |bucket| class(bucket) == number);
        let (Some(first), Some(last)) = (self.buckets.first(), self.buckets.last()) else {
            return Vec::new();
        };
        (class(first)..=class(last))
            .map(|number| Bucket {
                bucket: number,
                below_seconds: seconds(least_micros((number + 1) * STEPS)),
                count: of_class(number).map(|bucket| bucket.count).sum(),
            })
            .collect()
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_its_bucket_and_no_bucket_is_wide() {
        for micros in (0..100_000).chain((0..10_000).map(|number| number * 421_337)) {
            let bucket = bucket_of(micros);
            let (least, next) = (least_micros(bucket), least_micros(bucket + 1));
            assert!(least <= micros && micros < next, "{micros}: {least} to {next}");
            assert!((next - least) * 16 <= least.max(16), "{micros}: {least} to {next}");
        }
        assert_eq!(bucket_of(micros(Duration::MAX)), BUCKETS - 1);
        assert_eq!(bucket_of(4_294_000_000), BUCKETS - 1);
    }

    fn times(micros: &[u64]) -> Times {
        let mut counts = [0; BUCKETS];
        for micros in micros {
            counts[bucket_of(*micros)] += 1;
        }
        Times::new(counts, micros.iter().sum())
    }

    #[test]
    fn percentiles_are_exact_to_a_sixteenth() {
        let micros: Vec<u64> = (1..=1000).collect();
        let times = times(&micros);
        for (percent, expected) in [(50.0, 500e-6), (90.0, 900e-6), (99.9, 999e-6)] {
            let percentile = times.percentile(percent);
            assert!(
                percentile >= expected && percentile <= expected * 1.07,
                "{percent}: {percentile}"
            );
        }
        assert!((times.average() - 500.5e-6).abs() < 1e-9);
        assert_eq!(Times::default().percentiles, []);
    }

    #[test]
    fn what_was_counted_before_is_subtracted() {
        let (before, after) = (times(&[10, 2000]), times(&[10, 2000, 2000, 70_000]));
        let since = after.since(&before);
        assert_eq!(since.count, 2);
        assert_eq!(since.buckets, times(&[2000, 70_000]).buckets);
        assert!((since.sum_seconds - 0.072).abs() < 1e-9);
    }

    #[test]
    fn doublings_have_no_gap() {
        let classes = times(&[20, 100, 101]).doublings();
        let counts: Vec<u64> = classes.iter().map(|class| class.count).collect();
        assert_eq!(counts, [1, 0, 2]);
        assert!((classes[0].below_seconds - 32e-6).abs() < 1e-12);
    }
}
