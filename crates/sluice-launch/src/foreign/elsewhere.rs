//! Operations on foreign objects that may wait for a foreign process: on threads of this process that may be lost to it.
//!
//! Beyond the bounds operations are not done at all: what they hold, such as a descriptor, stays with this process until it ends. Not here: the
//! threads (`user_threads`), what is done (`received`, and the callers).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::foreign::option::{NO_LINGER, set_option};
use crate::foreign::user_threads::{Bounds, UserThreads};

const BOUNDS: Bounds = Bounds {
    name: "elsewhere",
    at_once: 4,
    waiting_max: 4096,
    threads_max: 128,
};

/// The number of a user that is not known.
pub const UNKNOWN_USER: u32 = u32::MAX;

/// The threads of this process.
static THREADS: LazyLock<UserThreads> = LazyLock::new(|| UserThreads::new(BOUNDS));

/// Does something for a user on another thread, because it may wait for a process of that user. Never waits.
///
/// Beyond the bounds it is not done, and what it holds stays with this process.
pub fn do_elsewhere(user: u32, operation: impl FnOnce() + Send + 'static) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if let Err(operation) = THREADS.begin(user, Box::new(operation)) {
        // Dropping it could wait here.
        std::mem::forget(operation);
        if !IS_REPORTED.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "user {user} keeps {} descriptors from being closed: further ones stay open until this process ends",
                BOUNDS.waiting_max
            );
        }
    }
}

/// Closes descriptors from a process of a user on another thread. A socket does not linger then, unless the process has it linger again.
pub fn close_elsewhere(user: u32, descriptors: impl IntoIterator<Item = OwnedFd>) {
    let descriptors: Vec<OwnedFd> = descriptors.into_iter().collect();
    if !descriptors.is_empty() {
        do_elsewhere(user, move || descriptors.into_iter().for_each(close_foreign));
    }
}

/// Closes a descriptor of a foreign object, on the calling thread, which may wait. A socket does not linger.
pub(crate) fn close_foreign(descriptor: OwnedFd) {
    // Another file than a socket has no such option.
    set_option(descriptor.as_fd(), libc::SO_LINGER, NO_LINGER);
    drop(descriptor);
}
