//! The channels between the server and one script process: pipes and sockets, created before the process.
//!
//! Standard output is a socket, because the server reads it on its event loops, and a script can hold the lock of a pipe without bound: splice(2)
//! from a silent socket does, and so does a write(2) from the memory of a file system that does not answer. Whoever reads, writes, or closes
//! this pipe then waits, uninterruptibly. A socket has no lock that both of its sides take. The other channels are pipes, because scripts open them by their names
//! (`/dev/stdin`, `/dev/stderr`, `/dev/fd/3`), which fails for sockets (ENXIO). The server has both ends of those that it writes: poll(2) on the reading end,
//! which takes no lock, says whether the script has read everything. A process that is kept also has a socket for requests, descriptor 5, which its library may choose in place of
//! CGIPLUSIN.
//!
//! Every descriptor is close-on-exec from its creation, so that a process started at the same moment by another thread does not inherit it; only the
//! child's duplicates, numbered 0 to 5, survive the exec (`reserved_fds`, `child`). All of them are owned, so an error half-way closes what was
//! created. The server's ends are non-blocking, the script's are blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FileType, Gid, Mode as FileMode, OFlags, Uid, fchmod, fchown, fcntl_setfl, fstat};
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::foreign::refuse::refuse_descriptors;
use crate::start::program::{Mailbox, Stdin};
use crate::users::credentials::Credentials;

/// Bytes of a socket's send buffer that a record cannot use: `unix_dgram_sendmsg` in the kernel refuses one larger than the buffer less 32.
const SEND_BUFFER_OVERHEAD_BYTES: usize = 32;

const PRIVATE: FileMode = FileMode::from_raw_mode(0o600);

/// The mode of a pipe that the server opens again by its own descriptor, to take out what the script has not read: its user is neither root nor the script's.
/// A pipe has no name but those in `/proc/PID/fd`, which only a process may use that may trace that one (proc(5), ptrace(2)), so no other user reaches it.
const BOTH_SIDES: FileMode = FileMode::from_raw_mode(0o666);

#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) script: ScriptEnds,
    pub(crate) server: ServerEnds,
}

/// The script's ends, in the order of their descriptor numbers; 4 is the memory buffer, or `/dev/null`. A process that is not kept has no 5.
#[derive(Debug)]
pub(crate) struct ScriptEnds {
    pub(crate) stdin: ScriptEnd,
    pub(crate) mailbox: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) cgiplusin: OwnedFd,
    pub(crate) memory: ScriptEnd,
    pub(crate) requests: Option<OwnedFd>,
}

/// A descriptor that a script may have no use for: the shared `/dev/null`, or one of its own.
#[derive(Debug)]
pub(crate) enum ScriptEnd {
    Null(Arc<OwnedFd>),
    Own(OwnedFd),
    /// A file that the server has opened for reading.
    Foreign(OwnedFd),
}

#[derive(Debug)]
pub(crate) struct ServerEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) mailbox: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) cgiplusin: OwnedFd,
    /// The reading ends of CGIPLUSIN, and of standard input if that is a pipe.
    pub(crate) read_ends: (OwnedFd, Option<OwnedFd>),
    /// Both ends of the socket for requests: the server's, then the script's.
    pub(crate) requests: Option<(OwnedFd, OwnedFd)>,
}

impl Channels {
    /// Creates the channels that a program needs. `null` is `/dev/null`, open for reading.
    pub(crate) fn open(
        stdin: Stdin,
        mailbox: Mailbox,
        memory: Option<OwnedFd>,
        is_kept: bool,
        null: &Arc<OwnedFd>,
    ) -> io::Result<Channels> {
        let null = || ScriptEnd::Null(Arc::clone(null));
        let (script_stdin, server_stdin, stdin_read) = match stdin {
            Stdin::Null => (null(), None, None),
            Stdin::File(file) => (ScriptEnd::Foreign(file), None, None),
            Stdin::Pipe => {
                let (read, write) = pipe()?;
                set_nonblocking(&write)?;
                let kept = read.try_clone()?;
                (ScriptEnd::Own(read), Some(write), Some(kept))
            }
        };
        let (server_mailbox, script_mailbox) = match mailbox {
            Mailbox::Stream => stream_pair()?,
            Mailbox::Pipe => pipe()?,
            Mailbox::Record { record_bytes_max } => record_pair(record_bytes_max)?,
        };
        let (server_stderr, script_stderr) = pipe()?;
        let (script_cgiplusin, server_cgiplusin) = pipe()?;
        for end in [&server_mailbox, &server_stderr, &server_cgiplusin] {
            set_nonblocking(end)?;
        }
        let cgiplusin_read = script_cgiplusin.try_clone()?;
        let requests = is_kept.then(request_pair).transpose()?;
        let script_requests = requests.as_ref().map(|(_, script)| script.try_clone()).transpose()?;
        Ok(Channels {
            script: ScriptEnds {
                stdin: script_stdin,
                mailbox: script_mailbox,
                stderr: script_stderr,
                cgiplusin: script_cgiplusin,
                memory: memory.map_or_else(null, ScriptEnd::Own),
                requests: script_requests,
            },
            server: ServerEnds {
                stdin: server_stdin,
                mailbox: server_mailbox,
                stderr: server_stderr,
                cgiplusin: server_cgiplusin,
                read_ends: (cgiplusin_read, stdin_read),
                requests,
            },
        })
    }
}

