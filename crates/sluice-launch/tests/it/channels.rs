//! The channels of a script process, from both ends.

use std::io::Write;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{FdFlags, fcntl_getfd};
use sluice_launch::{Exit, Mailbox, Stdin};

use crate::harness::{exit_of, output_of, program, read_some, read_to_end, shell, start};

#[test]
fn stdin_mailbox_stderr_and_cgiplusin_are_separate_channels() {
    let mut program = shell("cat; read line <&3; echo \"got $line\"; echo oops >&2");
    program.stdin = Stdin::Pipe;
    let mut started = start(program).unwrap();
    let input = started.stdin.take().expect("a pipe was asked for");
    rustix::io::write(&input, b"body\n").unwrap();
    drop(input);
    rustix::io::write(&started.cgiplusin, b"line\n").unwrap();
    assert_eq!(read_to_end(&started.mailbox), "body\ngot line\n");
    assert_eq!(read_to_end(&started.stderr), "oops\n");
    assert_eq!(exit_of(&started), Exit::Code(0));
}

#[test]
fn closing_cgiplusin_is_end_of_file_for_the_script() {
    let started = start(program("/bin/cat", &["cat", "/dev/fd/3"])).unwrap();
    let sluice_launch::Started { cgiplusin, .. } = started;
    drop(cgiplusin);
    assert_eq!(read_to_end(&started.mailbox), "");
    crate::harness::wait_readable(std::os::fd::AsFd::as_fd(&started.pidfd));
    let exit = sluice_launch::reap(std::os::fd::AsFd::as_fd(&started.pidfd)).unwrap();
    assert_eq!(exit, Some(Exit::Code(0)));
}

#[test]
fn a_file_is_read_from_its_current_offset() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"skipped, then the body").unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(14)).unwrap();
    let mut program = program("/bin/cat", &["cat"]);
    program.stdin = Stdin::File(file.into());
    assert_eq!(output_of(program), "the body");
}

#[test]
fn descriptor_4_is_the_given_memory_buffer() {
    let mut program = shell("printf shared >/dev/fd/4");
    let ours = program.memory.as_ref().unwrap().try_clone().unwrap();
    program.mailbox = Mailbox::Stream;
    assert_eq!(output_of(program), "");
    let mut text = [0; 16];
    let bytes = rustix::io::pread(&ours, &mut text, 0).unwrap();
    assert_eq!(&text[..bytes], b"shared");
}

#[test]
fn descriptor_4_is_dev_null_without_a_memory_buffer() {
    let mut program = shell("readlink /proc/self/fd/4 && cat <&4");
    program.memory = None;
    assert_eq!(output_of(program), "/dev/null\n");
}

#[test]
fn each_write_to_a_record_mailbox_is_a_record() {
    let mut program = shell("printf one; printf 'two\\n'; printf three");
    program.mailbox = Mailbox::Record { record_bytes_max: 65_536 };
    let started = start(program).unwrap();
    for expected in ["one", "two\n", "three", ""] {
        assert_eq!(read_some(&started.mailbox), expected.as_bytes());
    }
    assert_eq!(exit_of(&started), Exit::Code(0));
}

#[test]
fn records_above_the_systems_default_size_fit() {
    for bytes in [65_536, 300_000] {
        let size = format!("bs={bytes}");
        let mut program = program("/bin/dd", &["dd", "if=/dev/zero", &size, "count=1"]);
        program.mailbox = Mailbox::Record { record_bytes_max: bytes };
        let started = start(program).unwrap();
        assert_eq!(read_some(&started.mailbox).len(), bytes);
        assert_eq!(exit_of(&started), Exit::Code(0));
    }
}

#[test]
fn the_servers_ends_are_nonblocking_and_close_on_exec() {
    for mailbox in [Mailbox::Stream, Mailbox::Record { record_bytes_max: 1024 }] {
        let mut program = program("/bin/cat", &["cat"]);
        program.stdin = Stdin::Pipe;
        program.mailbox = mailbox;
        let mut started = start(program).unwrap();
        let input = started.stdin.as_ref().unwrap();
        let ends = [input, &started.mailbox, &started.stderr, &started.cgiplusin];
        for end in ends {
            assert!(fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK));
            assert_eq!(fcntl_getfd(end).unwrap(), FdFlags::CLOEXEC);
        }
        assert_eq!(fcntl_getfd(&started.pidfd).unwrap(), FdFlags::CLOEXEC);
        drop(started.stdin.take());
        assert_eq!(exit_of(&started), Exit::Code(0));
    }
}

#[test]
fn the_scripts_ends_are_blocking() {
    for mailbox in [Mailbox::Stream, Mailbox::Record { record_bytes_max: 1024 }] {
        let mut program = shell("cd /proc/self/fdinfo && exec cat 0 1 2 3");
        program.stdin = Stdin::Pipe;
        program.mailbox = mailbox;
        let started = start(program).unwrap();
        let information = read_to_end(&started.mailbox);
        assert_eq!(exit_of(&started), Exit::Code(0));
        let flags: Vec<u32> = information
            .lines()
            .filter_map(|line| line.strip_prefix("flags:"))
            .map(|octal| u32::from_str_radix(octal.trim(), 8).unwrap())
            .collect();
        assert_eq!(flags.len(), 4, "{information}");
        for flags in flags {
            assert_eq!(flags & OFlags::NONBLOCK.bits(), 0, "{information}");
        }
    }
}
