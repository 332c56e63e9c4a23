//! The time for which a client may let the server wait until it takes its response.
//!
//! A client begins with `send_timeout`. Waiting for it uses this time up; what it takes gives it back, a second for each
//! `send_rate` bytes, but never more than `CREDIT_MAX` times `send_timeout` in all. So a client that takes nothing has
//! `send_timeout`, and one that is always faster than `send_rate` has no limit.

use std::time::Duration;

use sluice_settings::limits::Limits;

/// Bytes that each other stream of an HTTP/2 connection may send before a delivery must have had its turn, because h2 serves
/// them in order: a frame (RFC 9113 §4.2), and the default connection window (§6.9.2), all such windows together at most
/// `TURN_WINDOWS_BYTES_MAX` (the bytes that a connection may have in memory).
const TURN_FRAME_BYTES: u64 = 16 << 10;
const TURN_WINDOW_BYTES: u64 = 64 << 10;
const TURN_WINDOWS_BYTES_MAX: u64 = 1 << 20;

/// The part of its share that a delivery must take, as a divisor: h2 gives a stream a turn for the chunk that it has, 4 KiB of a script, 64 KiB of a file.
const SHARE_DIVISOR: u64 = 16;

/// Most time that a client can gain, as a multiple of `send_timeout`: a receiver whose window was closed opens it again only after a part of its buffer
/// is free (tcp(7), the avoidance of small windows), of 6 MiB some 400 KB: at 5 KB a second it acknowledges nothing for 80 seconds.
const CREDIT_MAX: u32 = 5;

/// The waiting for a client, and its progress, since the last check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientWait {
    /// How long the server has waited for it.
    pub waited: Duration,
    /// Bytes that it has taken.
    pub taken: u32,
}

/// The progress of a connection whose deliveries take turns, since the check before.
#[derive(Clone, Copy)]
pub(crate) struct RoundRobin {
    /// How long a delivery has waited for its own window, if its turn may be still to come.
    pub waited: Duration,
    /// The time since the check before.
    pub elapsed: Duration,
    /// Bytes of bodies that the connection has sent since then.
    pub sent: u32,
    /// Streams that take turns.
    pub streams: u32,
}

impl RoundRobin {
    /// The bytes of the connection for which the bytes suffice that a delivery has taken.
    pub(crate) fn share_of(self, taken: u32) -> u64 {
        u64::from(taken) * u64::from(self.streams) * SHARE_DIVISOR
    }

    /// The most bytes that the connection sends from one turn of a delivery to the next.
    pub(crate) fn bytes_max(self) -> u64 {
        let streams = u64::from(self.streams);
        streams * TURN_FRAME_BYTES + (streams * TURN_WINDOW_BYTES).min(TURN_WINDOWS_BYTES_MAX)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SendAllowance {
    left: Duration,
}

impl SendAllowance {
    pub(crate) fn new(limits: &Limits) -> SendAllowance {
        SendAllowance { left: limits.send_timeout }
    }

    /// Subtracts a wait. False if the time is used up.
    pub(crate) fn covers(&mut self, wait: ClientWait, rate: u64, limits: &Limits) -> bool {
        let taken = u64::from(wait.taken);
        let gained = match rate {
            0 if taken == 0 => Duration::ZERO,
            0 => limits.send_timeout,
            rate => Duration::from_millis(taken.saturating_mul(1000) / rate),
        };
        let left = self.left.saturating_add(gained).saturating_sub(wait.waited);
        self.left = left.min(limits.send_timeout.saturating_mul(CREDIT_MAX));
        !left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            send_timeout: Duration::from_secs(10),
            ..Limits::default()
        }
    }

    /// The second at which a client is given up that takes these bytes in turn, one a second.
    fn given_up_at(rate: u64, taken: impl Iterator<Item = u32>) -> Option<usize> {
        let limits = limits();
        let mut allowance = SendAllowance::new(&limits);
        let waited = Duration::from_secs(1);
        taken
            .map(|taken| allowance.covers(ClientWait { waited, taken }, rate, &limits))
            .position(|covers| !covers)
    }

    #[test]
    fn a_client_that_takes_nothing_has_the_timeout() {
        assert_eq!(given_up_at(500, std::iter::repeat_n(0, 100)), Some(9));
        assert_eq!(given_up_at(0, std::iter::repeat_n(0, 100)), Some(9));
    }

    #[test]
    fn a_client_at_the_lowest_rate_goes_on_and_a_slower_one_does_not() {
        assert_eq!(given_up_at(500, std::iter::repeat_n(500, 10_000)), None);
        // The same in steps, as the kernel makes room.
        assert_eq!(
            given_up_at(500, [0, 0, 0, 0, 2500].into_iter().cycle().take(10_000)),
            None
        );
        assert_eq!(given_up_at(500, std::iter::repeat_n(400, 10_000)), Some(49));
        assert_eq!(given_up_at(0, std::iter::repeat_n(1, 10_000)), None);
    }

    #[test]
    fn bytes_taken_at_once_excuse_a_bounded_silence() {
        let burst = std::iter::once(100_000_000).chain(std::iter::repeat_n(1, 100));
        assert_eq!(given_up_at(500, burst), Some(51));
        // A receiver with a large buffer, ten times as fast as it must be, in the steps of its window.
        let steps = (0..1000).map(|second| if second % 40 == 0 { 200_000 } else { 0 });
        assert_eq!(given_up_at(500, steps), None);
    }
}