impl ScriptEnds {
    /// The descriptors that become 0, 1, 2, 3 and 4, and 5 if the process is kept.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &OwnedFd> {
        [
            self.stdin.fd(),
            &self.mailbox,
            &self.stderr,
            &self.cgiplusin,
            self.memory.fd(),
        ]
        .into_iter()
        .chain(&self.requests)
    }
}

impl ScriptEnd {
    fn fd(&self) -> &OwnedFd {
        match self {
            ScriptEnd::Null(null) => null,
            ScriptEnd::Own(own) | ScriptEnd::Foreign(own) => own,
        }
    }
}

impl ScriptEnds {
    /// Gives the pipes to the user of the script, who can then open them by their names (`/dev/fd/3`), as the server can its ends, and nobody else. The memory
    /// buffer too, as a file without a name, which only the script can open. A stored body stays the server's: the script may not write to it.
    pub(crate) fn give_to(&self, user: &Credentials) -> io::Result<()> {
        let is_foreign = matches!(self.stdin, ScriptEnd::Foreign(_));
        for end in self.in_order().skip(usize::from(is_foreign)) {
            let about = fstat(end)?;
            let mode = match FileType::from_raw_mode(about.st_mode) {
                FileType::Fifo => BOTH_SIDES,
                FileType::RegularFile if about.st_nlink == 0 => PRIVATE,
                // Another file may be one of root, which must not become the property of a script.
                _ => continue,
            };
            fchown(end, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)))?;
            fchmod(end, mode)?;
        }
        Ok(())
    }
}

/// Opens `/dev/null` for reading. One open file serves all scripts without a body, because it has no position.
pub(crate) fn open_null() -> io::Result<OwnedFd> {
    // The standard library opens close-on-exec.
    Ok(std::fs::File::open("/dev/null")?.into())
}

/// Creates a pipe: read end, write end; both blocking.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Creates a pair of `SOCK_STREAM` sockets: the server's end, which only receives, then the script's.
fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (server, script) = socket_pair(SocketType::STREAM)?;
    shutdown(&server, Shutdown::Write)?;
    refuse_descriptors(&server);
    Ok((server, script))
}

/// Creates a pair of `SOCK_STREAM` sockets for requests: the server's end, which only sends, then the script's. What the script sends is refused (EPIPE), so no descriptor that it sends along is ever closed with
/// the server's end.
fn request_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (server, script) = socket_pair(SocketType::STREAM)?;
    shutdown(&server, Shutdown::Read)?;
    set_nonblocking(&server)?;
    Ok((server, script))
}

fn socket_pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Creates a pair of `SOCK_SEQPACKET` sockets: the server's end, then the script's, which can send records of `record_bytes_max` bytes. The send buffer
/// is changed only if the system's default is too small; usually it is larger than needed.
fn record_pair(record_bytes_max: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let (server, script) = socket_pair(SocketType::SEQPACKET)?;
    refuse_descriptors(&server);
    let needed = record_bytes_max.saturating_add(SEND_BUFFER_OVERHEAD_BYTES);
    if socket_send_buffer_size(&script)? < needed {
        // The kernel doubles the value for its own overhead, so at least two records fit, and silently limits it to net.core.wmem_max (socket(7)).
        set_socket_send_buffer_size(&script, needed.min(i32::MAX as usize))?;
        if socket_send_buffer_size(&script)? < needed {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
    }
    Ok((server, script))
}

/// Sets O_NONBLOCK and clears all other status flags. The descriptors created here have no other.
fn set_nonblocking(end: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfl(end, OFlags::NONBLOCK)?)
}
