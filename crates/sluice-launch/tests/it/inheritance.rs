//! Inheritance: the state that a program gets from the server, and the state that it must not get.

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_getfd};
use sluice_launch::{Credentials, LaunchError, ProcessLimits, Stage, Stdin};

use crate::harness::{exit_of, output_of, program, read_to_end, shell, start};

/// The descriptors in the output of `ls -l /proc/self/fd`: number and target.
fn listed_descriptors(listing: &str) -> Vec<(u32, String)> {
    listing
        .lines()
        .filter_map(|line| {
            let (head, target) = line.split_once(" -> ")?;
            let number = head.rsplit(' ').next()?.parse().ok()?;
            Some((number, target.to_owned()))
        })
        .collect()
}

#[test]
fn a_program_has_its_five_descriptors_and_no_other() {
    // Descriptors without close-on-exec, as a careless library leaves them.
    let careless: Vec<OwnedFd> = (0..50)
        .map(|_| {
            let file = std::fs::File::open("/dev/zero").unwrap();
            // SAFETY: takes an open descriptor; the result is new and has no other owner.
            unsafe { OwnedFd::from_raw_fd(libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file))) }
        })
        .collect();
    for descriptor in &careless {
        assert_eq!(fcntl_getfd(descriptor).unwrap(), FdFlags::empty());
    }
    let listing = output_of(program("/bin/ls", &["ls", "-l", "/proc/self/fd"]));
    let found = listed_descriptors(&listing);
    let numbers: Vec<u32> = found.iter().map(|(number, _)| *number).collect();
    // 5 is the directory that ls reads.
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5], "{listing}");
    assert_eq!(found[0].1, "/dev/null");
    for ((_, target), kind) in found[1..4].iter().zip(["socket:[", "pipe:[", "pipe:["]) {
        assert!(target.starts_with(kind), "{listing}");
    }
    assert!(found[4].1.starts_with("/memfd:sluice-test"), "{listing}");
    assert!(found[5].1.starts_with("/proc/"), "{listing}");
    assert_ne!(found[2].1, found[3].1, "two different pipes");
}

#[test]
fn a_program_that_is_kept_has_a_socket_more_on_which_it_cannot_send() {
    let script = "ls -l /proc/self/fd; (echo sent) >&5 || echo refused";
    let mut program = shell(script);
    program.is_kept = true;
    program.stdin = Stdin::Pipe;
    let output = output_of(program);
    let found = listed_descriptors(&output);
    let numbers: Vec<u32> = found.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers[..6], [0, 1, 2, 3, 4, 5], "{output}");
    assert!(found[5].1.starts_with("socket:["), "{output}");
    assert_ne!(found[1].1, found[5].1, "another one than the mailbox");
    assert!(output.ends_with("refused\n"), "{output}");
}

#[test]
fn no_signal_is_ignored_or_blocked() {
    let mask = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap()
    };
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    assert_ne!(mask(&own, "SigIgn:") & (1 << (libc::SIGPIPE - 1)), 0);
    let status = output_of(program("/bin/cat", &["cat", "/proc/self/status"]));
    for name in ["SigIgn:", "SigBlk:", "SigPnd:", "ShdPnd:"] {
        assert_eq!(mask(&status, name), 0, "{name}");
    }
}

#[test]
fn a_script_leads_its_own_session_and_process_group() {
    let started = start(program("/bin/cat", &["cat", "/proc/self/stat"])).unwrap();
    let stat = read_to_end(&started.mailbox);
    exit_of(&started);
    // pid (name) state ppid pgrp session: proc_pid_stat(5).
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let pid = started.pid.to_string();
    assert_eq!(fields[2..4], [pid.as_str(), pid.as_str()]);
}

#[test]
fn the_environment_is_exactly_the_given_one() {
    let mut program = program("/usr/bin/env", &["env"]);
    program.environment = b"QUERY_STRING=\0A=1\0A_B=two words = \xc3\xa9\0".to_vec();
    let expected = "QUERY_STRING=\nA=1\nA_B=two words = \u{e9}\n";
    assert_eq!(output_of(program), expected);
    let empty = super::harness::program("/usr/bin/env", &["env"]);
    assert_eq!(output_of(empty), "");
}

#[test]
fn arguments_arrive_unchanged() {
    let script = "printf '<%s>' \"$0\" \"$@\"";
    let arguments = ["sh", "-c", script, "name", "", "two words", "*"];
    assert_eq!(output_of(program("/bin/sh", &arguments)), "<name><><two words><*>");
}

#[test]
fn relative_programs_are_resolved_in_the_working_directory() {
    let directory = tempfile::tempdir().unwrap();
    let text = "#!/bin/sh\npwd -P\numask\n";
    super::harness::write_script(directory.path(), "where", text, 0o755);
    let mut program = program("./where", &["where"]);
    program.directory = std::ffi::CString::new(directory.path().to_str().unwrap()).unwrap();
    let expected = directory.path().canonicalize().unwrap();
    assert_eq!(output_of(program), format!("{}\n0022\n", expected.display()));
}

#[test]
fn limits_apply_to_the_script_and_not_to_the_server() {
    let own = std::fs::read_to_string("/proc/self/limits").unwrap();
    let mut program = program("/bin/cat", &["cat", "/proc/self/limits"]);
    program.limits = ProcessLimits {
        memory_bytes_max: Some(1 << 30),
        cpu_seconds_max: Some(5),
        open_files_max: Some(64),
        processes_max: None,
        file_bytes_max: Some(1 << 20),
        core_bytes_max: Some(0),
    };
    let limits = output_of(program);
    let bounds = |limits: &str, name: &str| -> Vec<String> {
        let line = limits.lines().find_map(|line| line.strip_prefix(name));
        let words = line.unwrap().split_whitespace().take(2);
        words.map(str::to_owned).collect()
    };
    assert_eq!(bounds(&limits, "Max address space"), ["1073741824", "1073741824"]);
    assert_eq!(bounds(&limits, "Max cpu time"), ["5", "6"]);
    assert_eq!(bounds(&limits, "Max open files"), ["64", "64"]);
    assert_eq!(bounds(&limits, "Max file size"), ["1048576", "1048576"]);
    assert_eq!(bounds(&limits, "Max core file size"), ["0", "0"]);
    let processes = "Max processes";
    assert_eq!(bounds(&limits, processes), bounds(&own, processes));
    assert_eq!(
        std::fs::read_to_string("/proc/self/limits").unwrap(),
        own,
        "the server's own"
    );
}

#[test]
fn root_can_start_as_another_user_and_others_cannot() {
    let mut program = shell("id -u; id -g; id -G");
    program.credentials = Some(Credentials { uid: 64_001, gid: 64_002, groups: vec![64_003] });
    if rustix::process::geteuid().is_root() {
        assert_eq!(output_of(program), "64001\n64002\n64002 64003\n");
        // Only the child changed its user, no thread of this process.
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let status = task.unwrap().path().join("status");
            // A thread may end between listing and reading.
            if let Ok(status) = std::fs::read_to_string(status) {
                assert!(status.contains("Uid:\t0\t0\t0\t0\n"), "{status}");
            }
        }
    } else {
        let refused = LaunchError { stage: Stage::Credentials, errno: libc::EPERM };
        assert_eq!(start(program).unwrap_err(), refused);
    }
}
