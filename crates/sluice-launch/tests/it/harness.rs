//! Helpers: programs to start, and reading from them. Every wait has a deadline.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{RwLock, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use sluice_launch::{Exit, LaunchError, Launcher, Mailbox, ProcessLimits, Program, Started, Stdin, reap};

/// The time limit of every wait, far longer than anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// While a child is being started, it briefly holds copies of the descriptors of all tests, so a file that one of them
/// writes cannot be executed (ETXTBSY). Locked shared to start, exclusively to write.
static STARTING: RwLock<()> = RwLock::new(());

/// A program without a body, in `/`, with an empty environment.
pub(crate) fn program(path: &str, arguments: &[&str]) -> Program {
    let text = |text: &str| CString::new(text).unwrap();
    Program {
        path: text(path),
        arguments: arguments.iter().map(|argument| text(argument)).collect(),
        environment: Vec::new(),
        directory: text("/"),
        stdin: Stdin::Null,
        mailbox: Mailbox::Stream,
        memory: Some(memory()),
        is_kept: false,
        run_as: sluice_launch::RunAs::Usual,
        credentials: None,
        limits: ProcessLimits::default(),
        confinement: None,
    }
}

/// A shell script, passed on the command line.
pub(crate) fn shell(script: &str) -> Program {
    let mut program = program("/bin/sh", &["sh", "-c", script]);
    program.environment = b"PATH=/usr/bin:/bin\0".to_vec();
    program
}

/// A memfd for descriptor 4.
pub(crate) fn memory() -> OwnedFd {
    memfd_create("sluice-test", MemfdFlags::CLOEXEC).unwrap()
}

/// Starts a program with a launcher that lives until the test process ends, because its processes end with it.
pub(crate) fn start(program: Program) -> Result<Started, LaunchError> {
    static LAUNCHER: std::sync::LazyLock<Launcher> = std::sync::LazyLock::new(|| Launcher::start(2).unwrap());
    start_with(&LAUNCHER, program)
}

pub(crate) fn start_with(launcher: &Launcher, program: Program) -> Result<Started, LaunchError> {
    let _starting = STARTING.read().unwrap();
    let (sender, receiver) = mpsc::channel();
    launcher.launch(program, move |result| sender.send(result).unwrap());
    receiver.recv_timeout(DEADLINE).unwrap()
}

/// Starts a program, reads all of its mailbox, and asserts exit code 0.
pub(crate) fn output_of(program: Program) -> String {
    let started = start(program).unwrap();
    let output = read_to_end(&started.mailbox);
    let errors = read_to_end(&started.stderr);
    assert_eq!(exit_of(&started), Exit::Code(0), "{output}{errors}");
    output
}

/// Waits for the end of the process and reaps it.
pub(crate) fn exit_of(started: &Started) -> Exit {
    wait_readable(started.pidfd.as_fd());
    reap(started.pidfd.as_fd()).unwrap().expect("it has exited")
}

/// Reads from a non-blocking descriptor up to end-of-file.
pub(crate) fn read_to_end(end: &OwnedFd) -> String {
    let mut text = Vec::new();
    loop {
        let chunk = read_some(end);
        if chunk.is_empty() {
            return String::from_utf8(text).unwrap();
        }
        text.extend_from_slice(&chunk);
    }
}

/// Reads one line, without its LF; the script must not have written anything after it.
pub(crate) fn read_line(end: &OwnedFd) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\n") {
        let chunk = read_some(end);
        assert!(!chunk.is_empty(), "end of file inside a line");
        text.extend_from_slice(&chunk);
    }
    String::from_utf8(text).unwrap().trim_end().to_owned()
}

/// The result of one read (one record of a record mailbox); empty at end-of-file.
pub(crate) fn read_some(end: &OwnedFd) -> Vec<u8> {
    wait_readable(end.as_fd());
    let mut buffer = vec![0; 512 * 1024];
    let bytes = rustix::io::read(end, &mut buffer).unwrap();
    buffer.truncate(bytes);
    buffer
}

pub(crate) fn wait_readable(end: BorrowedFd<'_>) {
    assert!(is_readable_within(end, DEADLINE), "nothing to read before the deadline");
}

pub(crate) fn is_readable_within(end: BorrowedFd<'_>, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap();
        match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.unwrap() > 0,
        }
    }
}

/// Writes a file with this mode, such as an executable script.
pub(crate) fn write_script(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let _writing = STARTING.write().unwrap();
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// Runs a test in a process of its own, and fails if it fails there.
pub(crate) fn run_isolated(name: &str, test: impl FnOnce()) {
    const VARIABLE: &str = "SLUICE_LAUNCH_TEST_ISOLATED";
    if std::env::var_os(VARIABLE).is_some() {
        return test();
    }
    let output = command_for(name).env(VARIABLE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A command that runs one test of this test program.
pub(crate) fn command_for(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

/// The numbers of this process's open descriptors.
pub(crate) fn open_descriptors() -> io::Result<Vec<String>> {
    let mut numbers: Vec<String> = fs::read_dir("/proc/self/fd")?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    numbers.sort();
    Ok(numbers)
}
