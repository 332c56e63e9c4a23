//! The starts that wait or are in progress: their number, the memory of their programs, and the bounds on a server process that is out of control.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::start::program::Program;

/// Starts that wait or are in progress, at most. Each has two descriptors of the server at most.
const STARTS_MAX: usize = 4096;

/// Bytes of their programs, all together. A usual one has some KiB.
const PROGRAM_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct PendingStarts {
    // Relaxed: only the link thread adds, and asks. Others take away, which it may learn late.
    count: AtomicUsize,
    program_bytes: AtomicUsize,
}

/// One start that waits or is in progress, until this is dropped.
#[derive(Debug)]
pub(crate) struct PendingStart {
    all: Arc<PendingStarts>,
    bytes: usize,
}

impl PendingStarts {
    pub(crate) fn add(self: &Arc<PendingStarts>, program: &Program) -> PendingStart {
        let bytes = program.memory_bytes();
        self.count.fetch_add(1, Ordering::Relaxed);
        self.program_bytes.fetch_add(bytes, Ordering::Relaxed);
        PendingStart { all: Arc::clone(self), bytes }
    }

    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

impl PendingStart {
    pub(crate) fn is_too_much(&self) -> bool {
        self.all.count.load(Ordering::Relaxed) > STARTS_MAX
            || self.all.program_bytes.load(Ordering::Relaxed) > PROGRAM_BYTES_MAX
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        self.all.count.fetch_sub(1, Ordering::Relaxed);
        self.all.program_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::limits::ProcessLimits;
    use crate::policy::run_as::RunAs;
    use crate::start::program::{Mailbox, Stdin};

    #[test]
    fn programs_that_wait_are_bounded_in_memory() {
        let program = Program {
            path: c"/p".into(),
            arguments: vec![c"".into(); 1 << 16],
            environment: vec![0; 7 << 20],
            directory: c"/".into(),
            stdin: Stdin::Null,
            mailbox: Mailbox::Stream,
            memory: None,
            is_kept: false,
            run_as: RunAs::Usual,
            credentials: None,
            limits: ProcessLimits::default(),
            confinement: None,
        };
        // An empty argument takes memory, too.
        assert!(program.memory_bytes() > 8 << 20);
        let all = Arc::new(PendingStarts::default());
        let mut few: Vec<PendingStart> = (0..7).map(|_| all.add(&program)).collect();
        assert!(!few[6].is_too_much());
        assert!(all.add(&program).is_too_much());
        few.pop();
        assert!(!all.add(&program).is_too_much(), "there is room again");
        drop(few);
        assert!(!all.has_any());
    }
}
