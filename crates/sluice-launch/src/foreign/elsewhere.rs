//! Operations on foreign objects that may wait for a foreign process: on threads of this process that may be lost to it.
//!
//! Beyond the bounds operations are not done at all: what they hold, such as a descriptor, stays with this process until it ends. Lookups of files have
//! threads and bounds of their own, and are refused beyond them, because somebody waits for each.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::sockopt::set_socket_linger;

use crate::foreign::answer::Answer;
use crate::foreign::deadline;
use crate::foreign::owners;
use crate::foreign::user_threads::{Bounds, Held, Operation, UserThreads};

const CLOSINGS: Bounds = Bounds {
    name: "elsewhere",
    at_once: 4,
    waiting_max: 4096,
    threads_max: 128,
    of_holder_max: 4,
    kept: 0,
};

/// A file system of another machine that answers needs several at once, because each waits for the network.
const LOOKUPS: Bounds = Bounds {
    name: "lookups",
    at_once: 8,
    waiting_max: 256,
    threads_max: 256,
    of_holder_max: 64,
    kept: 0,
};

/// A directory of a local file system answers at once, unless somebody holds it: then its threads are lost, and there may be as many such directories
/// as processes. So each has few threads, and there are many threads.
const LOCAL_LOOKUPS: Bounds = Bounds {
    name: "local-lookups",
    at_once: 2,
    waiting_max: 4096,
    threads_max: 1024,
    of_holder_max: 2,
    kept: 2,
};

/// The number of a user that is not known.
pub const UNKNOWN_USER: u32 = u32::MAX;

static CLOSING: LazyLock<UserThreads> = LazyLock::new(|| UserThreads::new(CLOSINGS));

static LOOKING: LazyLock<UserThreads> = LazyLock::new(|| UserThreads::new(LOOKUPS));

static LOOKING_LOCALLY: LazyLock<UserThreads> = LazyLock::new(|| UserThreads::new(LOCAL_LOOKUPS));

/// A number for those who can keep a lookup from being answered, and the threads for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupShare {
    /// A directory of a local file system.
    Local(u64),
    /// A user, or a file system of another process or machine.
    Foreign(u64),
    /// One path of a user or file system, who has no more of the threads together than others have.
    Path {
        /// The number of the path.
        number: u64,
        /// The number of the user or file system.
        holder: u64,
    },
}

impl LookupShare {
    /// The share of lookups of which nobody is known.
    pub const UNKNOWN: LookupShare = LookupShare::Foreign(UNKNOWN_USER as u64);

    /// The share of the files of logs.
    pub const LOGS: LookupShare = LookupShare::Foreign(u64::MAX);

    /// The share of reading the files of certificates, each of which is waited for with a deadline.
    pub const CERTIFICATES: LookupShare = LookupShare::Foreign(u64::MAX - 2);

    /// The share of changes of the server's cgroup, at its start and end.
    pub(crate) const CGROUPS: LookupShare = LookupShare::Foreign(u64::MAX - 3);

    /// The share of reads about the server's own processes below /proc.
    pub const PROCESSES: LookupShare = LookupShare::Foreign(u64::MAX - 1);

    /// The share of reads about the processes of a user below /proc: whoever may open the directory of a process can hold it.
    #[must_use]
    pub const fn processes_of(user: u32) -> LookupShare {
        // No file system has such a number.
        LookupShare::Foreign(1 << 63 | user as u64)
    }

    /// The share of a path: whoever keeps lookups of it from being answered delays no other path.
    #[must_use]
    pub fn of_path(path: &Path) -> LookupShare {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        LookupShare::Path {
            number: hasher.finish(),
            holder: owners::holder_of(path),
        }
    }

    /// The number. One of each kind may have the same.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            LookupShare::Local(number) | LookupShare::Foreign(number) | LookupShare::Path { number, .. } => number,
        }
    }

    fn threads(self) -> &'static UserThreads {
        match self {
            LookupShare::Local(_) => &LOOKING_LOCALLY,
            LookupShare::Foreign(_) | LookupShare::Path { .. } => &LOOKING,
        }
    }

    fn held(self) -> Held {
        match self {
            LookupShare::Path { number, holder } => Held { share: number, holder },
            other => other.number().into(),
        }
    }
}

/// Does something for a user on another thread, because it may wait for a process of that user. Never waits.
///
/// Beyond the bounds it is not done, and what it holds stays with this process.
pub fn do_elsewhere(user: u32, operation: impl FnOnce() + Send + 'static) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !is_begun(user.into(), Box::new(operation)) && !IS_REPORTED.swap(true, Ordering::Relaxed) {
        tracing::error!(
            "user {user} keeps {} descriptors from being closed: further ones stay open until this process ends",
            CLOSINGS.waiting_max
        );
    }
}

/// Closes a file on another thread, because its file system may not answer. `share` is the number of a user or file system. Never waits.
pub fn close_file_elsewhere(share: u64, file: OwnedFd) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !is_begun(share, Box::new(move || drop(file))) && !IS_REPORTED.swap(true, Ordering::Relaxed) {
        tracing::error!(
            "a file system keeps {} files from being closed: further ones stay open until this process ends",
            CLOSINGS.waiting_max
        );
    }
}

fn is_begun(share: u64, operation: Operation) -> bool {
    match CLOSING.begin(share, operation) {
        Ok(()) => true,
        Err(operation) => {
            // Dropping it could wait here.
            std::mem::forget(operation);
            false
        }
    }
}

/// Looks up or reads a file on another thread, because its file system may be served by a process or machine that does not answer, or its
/// directory may be held by a process. Never waits. There is no answer (`NoAnswer::Silent`) if too many of this share wait, or if all its threads have been
/// waited for in vain.
pub fn look_elsewhere<T: Send + 'static>(
    share: LookupShare,
    operation: impl FnOnce() -> T + Send + 'static,
) -> Answer<T> {
    Answer::begin(share.threads(), share.held(), operation)
}

/// Begins something as `look_elsewhere` does, for which nobody waits. It is not done if too many wait.
pub fn begin_elsewhere(share: LookupShare, operation: impl FnOnce() + Send + 'static) {
    // Dropping it closes nothing: it has not been begun.
    drop(share.threads().begin(share.held(), Box::new(operation)));
}

/// Whether an operation runs on a thread that may be lost. execve(2) waits for each thread of a process.
#[must_use]
pub fn is_any_elsewhere() -> bool {
    deadline::is_busy()
        || [&CLOSING, &LOOKING, &LOOKING_LOCALLY]
            .iter()
            .any(|threads| threads.is_busy())
}

/// Starts threads for lookups in directories of local file systems that stay, because the system may refuse new ones later.
pub fn prepare_lookups() {
    LOOKING_LOCALLY.prepare();
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
    let _ = set_socket_linger(&descriptor, None);
    drop(descriptor);
}
