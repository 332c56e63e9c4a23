//! The memory buffer of a script process, and the threads that allocate and release it.
//!
//! A script can pass its descriptor on, and have another process keep the lock of the memfd for as long as it likes: by a write from memory
//! that never comes (FUSE, userfaultfd). Whoever calls fallocate(2) for the memfd waits then, and no signal ends that. So the threads that
//! do it may be lost: they are shared and bounded as those for pipes are (`pipe_threads`).

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use sluice_membuf::{Release, Segment};
use tokio::sync::oneshot;

use crate::process::{PipeOwner, PipeThreads, Work};

/// The time between two turns of a worker, in which it checks the threads.
const TURN: Duration = Duration::from_secs(1);

/// How long a user has no memory buffers after a script of his has kept the event loop waiting.
const REFUSAL: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct BufferMemory {
    segment: Segment,
    owner: Arc<PipeOwner>,
    threads: PipeThreads,
}

/// Ready with the memory and a result. An error if a panic has lost them.
pub(crate) type Done<T> = oneshot::Receiver<(BufferMemory, T)>;

impl BufferMemory {
    pub(crate) fn new(mut segment: Segment, owner: &Arc<PipeOwner>, threads: &PipeThreads) -> BufferMemory {
        segment.set_release(release(owner, threads));
        BufferMemory {
            segment,
            owner: Arc::clone(owner),
            threads: threads.clone(),
        }
    }

    /// Whether nothing is allocated now for scripts of this user, because they keep too many memory buffers locked.
    pub(crate) fn is_refused(&self) -> bool {
        self.threads.refuses_owner(&self.owner)
    }

    /// Notes that its script has kept the event loop waiting for its pages.
    pub(crate) fn note_wait(&self) {
        self.threads.note_wait(&self.owner);
    }

    /// Whether scripts of this user have no memory buffers now, because one has kept the event loop waiting.
    pub(crate) fn has_waited(&self) -> bool {
        self.threads.has_waited(&self.owner, REFUSAL)
    }

    /// How long somebody waits for an allocation of `bytes` bytes: until its process is ended because of it.
    pub(crate) fn time_limit(&self, bytes: u64) -> Duration {
        self.threads.time_limit(bytes) + TURN
    }

    /// Has a thread do something that may wait for a write of the script, and allocates up to `bytes` bytes; not if nobody waits for the result any more.
    pub(crate) fn perform<T: Send + 'static>(
        self,
        bytes: u64,
        work: impl FnOnce(&mut Segment) -> T + Send + 'static,
    ) -> Done<T> {
        let (send, done) = oneshot::channel();
        let (threads, owner) = (self.threads.clone(), Arc::clone(&self.owner));
        let call = move || {
            let mut memory = self;
            if send.is_closed() {
                return;
            }
            // A thread that panics would count for ever. The hook has logged it.
            let result: Result<T, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| work(&mut memory)));
            if let Ok(result) = result {
                // Fails if the exchange is over: its memory is released here then.
                let _ = send.send((memory, result));
            }
        };
        perform(&threads, &owner, bytes, Box::new(call));
        done
    }
}

/// The release of the memory of a process by these threads.
pub(crate) fn release(owner: &Arc<PipeOwner>, threads: &PipeThreads) -> Release {
    let (owner, threads) = (Arc::clone(owner), threads.clone());
    Arc::new(move |garbage| {
        perform(&threads, &owner, 0, Box::new(move || drop(garbage)));
    })
}

fn perform(threads: &PipeThreads, owner: &Arc<PipeOwner>, bytes: u64, call: Box<dyn FnOnce() + Send>) {
    let verb = "allocate or release";
    threads.perform(owner, "memory buffer", Work::Call { verb, bytes, call });
}

impl Deref for BufferMemory {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.segment
    }
}

impl DerefMut for BufferMemory {
    fn deref_mut(&mut self) -> &mut Segment {
        &mut self.segment
    }
}
