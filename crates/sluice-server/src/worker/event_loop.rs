//! The event loop of a worker, and what its runtime and its allocator need to be asked for.
//!
//! Each function works around something that the library does not offer; the reason is beside it.

use std::hint::black_box;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// How long a thread for blocking calls lives without one.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Makes an event loop on the calling thread. Errors: the system is out of descriptors.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .build()
}

/// Keeps one thread for blocking calls alive at all times. When the system refuses another (RLIMIT_NPROC, pids.max), calls wait for it; without any,
/// `spawn_blocking` of tokio 1.54 panics, and its request loses the connection. Threads without a time limit would not do: the hundreds of a burst would stay.
pub(super) async fn keep_thread() {
    let mut interval = tokio::time::interval(THREAD_KEEP_ALIVE / 3);
    loop {
        interval.tick().await;
        drop(tokio::task::spawn_blocking(|| ()));
    }
}

/// Makes the allocator return the memory of connections that have become idle. The worker calls this once a second. mimalloc, which the program
/// uses, returns pages only when a thread allocates. Measured with mimalloc 0.1.52: of 64 MiB of freed blocks, a thread that allocates nothing more
/// keeps all, for ever and at nearly every size of blocks; with this call it keeps less than 6 MB after one second.
pub(super) fn prompt_allocator() {
    const LARGE: usize = 1 << 20;
    drop(black_box(Vec::<u8>::with_capacity(LARGE)));
}
