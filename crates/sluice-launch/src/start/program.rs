//! The input and output of a start: a program, and the process that it became.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::confine::cgroup::ScriptCgroup;
use crate::confine::confinement::Confinement;
use crate::confine::limits::ProcessLimits;
use crate::confine::temporary::TemporaryDirectory;
use crate::policy::run_as::{RunAs, WishedProgram};
use crate::users::credentials::Credentials;

/// One script process to start.
#[derive(Debug)]
pub struct Program {
    /// The file to execute: absolute, or relative to `directory`. PATH is never searched (execve(2)).
    pub path: CString,
    /// The arguments, `argv[0]` included.
    pub arguments: Vec<CString>,
    /// The complete environment: entries `NAME=value`, each followed by a NUL. Only TMPDIR is added, if the process has a temporary directory.
    pub environment: Vec<u8>,
    /// The working directory, below its root, entered after the change of user.
    pub directory: CString,
    /// The request body: descriptor 0.
    pub stdin: Stdin,
    /// The channel for output: descriptor 1.
    pub mailbox: Mailbox,
    /// The memory buffer (a memfd), which becomes descriptor 4; the caller passes a duplicate. `None`: `/dev/null` does.
    pub memory: Option<OwnedFd>,
    /// Whether it is kept for further requests, which can come by a socket: descriptor 5. Its standard input is a pipe then.
    pub is_kept: bool,
    /// The wished user, from which a [`crate::UserPolicy`] makes the credentials.
    pub run_as: RunAs,
    /// The user of the process; `None`: the launcher's. A server cannot set it: its programs get the credentials of the policy.
    pub credentials: Option<Credentials>,
    /// The resource limits of the process.
    pub limits: ProcessLimits,
    /// Further limits on what the process may use and reach; `None`: the same as the server.
    pub confinement: Option<Arc<Confinement>>,
}

impl Program {
    pub(crate) fn wished(&self) -> WishedProgram<'_> {
        WishedProgram {
            run_as: &self.run_as,
            path: &self.path,
            arguments: &self.arguments,
            directory: &self.directory,
            limits: &self.limits,
            confinement: self.confinement.as_deref(),
        }
    }

    /// Bytes of memory that it takes before its start, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let rules = self
            .confinement
            .iter()
            .filter_map(|confinement| confinement.files.as_ref());
        let lists = rules.flat_map(|rules| [&rules.read, &rules.write]);
        let texts = lists.chain([&self.arguments]).flatten();
        // Each text also has a place in its list, and what an allocation takes.
        let bytes: usize = texts.map(|text| text.count_bytes() + 2 * size_of::<CString>()).sum();
        size_of::<Program>() + self.path.count_bytes() + self.directory.count_bytes() + self.environment.len() + bytes
    }
}

/// The source of a script's request body: descriptor 0.
#[derive(Debug)]
pub enum Stdin {
    /// `/dev/null`: there is no body.
    Null,
    /// A pipe; its write end is returned in [`Started::stdin`].
    Pipe,
    /// An open file, read from its current offset.
    File(OwnedFd),
}

/// The channel for a script's output: descriptor 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mailbox {
    /// A stream of bytes: a `SOCK_STREAM` pair. Its script cannot open it by a name such as `/dev/stdout` (ENXIO).
    Stream,
    /// A stream of bytes: a pipe, which its script can open by a name. Whoever reads or closes it may wait for the script without bound.
    Pipe,
    /// A sequence of records: a `SOCK_SEQPACKET` pair, on which each write of the script is one record.
    Record {
        /// Bytes in the largest record that the script must be able to write (`WWW_GATEWAY_MRS`).
        record_bytes_max: usize,
    },
}

/// A script process whose program runs, and the server's ends of its channels, all non-blocking and close-on-exec.
#[derive(Debug)]
pub struct Started {
    /// The process id, also the id of the session and of the process group that it leads.
    pub pid: i32,
    /// The pidfd of the process, readable when it has exited. See [`crate::reap`].
    pub pidfd: OwnedFd,
    /// The write end of descriptor 0 for [`Stdin::Pipe`], otherwise `None`.
    pub stdin: Option<OwnedFd>,
    /// The read end of descriptor 1.
    pub mailbox: OwnedFd,
    /// The read end of descriptor 2.
    pub stderr: OwnedFd,
    /// The write end of descriptor 3, CGIPLUSIN.
    pub cgiplusin: OwnedFd,
    /// The reading ends of descriptor 3, and of 0 if it is a pipe, to ask whether the script has read everything (poll(2)). Blocking: they are the script's.
    pub read_ends: (OwnedFd, Option<OwnedFd>),
    /// Both ends of descriptor 5 of a process that is kept, a socket for requests: the server's, which only sends, then the script's, which is blocking.
    pub requests: Option<(OwnedFd, OwnedFd)>,
    /// The cgroup, if the launcher has cgroups. To be kept until the process is reaped.
    pub cgroup: Option<ScriptCgroup>,
    /// The directory for temporary files. To be dropped when the process and its descendants have ended.
    pub temporary: Option<TemporaryDirectory>,
}
