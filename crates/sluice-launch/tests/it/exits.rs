//! How processes end, and which end with the launcher.

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sluice_launch::{Credentials, Exit, Launcher, Signal, Started, has_exited, kill_group, reap};

use crate::harness::{
    DEADLINE, exit_of, output_of, program, read_line, read_to_end, shell, start, start_with, wait_readable,
};

/// A pidfd for the process whose pid the script has printed.
fn pidfd_of(line: &str) -> std::os::fd::OwnedFd {
    let pid = Pid::from_raw(line.parse().unwrap()).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

#[test]
fn an_exit_code_is_reaped_once() {
    let started = start(shell("exit 42")).unwrap();
    assert_eq!(exit_of(&started), Exit::Code(42));
    let error = reap(started.pidfd.as_fd()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
    assert!(has_exited(started.pidfd.as_fd()).unwrap());
}

#[test]
fn a_signal_that_killed_a_script_is_reported() {
    let started = start(shell("kill -SEGV $$")).unwrap();
    assert_eq!(exit_of(&started), Exit::Signal(libc::SIGSEGV));
}

#[test]
fn a_running_process_has_no_exit_and_has_exited_does_not_reap() {
    let mut started = start(shell("read line <&3; exit 3")).unwrap();
    let pidfd = started.pidfd.try_clone().unwrap();
    assert!(!has_exited(pidfd.as_fd()).unwrap());
    assert_eq!(reap(pidfd.as_fd()).unwrap(), None);
    // End-of-file on CGIPLUSIN.
    started.cgiplusin = rustix::fs::open("/dev/null", rustix::fs::OFlags::CLOEXEC, 0.into()).unwrap();
    wait_readable(pidfd.as_fd());
    assert!(has_exited(pidfd.as_fd()).unwrap());
    assert_eq!(reap(pidfd.as_fd()).unwrap(), Some(Exit::Code(3)));
}

#[test]
fn sigterm_can_be_handled() {
    let started = start(shell("trap 'exit 7' TERM; echo ready; read line <&3")).unwrap();
    assert_eq!(read_line(&started.mailbox), "ready");
    kill_group(started.pid, Signal::Terminate).unwrap();
    assert_eq!(exit_of(&started), Exit::Code(7));
}

#[test]
fn kill_group_reaches_the_scripts_children() {
    let started = start(shell("sleep 100 & echo $!; wait")).unwrap();
    let child = pidfd_of(&read_line(&started.mailbox));
    kill_group(started.pid, Signal::Kill).unwrap();
    wait_readable(child.as_fd());
    assert_eq!(exit_of(&started), Exit::Signal(libc::SIGKILL));
}

#[test]
fn kill_group_reaches_children_that_outlive_an_unreaped_script() {
    let started = start(shell("sleep 100 & echo $!")).unwrap();
    let child = pidfd_of(&read_line(&started.mailbox));
    wait_readable(started.pidfd.as_fd());
    kill_group(started.pid, Signal::Kill).unwrap();
    wait_readable(child.as_fd());
    assert_eq!(exit_of(&started), Exit::Code(0));
}

#[test]
fn a_script_is_killed_with_the_launcher_even_as_another_user() {
    let other = Credentials { uid: 64_001, gid: 64_001, groups: Vec::new() };
    let privileged = rustix::process::geteuid().is_root();
    for credentials in [None, privileged.then_some(other)] {
        let launcher = Launcher::start(1).unwrap();
        let mut program = program("/bin/sleep", &["sleep", "100"]);
        program.credentials = credentials;
        let started = start_with(&launcher, program).unwrap();
        drop(launcher);
        assert_eq!(exit_of(&started), Exit::Signal(libc::SIGKILL));
    }
}

#[test]
fn dropping_a_launcher_finishes_queued_starts() {
    let launcher = Launcher::start(2).unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..20 {
        let sender = sender.clone();
        launcher.launch(shell("exit 0"), move |result| sender.send(result).unwrap());
    }
    drop(launcher);
    let started: Vec<Started> = receiver.try_iter().map(Result::unwrap).collect();
    assert_eq!(started.len(), 20);
    for process in &started {
        exit_of(process);
    }
}

#[test]
fn concurrent_starts_do_not_mix_their_channels() {
    let launcher = Launcher::start(4).unwrap();
    let (sender, receiver) = mpsc::channel();
    for number in 0..200_u32 {
        let sender = sender.clone();
        let script = format!("read order <&3; echo \"{number} $order\"");
        launcher.launch(shell(&script), move |result| {
            sender.send((number, result.unwrap())).unwrap();
        });
    }
    for _ in 0..200 {
        let (number, started) = receiver.recv_timeout(DEADLINE).unwrap();
        rustix::io::write(&started.cgiplusin, format!("order {number}\n").as_bytes()).unwrap();
        let expected = format!("{number} order {number}\n");
        assert_eq!(read_to_end(&started.mailbox), expected);
        assert_eq!(exit_of(&started), Exit::Code(0));
    }
}

#[test]
fn the_launcher_survives_a_panic_in_the_callback() {
    let launcher = Launcher::start(1).unwrap();
    // Not panic!, so that the hook prints nothing.
    launcher.launch(program("/nowhere", &["nowhere"]), |_| {
        std::panic::resume_unwind(Box::new("the caller's"))
    });
    let started = start_with(&launcher, shell("exit 5")).unwrap();
    assert_eq!(exit_of(&started), Exit::Code(5));
}

#[test]
fn the_launcher_may_be_dropped_on_its_own_thread() {
    let launcher = Arc::new(Launcher::start(1).unwrap());
    let (sender, receiver) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let held = Arc::clone(&launcher);
    launcher.launch(program("/nowhere", &["nowhere"]), move |_| {
        gone.recv().unwrap();
        drop(held);
        sender.send(()).unwrap();
    });
    drop(launcher);
    go.send(()).unwrap();
    receiver.recv_timeout(DEADLINE).unwrap();
}

#[test]
fn a_launcher_needs_at_least_one_thread() {
    let error = Launcher::start(0).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn scripts_share_one_null_device() {
    for _ in 0..20 {
        assert_eq!(output_of(shell("cat; echo end")), "end\n");
    }
}
