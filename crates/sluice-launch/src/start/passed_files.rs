//! The files that a server process passes with a program: the memory buffer, and the stored body that is its standard input.
//!
//! A script of another user gets them as its own (`channels`), so they must be files that the server process has made: regular files without a name, of
//! the server's user. Anything else, such as a named pipe by which root gets commands, would change its owner.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, fstat};

use crate::policy::run_as::Refusal;
use crate::start::program::{Program, Stdin};

/// Checks the files of a program for another user than the launcher's. `server` is the user of the server process.
pub(crate) fn check(program: &Program, server: u32) -> Result<(), Refusal> {
    let stdin = match &program.stdin {
        Stdin::File(file) => Some(file),
        Stdin::Null | Stdin::Pipe => None,
    };
    match program.memory.iter().chain(stdin).all(|file| is_own(file, server)) {
        true => Ok(()),
        false => Err(Refusal(
            "its memory buffer or the file of its standard input was not made by the server process".to_owned(),
        )),
    }
}

fn is_own(file: &OwnedFd, server: u32) -> bool {
    fstat(file).is_ok_and(|about| {
        let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        is_file && about.st_nlink == 0 && about.st_uid == server
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::users::own_user::own_uid;

    #[test]
    fn files_without_a_name_of_the_server_are_its_own_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let nameless: OwnedFd = tempfile::tempfile().unwrap().into();
        assert!(is_own(&nameless, own_uid()));
        assert!(!is_own(&nameless, own_uid() + 1));
        // SAFETY: the name is NUL-terminated.
        let memory = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the kernel has just created it; nothing else owns it.
        let memory = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(memory) };
        assert!(is_own(&memory, own_uid()));
        let named = File::create(directory.path().join("named")).unwrap();
        let pipe = directory.path().join("pipe");
        let text = std::ffi::CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o666) }, 0);
        let pipe = File::options().read(true).write(true).open(pipe).unwrap();
        for other in [named, pipe, File::open("/dev/null").unwrap(), File::open("/").unwrap()] {
            assert!(!is_own(&other.into(), own_uid()));
        }
    }
}
