//! Notices that the reader of a memory buffer waits for its script.
//!
//! A page fault waits while somebody punches a hole there (fallocate(2)), and that takes seconds if many processes have the page mapped: the kernel visits
//! each mapping. No seal forbids it that permits the script to map the memory. So each read touches its pages here, where the time can be measured, before the bytes go to a socket.
//!
//! A slow read may also be a busy machine. Whether the thread has waited is known from its voluntary context switches (getrusage(2)), and asking for these at each
//! read would cost more than the read of a small part. So the first slow read only raises the suspicion; a second one with such a switch is a fault.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::cursor::RingFault;

/// A read that takes longer is suspicious. Memory that comes back from a swap device takes less.
const SUSPICIOUS: Duration = Duration::from_millis(500);

/// The smallest page of any processor.
const PAGE_BYTES: usize = 4096;

/// Why bytes of a memory buffer are not sent. The script's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// A counter in the control page is impossible.
    Ring(RingFault),
    /// Twice the thread has waited for more than half a second.
    Waits,
}

/// The watch over the reads of one exchange.
#[derive(Debug, Default)]
pub struct ReadWatch {
    is_suspected: bool,
}

impl ReadWatch {
    /// Takes bytes of the memory, and touches their pages.
    ///
    /// # Errors
    /// What `take` returns, or that the thread has waited: the script's fault.
    pub fn read(
        &mut self,
        take: impl FnOnce() -> Result<Option<Bytes>, RingFault>,
    ) -> Result<Option<Bytes>, ReadFault> {
        let before = self.is_suspected.then(voluntary_switches);
        let began = Instant::now();
        let taken = take().map_err(ReadFault::Ring)?;
        if let Some(bytes) = &taken {
            bytes.iter().step_by(PAGE_BYTES).for_each(|byte| _ = black_box(*byte));
        }
        let has_switched = || before.is_some_and(|before| voluntary_switches() > before);
        match self.is_fault(began.elapsed(), has_switched) {
            true => Err(ReadFault::Waits),
            false => Ok(taken),
        }
    }

    /// Whether a read that has taken so long is a fault.
    fn is_fault(&mut self, taken: Duration, has_switched: impl FnOnce() -> bool) -> bool {
        let is_slow = taken > SUSPICIOUS;
        let is_fault = is_slow && self.is_suspected && has_switched();
        self.is_suspected |= is_slow;
        is_fault
    }
}

/// How often this thread has waited since it began.
fn voluntary_switches() -> i64 {
    // SAFETY: all zeros are a valid rusage, and the kernel only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nvcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_secs(1);

    #[test]
    fn the_second_wait_is_a_fault_and_a_busy_machine_is_not() {
        let mut watch = ReadWatch::default();
        assert!(!watch.is_fault(SLOW, || true), "the first one");
        assert!(!watch.is_fault(SUSPICIOUS, || true), "it is not slow");
        assert!(!watch.is_fault(SLOW, || false), "it has not waited");
        assert!(watch.is_fault(SLOW, || true));
    }

    #[test]
    fn bytes_and_faults_pass() {
        let mut watch = ReadWatch::default();
        let bytes = Bytes::from(vec![7; 3 * PAGE_BYTES]);
        assert_eq!(watch.read(|| Ok(Some(bytes.clone()))), Ok(Some(bytes)));
        let fault = RingFault::HeadWentBack { head: 1, seen: 2 };
        assert_eq!(watch.read(|| Err(fault)), Err(ReadFault::Ring(fault)));
        assert!(voluntary_switches() >= 0);
    }
}
