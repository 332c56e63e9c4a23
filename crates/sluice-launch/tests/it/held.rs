//! Directories of a script process whose lock somebody holds: neither starts nor ends of other processes wait for it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use sluice_launch::{Cgroups, Confinement, Exit, Launcher, LauncherSettings, Started};

use crate::confinement::skip;
use crate::harness::{DEADLINE, exit_of, is_readable_within, read_to_end, shell, start_with, wait_readable};

/// A user of whom nothing else is.
const USER: u32 = 64_323;

/// Holds the lock of a directory, as any user can who may open it: getdents64(2) into memory that does not answer (userfaultfd(2); FUSE for a user who is not
/// root). Whoever changes the directory waits.
pub(crate) struct HeldDirectory {
    _memory_that_does_not_answer: OwnedFd,
}

impl HeldDirectory {
    pub(crate) fn hold(path: &Path) -> HeldDirectory {
        const BYTES: usize = 4096;
        let directory = File::open(path).unwrap();
        // SAFETY: a mapping at an address of the kernel's choice, numbers, and structures of the kernel's layout, which it reads and writes.
        let (memory, answers) = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK);
            let answers = OwnedFd::from_raw_fd(i32::try_from(fd).unwrap());
            // UFFDIO_API with version, features, calls; UFFDIO_REGISTER with start, length, mode "missing", calls.
            let mut api = [0xaa_u64, 0, 0];
            assert_eq!(libc::ioctl(answers.as_raw_fd(), 0xc018_aa3f, api.as_mut_ptr()), 0);
            let mut register = [memory as u64, BYTES as u64, 1, 0];
            assert_eq!(libc::ioctl(answers.as_raw_fd(), 0xc020_aa00, register.as_mut_ptr()), 0);
            (memory as usize, answers)
        };
        let reader = std::thread::spawn(move || {
            // SAFETY: the mapping is as large.
            unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), memory, BYTES) };
        });
        // It ends when the memory answers.
        drop(reader);
        // The page is asked for while the lock is held.
        assert!(is_readable_within(answers.as_fd(), DEADLINE));
        HeldDirectory { _memory_that_does_not_answer: answers }
    }

    /// The same, and others who only want to read it wait, too: the creation of a file queues for writing.
    pub(crate) fn hold_for_all(path: &Path) -> HeldDirectory {
        let held = HeldDirectory::hold(path);
        let file = path.join("new");
        let (sender, received) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || {
            // SAFETY: takes nothing.
            sender.send(unsafe { libc::gettid() }).unwrap();
            drop(File::create_new(file));
        });
        let thread = received.recv_timeout(DEADLINE).unwrap();
        let waits = || {
            std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).is_ok_and(|stat| stat.contains(") D "))
        };
        while !waits() {
            std::thread::yield_now();
        }
        // It ends with the reader.
        drop(writer);
        held
    }
}

fn launcher(cgroups: Option<Arc<Cgroups>>, temporary_files: PathBuf) -> Launcher {
    Launcher::start_with(LauncherSettings {
        threads: 2,
        start_timeout: sluice_launch::START_TIMEOUT,
        cgroups,
        temporary_files,
    })
    .unwrap()
}

/// Runs a script with a directory for temporary files, until its exit. The output is the directory.
fn run(launcher: &Launcher, has_private_tmp: bool) -> (Started, String) {
    let mut program = shell("echo $TMPDIR; grep ^0:: /proc/self/cgroup");
    program.confinement = Some(Arc::new(Confinement { has_private_tmp, ..Confinement::default() }));
    let started = start_with(launcher, program).unwrap();
    let output = read_to_end(&started.mailbox);
    assert_eq!(exit_of(&started), Exit::Code(0));
    (started, output)
}

/// Asserts that a thread does something, and waits no longer than for a moment.
fn assert_ends<T: Send + 'static>(what: &str, job: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(job()).unwrap());
    done.recv_timeout(DEADLINE / 3)
        .unwrap_or_else(|_| panic!("{what} waits"))
}

#[test]
fn a_held_directory_for_temporary_files_stops_no_other_start() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let launcher = Arc::new(launcher(None, parent.path().to_owned()));
    let (started, _) = run(&launcher, true);
    let held = HeldDirectory::hold(started.temporary.as_ref().unwrap().path());
    let (sender, removed) = mpsc::channel();
    thread::spawn(move || {
        drop(started);
        sender.send(()).unwrap();
    });
    for _ in 0..3 {
        let launcher = Arc::clone(&launcher);
        let path = assert_ends("a start", move || run(&launcher, true).1);
        assert!(!Path::new(path.trim()).exists(), "{path} is left");
    }
    assert!(removed.try_recv().is_err(), "the directory is not held");
    drop(held);
    removed.recv_timeout(DEADLINE).unwrap();
}

#[test]
fn a_held_cgroup_stops_no_other_start_and_is_not_given_to_another_user() {
    let cgroups = match Cgroups::open() {
        Ok(cgroups) if rustix::process::geteuid().is_root() => cgroups,
        Ok(_) => return,
        Err(why) => {
            skip(&why.to_string());
            return;
        }
    };
    let path = cgroups.path().to_owned();
    let launcher = Arc::new(launcher(Some(cgroups), std::env::temp_dir()));
    let (started, name) = run(&launcher, false);
    assert!(name.trim().ends_with("/script"), "{name}");
    let inner = path
        .join(Path::new(name.trim()).ancestors().nth(1).unwrap().file_name().unwrap())
        .join("script");
    let held = HeldDirectory::hold(&inner);
    let (sender, removed) = mpsc::channel();
    thread::spawn(move || {
        // As after a script that leaves processes behind.
        let _ = started.cgroup.as_ref().unwrap().end();
        drop(started);
        sender.send(()).unwrap();
    });
    for _ in 0..3 {
        let launcher = Arc::clone(&launcher);
        let other = assert_ends("a start", move || run(&launcher, false).1);
        assert_ne!(other, name);
    }
    assert!(removed.try_recv().is_err(), "the cgroup is not held");
    drop(held);
    removed.recv_timeout(DEADLINE).unwrap();
    assert!(!inner.exists());

    let (first, name) = run(&launcher, false);
    assert!(!first.cgroup.as_ref().unwrap().has_processes());
    drop(first);
    let mut program = shell("grep ^0:: /proc/self/cgroup");
    program.credentials = Some(sluice_launch::Credentials { uid: USER, gid: USER, groups: Vec::new() });
    let started = start_with(&launcher, program).unwrap();
    wait_readable(started.pidfd.as_fd());
    assert_ne!(read_to_end(&started.mailbox), name.lines().last().unwrap());
    assert_eq!(exit_of(&started), Exit::Code(0));
    drop((started, launcher));
    assert!(!path.exists());
}
