//! A program in a message to the launcher: written by the server, and checked field by field by the launcher, which trusts none.
//!
//! A program that is too large for a message is in a memory file that nobody can change any more. Not here: the other messages
//! (`message`), and the user of a program (`run_as`).

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::confine::cgroup::CgroupLimits;
use crate::confine::confinement::{Confinement, IoPriority};
use crate::confine::file_rules::FileRules;
use crate::confine::limits::ProcessLimits;
use crate::start::program::{Mailbox, Program, Stdin};
use crate::users::run_as::RunAs;
use crate::wire::codec::{Malformed, Reader, Writer};

/// Bytes of a program, at most: more than execve(2) accepts.
pub(crate) const PROGRAM_BYTES_MAX: u64 = 8 << 20;

/// Bytes of the largest record of a mailbox, at most.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a mark: it must not be a text that other processes have in their environment by chance.
const MARK_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

const NICE_MAX: u8 = 19;
const UMASK_MAX: u64 = 0o777;

/// Writes a program, and lists the descriptors that go with it: the memory buffer if it has one, and the file that is its
/// standard input.
pub(crate) fn write<'a>(out: &mut Writer, program: &'a Program, mark: &str) -> Vec<BorrowedFd<'a>> {
    out.text(program.path.as_bytes());
    out.texts(program.arguments.iter().map(CString::as_bytes));
    out.text(&program.environment);
    out.text(program.directory.as_bytes());
    let mut fds: Vec<_> = program.memory.iter().map(OwnedFd::as_fd).collect();
    out.flag(program.memory.is_some());
    out.byte(match &program.stdin {
        Stdin::Null => 0,
        Stdin::Pipe => 1,
        Stdin::File(file) => {
            fds.push(file.as_fd());
            2
        }
    });
    out.optional(match program.mailbox {
        Mailbox::Stream => None,
        Mailbox::Record { record_bytes_max } => Some(record_bytes_max as u64),
    });
    match &program.run_as {
        RunAs::Usual => out.byte(0),
        RunAs::User(name) => {
            out.byte(1);
            out.text(name.as_bytes());
        }
        RunAs::Owner(script) => {
            out.byte(2);
            out.text(script.as_bytes());
        }
    }
    out.text(mark.as_bytes());
    let limits = &program.limits;
    for limit in [
        limits.memory_bytes_max,
        limits.cpu_seconds_max,
        limits.open_files_max,
        limits.processes_max,
        limits.file_bytes_max,
        limits.core_bytes_max,
    ] {
        out.optional(limit);
    }
    out.flag(program.confinement.is_some());
    if let Some(confinement) = &program.confinement {
        write_confinement(out, confinement);
    }
    fds
}

fn write_confinement(out: &mut Writer, confinement: &Confinement) {
    out.byte(confinement.nice);
    out.byte(match confinement.io_priority {
        None => 0,
        Some(IoPriority::Low) => 1,
        Some(IoPriority::Idle) => 2,
    });
    out.optional(confinement.umask.map(u64::from));
    out.flag(confinement.has_private_tmp);
    out.flag(confinement.covers_tmp);
    out.flag(confinement.chroot.is_some());
    if let Some(chroot) = &confinement.chroot {
        out.text(chroot.as_bytes());
    }
    out.flag(confinement.files.is_some());
    if let Some(files) = &confinement.files {
        out.texts(files.read.iter().map(CString::as_bytes));
        out.texts(files.write.iter().map(CString::as_bytes));
    }
    out.flag(confinement.is_offline);
    let cgroup = confinement.cgroup;
    for limit in [
        cgroup.memory_bytes_max,
        cgroup.processes_max,
        cgroup.cpu_percent,
        cgroup.cpu_weight,
    ] {
        out.optional(limit);
    }
}

/// The descriptors that go with a program, in the order of its message.
pub(crate) fn descriptors_of(program: Program) -> Vec<OwnedFd> {
    let stdin = match program.stdin {
        Stdin::File(file) => Some(file),
        Stdin::Null | Stdin::Pipe => None,
    };
    program.memory.into_iter().chain(stdin).collect()
}

