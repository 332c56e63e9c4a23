//! The channels between the server and one script process: pipes and sockets, made before the process is.
//!
//! Every descriptor is close-on-exec from its creation, so that a process started at the same moment by another thread
//! takes none along; the child's duplicates in places 0 to 4 are the only ones that survive (`slots`, `child`). All of
//! them are owned: a failure half-way closes what was made. The server's ends do not block, the script's do.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::message::{Mailbox, Stdin};

/// Bytes of a socket's send buffer that the kernel keeps for itself: `unix_dgram_sendmsg` refuses a record larger than
/// the buffer less this.
const SEND_BUFFER_OVERHEAD_BYTES: usize = 32;

/// Both sides of the channels of one script process.
#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) script: ScriptEnds,
    pub(crate) server: ServerEnds,
}

/// The script's ends, in the order of their numbers; 4 is the memory buffer.
#[derive(Debug)]
pub(crate) struct ScriptEnds {
    pub(crate) stdin: ScriptStdin,
    pub(crate) mailbox: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) cgiplusin: OwnedFd,
    pub(crate) memory: OwnedFd,
}

/// What becomes descriptor 0: made for this process, or the `/dev/null` of all of them.
#[derive(Debug)]
pub(crate) enum ScriptStdin {
    Null(Arc<OwnedFd>),
    Own(OwnedFd),
}

/// The server's ends.
#[derive(Debug)]
pub(crate) struct ServerEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) mailbox: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) cgiplusin: OwnedFd,
}

impl Channels {
    /// Makes the channels that a program asked for. `null` is `/dev/null`, open for reading.
    pub(crate) fn open(stdin: Stdin, mailbox: Mailbox, memory: OwnedFd, null: &Arc<OwnedFd>) -> io::Result<Channels> {
        let (script_stdin, server_stdin) = match stdin {
            Stdin::Null => (ScriptStdin::Null(Arc::clone(null)), None),
            Stdin::File(file) => (ScriptStdin::Own(file), None),
            Stdin::Pipe => {
                let (read, write) = pipe()?;
                set_nonblocking(&write)?;
                (ScriptStdin::Own(read), Some(write))
            }
        };
        let (server_mailbox, script_mailbox) = match mailbox {
            Mailbox::Stream => pipe()?,
            Mailbox::Record { record_bytes_max } => record_pair(record_bytes_max)?,
        };
        let (server_stderr, script_stderr) = pipe()?;
        let (script_cgiplusin, server_cgiplusin) = pipe()?;
        for end in [&server_mailbox, &server_stderr, &server_cgiplusin] {
            set_nonblocking(end)?;
        }
        Ok(Channels {
            script: ScriptEnds {
                stdin: script_stdin,
                mailbox: script_mailbox,
                stderr: script_stderr,
                cgiplusin: script_cgiplusin,
                memory,
            },
            server: ServerEnds {
                stdin: server_stdin,
                mailbox: server_mailbox,
                stderr: server_stderr,
                cgiplusin: server_cgiplusin,
            },
        })
    }
}

impl ScriptEnds {
    /// What becomes descriptor 0, 1, 2, 3 and 4.
    pub(crate) fn in_order(&self) -> [&OwnedFd; 5] {
        let stdin = match &self.stdin {
            ScriptStdin::Null(null) => null,
            ScriptStdin::Own(own) => own,
        };
        [stdin, &self.mailbox, &self.stderr, &self.cgiplusin, &self.memory]
    }
}

/// Opens `/dev/null` for reading, once for all scripts without a body: it has no position that they could share.
pub(crate) fn open_null() -> io::Result<OwnedFd> {
    // The standard library opens close-on-exec.
    Ok(std::fs::File::open("/dev/null")?.into())
}

/// A pipe: read end, write end; both blocking.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for the two descriptors that pipe2 writes.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok(owned(ends))
}

/// A pair of record sockets: the server's end, then the script's, which takes records of `record_bytes_max` bytes.
///
/// The script's end may be wider than asked for: the system's default is usually enough and is then left alone.
fn record_pair(record_bytes_max: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let mut ends = [-1; 2];
    // SAFETY: the array has room for the two descriptors that socketpair writes.
    checked(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    let (server, script) = owned(ends);
    let needed = record_bytes_max.saturating_add(SEND_BUFFER_OVERHEAD_BYTES);
    if send_buffer_bytes(&script)? < needed {
        set_send_buffer_bytes(&script, needed)?;
        // The kernel cuts what it is asked for down to net.core.wmem_max without a word (socket(7)).
        if send_buffer_bytes(&script)? < needed {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
    }
    Ok((server, script))
}

fn owned(ends: [libc::c_int; 2]) -> (OwnedFd, OwnedFd) {
    // SAFETY: the kernel has just made both descriptors, and nobody else knows them.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

/// Only for descriptors that were made here: they have no other status flag that would be lost.
fn set_nonblocking(end: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes an open descriptor and numbers.
    checked(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })
}

fn send_buffer_bytes(socket: &OwnedFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    let mut length = INT_BYTES;
    // SAFETY: value and length are valid to write, and the length is that of the value.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw mut bytes).cast(),
            &raw mut length,
        )
    })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// The kernel doubles the number, for its own bookkeeping (socket(7)), so that at least two records fit.
fn set_send_buffer_bytes(socket: &OwnedFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
    // SAFETY: the value is valid to read, and the length is its.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const bytes).cast(),
            INT_BYTES,
        )
    })
}

#[expect(clippy::cast_possible_truncation, reason = "it is 4")]
const INT_BYTES: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;

fn checked(done: libc::c_int) -> io::Result<()> {
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
