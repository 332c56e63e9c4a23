//! A program in a message to the launcher: written by the server, and checked field by field by the launcher, which trusts none.
//!
//! A program that is too large for a message is in a memory file that nobody can change any more.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use memchr::memmem;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::confine::confinement::Confinement;
use crate::confine::limits::ProcessLimits;
use crate::few_strings::few_strings;
use crate::policy::run_as::RunAs;
use crate::start::program::{Mailbox, Program, Stdin};
use crate::wire::codec::Malformed;

/// Bytes of a program, at most: more than execve(2) accepts.
pub(crate) const PROGRAM_BYTES_MAX: u64 = 8 << 20;

/// Bytes of the largest record of a mailbox, at most.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Bytes of a mark: it must not be a text that other processes have in their environment by chance.
const MARK_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

const NICE_MAX: u8 = 19;
const UMASK_MAX: u32 = 0o777;

/// A program without its descriptors, as it is sent.
#[derive(Serialize, Deserialize)]
pub(crate) struct PlainProgram<'a> {
    path: Cow<'a, CStr>,
    #[serde(deserialize_with = "arguments")]
    arguments: Cow<'a, [CString]>,
    #[serde(serialize_with = "as_bytes")]
    environment: &'a [u8],
    directory: Cow<'a, CStr>,
    has_memory: bool,
    is_kept: bool,
    stdin: PlainStdin,
    mailbox: Mailbox,
    run_as: Cow<'a, RunAs>,
    mark: &'a str,
    limits: ProcessLimits,
    confinement: Option<Cow<'a, Confinement>>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum PlainStdin {
    Null,
    Pipe,
    File,
}

fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'static, [CString]>, D::Error> {
    few_strings(deserializer).map(Cow::Owned)
}

/// At once, instead of byte by byte as any other list.
fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl<'a> PlainProgram<'a> {
    pub(crate) fn of(program: &'a Program, mark: &'a str) -> PlainProgram<'a> {
        PlainProgram {
            path: Cow::Borrowed(&program.path),
            arguments: Cow::Borrowed(&program.arguments),
            environment: &program.environment,
            directory: Cow::Borrowed(&program.directory),
            has_memory: program.memory.is_some(),
            is_kept: program.is_kept,
            stdin: match program.stdin {
                Stdin::Null => PlainStdin::Null,
                Stdin::Pipe => PlainStdin::Pipe,
                Stdin::File(_) => PlainStdin::File,
            },
            mailbox: program.mailbox,
            run_as: Cow::Borrowed(&program.run_as),
            mark,
            limits: program.limits,
            confinement: program.confinement.as_deref().map(Cow::Borrowed),
        }
    }

    /// Checks a program and its mark, with the descriptors that came with it. Its user is not decided yet.
    pub(crate) fn check(self, fds: Vec<OwnedFd>) -> Result<(Program, String), Malformed> {
        const MEMORY: &str = "the memory buffer";
        let mut fds = fds.into_iter();
        let memory = match self.has_memory {
            true => Some(fds.next().ok_or(Malformed(MEMORY))?),
            false => None,
        };
        let stdin = match self.stdin {
            PlainStdin::Null => Stdin::Null,
            PlainStdin::Pipe => Stdin::Pipe,
            PlainStdin::File => Stdin::File(fds.next().ok_or(Malformed("the file of standard input"))?),
        };
        if fds.next().is_some() {
            return Err(Malformed("too many descriptors"));
        }
        // The number of the ends that are returned says which they are.
        if self.is_kept && !matches!(stdin, Stdin::Pipe) {
            return Err(Malformed("a kept process without a pipe as standard input"));
        }
        if matches!(self.mailbox, Mailbox::Record { record_bytes_max } if record_bytes_max > RECORD_BYTES_MAX) {
            return Err(Malformed("the mailbox"));
        }
        let confinement = self.confinement.map(Cow::into_owned);
        if let Some(confinement) = &confinement {
            check_confinement(confinement)?;
        }
        let mark = if is_mark(self.mark, self.environment) {
            self.mark
        } else {
            ""
        };
        let program = Program {
            path: self.path.into_owned(),
            arguments: self.arguments.into_owned(),
            environment: self.environment.to_vec(),
            directory: self.directory.into_owned(),
            stdin,
            mailbox: self.mailbox,
            memory,
            is_kept: self.is_kept,
            run_as: self.run_as.into_owned(),
            credentials: None,
            limits: self.limits,
            confinement: confinement.map(Arc::new),
        };
        Ok((program, mark.to_owned()))
    }
}

fn check_confinement(confinement: &Confinement) -> Result<(), Malformed> {
    if confinement.nice > NICE_MAX {
        return Err(Malformed("nice"));
    }
    if confinement.umask.is_some_and(|umask| umask > UMASK_MAX) {
        return Err(Malformed("the umask"));
    }
    Ok(())
}

/// The descriptors that are sent with a program: the memory buffer if it has one, and the file that is its standard input.
pub(crate) fn descriptors(program: &Program) -> Vec<BorrowedFd<'_>> {
    let stdin = match &program.stdin {
        Stdin::File(file) => Some(file),
        Stdin::Null | Stdin::Pipe => None,
    };
    program.memory.iter().chain(stdin).map(OwnedFd::as_fd).collect()
}

/// The descriptors that go with a program, in the order of its message.
pub(crate) fn descriptors_of(program: Program) -> Vec<OwnedFd> {
    let stdin = match program.stdin {
        Stdin::File(file) => Some(file),
        Stdin::Null | Stdin::Pipe => None,
    };
    program.memory.into_iter().chain(stdin).collect()
}

/// Whether a mark can belong to one process: all processes that have it in their environment are killed. Other marks are ignored.
fn is_mark(mark: &str, environment: &[u8]) -> bool {
    let is_random = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'-');
    MARK_BYTES.contains(&mark.len())
        && mark.bytes().all(is_random)
        && memmem::find(environment, mark.as_bytes()).is_some()
}

/// The seals of a memory file that nobody can change any more.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE);

/// Puts a program into a memory file. Fails with `E2BIG` if it is larger than any that can be executed.
pub(crate) fn store(program: &[u8]) -> io::Result<OwnedFd> {
    if program.len() as u64 > PROGRAM_BYTES_MAX {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let memory = memfd_create("sluice-program", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(memory);
    file.write_all(program)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

pub(crate) fn load(file: OwnedFd) -> Result<Vec<u8>, Malformed> {
    const REFUSED: Malformed = Malformed("the memory file");
    // It fails for every other kind of file, of which reading could block.
    if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS)) {
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
