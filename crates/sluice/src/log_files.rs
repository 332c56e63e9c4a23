//! Operations on the files of logs, without waiting for them: on a thread that may be lost.
//!
//! A local user who may read a directory can keep its lock for as long as he likes: by getdents64(2) into memory that never comes (FUSE, userfaultfd).
//! Whoever makes, renames or removes a file in it waits then, and no signal ends that.

use std::time::Duration;

use sluice_launch::{LookupShare, look_elsewhere};
use tokio::time::sleep;

/// How long a command waits. A disk that is busy answers in this time.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Does something with files of logs on another thread, which goes on with it if nobody waits any longer. `None` if it is not done after some seconds, or not begun because
/// earlier ones wait.
pub(crate) async fn do_elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = look_elsewhere(LookupShare::LOGS, work);
    done.within(sleep(TIMEOUT)).await.ok()
}
