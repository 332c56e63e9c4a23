//! Faults of the server itself or of its machine.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use crate::fault::detail::Detail;
use crate::path_text::{Quoted, ShownPath};

/// A fault of the server. Large data is boxed, so that a result with a fault stays small.
#[derive(Clone, Debug, Error)]
pub enum ServerFault {
    /// Input or output failed.
    #[error("{0}")]
    Io(Arc<IoFailure>),
    /// The system gives no random bytes.
    #[error("no random bytes: {0}")]
    NoRandomBytes(getrandom::Error),
    /// 503: the server ends, and starts no processes any more.
    #[error("the server is ending, and starts no scripts any more")]
    LauncherEnded,
    /// 503: a process was not started because there is no launcher now, or because its start took too long.
    #[error("{0}")]
    NoLauncher(Arc<dyn Detail>),
    /// A process was not started because of the machine.
    #[error("{0}")]
    NotStarted(Arc<dyn Detail>),
    /// A program's name or argument holds a NUL, which execve(2) cannot pass.
    #[error("a program's name or argument holds a NUL")]
    NulInArgument,
    /// The listing of a directory failed.
    #[error("listing: {0}")]
    Listing(Arc<dyn Detail>),
    /// 503: too many listings are being made; no turn came within this time.
    #[error("listing: no turn came, too many are being made")]
    ListingsBusy(Duration),
    /// 503: the stored request bodies of all clients together have reached this many bytes, which is the limit.
    #[error("the request bodies that are stored have reached {0} bytes (limits.stored_bodies)")]
    StoredBodiesFull(u64),
    /// 503: this many files are open while they are sent, which is the limit.
    #[error("{0} files are being sent, as many as the limit of open files (ulimit -n) and limits.connections leave")]
    FilesBusy(usize),
    /// 503: scripts of the same user keep too many of their pipes locked.
    #[error("scripts of this user keep too many of their pipes locked (splice(2) and its like)")]
    PipesLocked,
    /// 503: too many memory buffers of scripts of the same user are kept locked.
    #[error(
        "too many memory buffers of scripts of this user are kept locked (a write from memory that does not answer)"
    )]
    BuffersLocked,
    /// 503: too many passwords wait to be verified.
    #[error("too many passwords wait to be verified")]
    PasswordsBusy,
    /// 503: as many live reports are open as there may be.
    #[error("as many live reports are open as there may be")]
    ReportsBusy,
    /// 503: a directory or program that the configuration names is not there.
    #[error("{} does not exist: put it there, or fix the path in the configuration", .0.display())]
    Missing(Box<Path>),
    /// 503: a directory, file or user that the configuration names cannot be used; which, why, and what to do.
    #[error("{0}")]
    Closed(Box<str>),
    /// 503: the engine that runs a script is not there; why, and what to do.
    #[error("{0}")]
    NoEngine(Box<str>),
    /// 503: another process holds a lease on the file with this name in its directory.
    #[error("file {}: another process holds a lease on it, and has been asked to give it up (F_SETLEASE in fcntl(2); file servers such as Samba do \
             it)", Quoted(.0))]
    Leased(Box<str>),
    /// 503: the file system in which this is looked up or read has not answered.
    #[error("{}: its file system does not answer, or a process holds its directory", Quoted(.0))]
    Unanswered(Box<str>),
    /// This path, for which a listing is wanted, is not a directory.
    #[error("listing: {} is no directory", Quoted(.0))]
    NotADirectory(Box<str>),
    /// The Location of a redirect is not a field value.
    #[error("redirect to {0:?}: not a field value")]
    BadLocation(Box<str>),
    /// 503: the administrator has ended the request.
    #[error("the administrator has ended the request")]
    Ended,
    /// A mistake in the server: a state that its code excludes.
    #[error("{0}")]
    Unexpected(&'static str),
}

/// Input or output that failed.
#[derive(Debug, Error)]
#[error("{activity}: {error}")]
pub struct IoFailure {
    /// The server's activity when it happened.
    pub activity: Activity,
    /// The error of the system.
    pub error: io::Error,
}

/// An activity of the server during which input or output failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Opens or reads the file with this name in its directory.
    File(Box<str>),
    /// Reads a file while it is sent.
    FileBody,
    /// Calls stat(2) on the file of a script.
    Script(Box<Path>),
    /// Registers the pipes of a process of this script with the event loop.
    Channels(Box<str>),
    /// Moves the pipes of a process to the event loop of another worker.
    ChangeOfWorker,
    /// Creates a memory buffer for a script.
    MemoryBuffer,
    /// Writes a request body to a temporary file.
    StoreBody,
    /// Reads a request body from its temporary file.
    ReadStoredBody,
    /// Compresses a response body.
    Compression,
}

impl IoFailure {
    /// For the variants that hold a failure.
    pub fn shared(activity: Activity, error: io::Error) -> Arc<IoFailure> {
        Arc::new(IoFailure { activity, error })
    }

    /// Whether there is no room for a request body: a full disk or quota, or RLIMIT_FSIZE.
    fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        self.activity == Activity::StoreBody && matches!(self.error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
    }
}

impl ServerFault {
    /// Input or output failed during this activity.
    pub fn io(activity: Activity, error: io::Error) -> ServerFault {
        ServerFault::Io(IoFailure::shared(activity, error))
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            ServerFault::ListingsBusy(_)
            | ServerFault::StoredBodiesFull(_)
            | ServerFault::FilesBusy(_)
            | ServerFault::PipesLocked
            | ServerFault::BuffersLocked
            | ServerFault::PasswordsBusy
            | ServerFault::ReportsBusy
            | ServerFault::Missing(_)
            | ServerFault::Closed(_)
            | ServerFault::NoEngine(_)
            | ServerFault::Leased(_)
            | ServerFault::Unanswered(_)
            | ServerFault::LauncherEnded
            | ServerFault::NoLauncher(_)
            | ServerFault::Ended => StatusCode::SERVICE_UNAVAILABLE,
            ServerFault::Io(failure) if failure.is_full() => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// After this time a client may try again.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let seconds = match self {
            ServerFault::ListingsBusy(wait) => return Some(*wait),
            ServerFault::StoredBodiesFull(_)
            | ServerFault::FilesBusy(_)
            | ServerFault::PipesLocked
            | ServerFault::BuffersLocked => 5,
            // A launcher is started again at once, unless it fails repeatedly; a process that means well has given up its lease by then.
            ServerFault::PasswordsBusy | ServerFault::NoLauncher(_) | ServerFault::Leased(_) => 2,
            ServerFault::Unanswered(_) => 10,
            // A file system may be mounted soon.
            ServerFault::Missing(_) | ServerFault::Closed(_) | ServerFault::NoEngine(_) => 30,
            _ => return None,
        };
        Some(Duration::from_secs(seconds))
    }
}

impl Display for Activity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Activity::File(name) => write!(out, "file {}", Quoted(name)),
            Activity::FileBody => out.write_str("file"),
            Activity::Script(file) => write!(out, "script {}", ShownPath(file)),
            Activity::Channels(script) => write!(out, "script {script}: its channels cannot be watched"),
            Activity::ChangeOfWorker => out.write_str("script process cannot change its worker"),
            Activity::MemoryBuffer => out.write_str("no memory buffer"),
            Activity::StoreBody => out.write_str("request body cannot be stored"),
            Activity::ReadStoredBody => out.write_str("stored request body"),
            Activity::Compression => out.write_str("compressing a body"),
        }
    }
}
