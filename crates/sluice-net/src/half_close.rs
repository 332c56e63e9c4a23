//! Half-closed connections of HTTP/1.1: the client has closed its sending side, and may still wait for its response.
//!
//! A client that has closed the whole connection looks the same, until bytes are sent to it: then its system answers with a reset. HTTP/2 has no
//! half-closed connections: without a sending side the client cannot open windows, and h2 ends the connection.
//!
//! ```text
//!   open ──FIN──▶ half-closed ──reset, or both sides closed──▶ gone: its exchange ends
//!                  │  ▲   └── nothing sent for half_close_timeout ──▶ taken for gone
//!                  └──┘ bytes of the response, or probes (1 s, 2 s, 4 s … after the last)
//! ```
//! A probe is a byte that the response continues with in any case: the next one of `HTTP/1.`, or a leading zero of the size of the next chunk.

use std::time::{Duration, Instant};

/// The state of the client's end, as far as the system knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// The client may send more.
    Open,
    /// The client sends no more. It may still receive.
    HalfClosed,
    /// The client has reset the connection, or both sides are closed.
    Gone,
}

/// The next step towards the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Go on: the client may be there.
    Continue,
    /// Send it a byte, which a client that has left answers with a reset.
    Probe,
    /// Close: the client has left.
    Leave,
}

/// The check of a connection whose client may have left.
#[derive(Default)]
pub(crate) struct HalfClose(Option<Silence>);

struct Silence {
    /// The time since which nothing was sent.
    since: Instant,
    /// The count of bytes sent at the last check.
    sent: u32,
    next_probe: Instant,
    /// The interval until the probe after the next one.
    interval: Duration,
}

impl HalfClose {
    /// Decides, once a second while an exchange is under way, what to do. `sent` counts the bytes sent to the client and
    /// wraps around. `can_probe`: a byte can be sent before the script has written what follows.
    pub(crate) fn check(
        &mut self,
        end: ClientEnd,
        sent: u32,
        can_probe: bool,
        timeout: Duration,
        now: Instant,
    ) -> Step {
        match end {
            ClientEnd::Open => {
                self.0 = None;
                return Step::Continue;
            }
            ClientEnd::Gone => return Step::Leave,
            ClientEnd::HalfClosed => {}
        }
        let silence = self.0.get_or_insert(Silence {
            since: now,
            sent,
            next_probe: now,
            interval: Duration::from_secs(1),
        });
        if silence.sent != sent {
            (silence.sent, silence.since) = (sent, now);
        }
        if now.duration_since(silence.since) >= timeout {
            return Step::Leave;
        }
        if can_probe && now >= silence.next_probe {
            silence.next_probe = now + silence.interval;
            silence.interval *= 2;
            return Step::Probe;
        }
        Step::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// The seconds at which a half-closed connection is probed, and the second at which it ends, if each probe is taken.
    fn watched(can_probe: bool, timeout: Duration, mut sent: impl FnMut(u64) -> u32) -> (Vec<u64>, Option<u64>) {
        let (mut half_close, begin, mut probes) = (HalfClose::default(), Instant::now(), Vec::new());
        for second in 0..200 {
            let now = begin + Duration::from_secs(second);
            match half_close.check(ClientEnd::HalfClosed, sent(second), can_probe, timeout, now) {
                Step::Continue => {}
                Step::Probe => probes.push(second),
                Step::Leave => return (probes, Some(second)),
            }
        }
        (probes, None)
    }

    #[test]
    fn a_silent_exchange_is_probed_at_growing_intervals_and_ends() {
        let unchanged = |_| 7;
        assert_eq!(watched(true, TIMEOUT, unchanged), (vec![0, 1, 3, 7, 15], Some(30)));
        assert_eq!(watched(false, TIMEOUT, unchanged), (vec![], Some(30)));
        assert_eq!(watched(true, Duration::ZERO, unchanged), (vec![], Some(0)));
    }

    #[test]
    fn bytes_that_are_sent_restart_the_time() {
        let until = |second: u64| u32::try_from(second.min(100)).unwrap();
        assert_eq!(watched(false, TIMEOUT, until), (vec![], Some(130)));
    }

    #[test]
    fn a_client_that_is_gone_has_left_and_one_that_is_not_has_not() {
        let (mut half_close, now) = (HalfClose::default(), Instant::now());
        let mut check = |end, second| {
            let now = now + Duration::from_secs(second);
            half_close.check(end, 0, false, TIMEOUT, now)
        };
        assert_eq!(check(ClientEnd::Open, 0), Step::Continue);
        assert_eq!(check(ClientEnd::HalfClosed, 10), Step::Continue);
        assert_eq!(check(ClientEnd::Gone, 11), Step::Leave);
    }
}