/// Reads a program and its mark, with the descriptors that came with it. Its user is not decided yet.
pub(crate) fn read(from: &mut Reader<'_>, fds: Vec<OwnedFd>) -> Result<(Program, String), Malformed> {
    let mut fds = fds.into_iter();
    let path = from.c_string("the path")?;
    let arguments = from.c_strings("the arguments")?;
    let environment = from.text("the environment")?.to_vec();
    let directory = from.c_string("the directory")?;
    const MEMORY: &str = "the memory buffer";
    let has_memory = from.flag(MEMORY)?;
    let memory = has_memory.then(|| fds.next().ok_or(Malformed(MEMORY))).transpose()?;
    let stdin = match from.byte("standard input")? {
        0 => Stdin::Null,
        1 => Stdin::Pipe,
        2 => Stdin::File(fds.next().ok_or(Malformed("the file of standard input"))?),
        _ => return Err(Malformed("standard input")),
    };
    if fds.next().is_some() {
        return Err(Malformed("too many descriptors"));
    }
    let mailbox = match from.optional("the mailbox")? {
        None => Mailbox::Stream,
        Some(bytes) if bytes <= RECORD_BYTES_MAX => Mailbox::Record {
            record_bytes_max: usize::try_from(bytes).map_err(|_| Malformed("the mailbox"))?,
        },
        Some(_) => return Err(Malformed("the mailbox")),
    };
    let run_as = match from.byte("the user")? {
        0 => RunAs::Usual,
        1 => RunAs::User(from.string("the user")?),
        2 => RunAs::Owner(from.c_string("the script")?),
        _ => return Err(Malformed("the user")),
    };
    let mark = Some(from.string("the mark")?).filter(|mark| is_mark(mark, &environment));
    let mut limit = || from.optional("a limit");
    let limits = ProcessLimits {
        memory_bytes_max: limit()?,
        cpu_seconds_max: limit()?,
        open_files_max: limit()?,
        processes_max: limit()?,
        file_bytes_max: limit()?,
        core_bytes_max: limit()?,
    };
    let confinement = from
        .flag("the confinement")?
        .then(|| read_confinement(from))
        .transpose()?;
    let program = Program {
        path,
        arguments,
        environment,
        directory,
        stdin,
        mailbox,
        memory,
        run_as,
        credentials: None,
        limits,
        confinement: confinement.map(Arc::new),
    };
    Ok((program, mark.unwrap_or_default()))
}

/// Whether a mark can belong to one process: all processes that have it in their environment are killed. Other marks are ignored.
fn is_mark(mark: &str, environment: &[u8]) -> bool {
    let is_random = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'-');
    MARK_BYTES.contains(&mark.len())
        && mark.bytes().all(is_random)
        && environment.windows(mark.len()).any(|bytes| bytes == mark.as_bytes())
}

fn read_confinement(from: &mut Reader<'_>) -> Result<Confinement, Malformed> {
    let nice = from.byte("nice")?;
    if nice > NICE_MAX {
        return Err(Malformed("nice"));
    }
    let io_priority = match from.byte("the priority for disks")? {
        0 => None,
        1 => Some(IoPriority::Low),
        2 => Some(IoPriority::Idle),
        _ => return Err(Malformed("the priority for disks")),
    };
    let umask = match from.optional("the umask")? {
        Some(umask) if umask > UMASK_MAX => return Err(Malformed("the umask")),
        umask => umask.map(|umask| u32::try_from(umask).unwrap_or(0)),
    };
    let has_private_tmp = from.flag("the directory for temporary files")?;
    let covers_tmp = from.flag("the place of /tmp")?;
    let chroot = from.flag("the root")?.then(|| from.c_string("the root")).transpose()?;
    let files = match from.flag("the rules for files")? {
        false => None,
        true => Some(FileRules {
            read: from.c_strings("the files to read")?,
            write: from.c_strings("the files to write")?,
        }),
    };
    let is_offline = from.flag("the network")?;
    let mut limit = || from.optional("a limit of the cgroup");
    Ok(Confinement {
        nice,
        io_priority,
        umask,
        has_private_tmp,
        covers_tmp,
        chroot,
        files,
        is_offline,
        cgroup: CgroupLimits {
            memory_bytes_max: limit()?,
            processes_max: limit()?,
            cpu_percent: limit()?,
            cpu_weight: limit()?,
        },
    })
}

/// The seals of a memory file that nobody can change any more.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// Puts a program into a memory file.
///
/// # Errors
/// `E2BIG`: it is larger than any that can be executed. Otherwise the system has no more memory or descriptors.
pub(crate) fn store(program: &[u8]) -> io::Result<OwnedFd> {
    if program.len() as u64 > PROGRAM_BYTES_MAX {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::memfd_create(c"sluice-program".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created it; nothing else owns it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all(program)?;
    // SAFETY: takes numbers only.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

/// The content of a memory file with a program.
pub(crate) fn load(file: OwnedFd) -> Result<Vec<u8>, Malformed> {
    const REFUSED: Malformed = Malformed("the memory file");
    // It fails for every other kind of file, of which reading could block.
    // SAFETY: takes numbers only.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & SEALS != SEALS {
        return Err(REFUSED);
    }
    let file = File::from(file);
    let length = file.metadata().map_err(|_| REFUSED)?.len();
    if length > PROGRAM_BYTES_MAX {
        return Err(REFUSED);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| REFUSED)?];
    file.read_exact_at(&mut bytes, 0).map_err(|_| REFUSED)?;
    Ok(bytes)
}
