//! Starts that fail: stage, errno, and that the launcher continues.

use std::ffi::CString;
use std::path::Path;

use sluice_launch::{LaunchError, Mailbox, ProcessLimits, Program, Stage};

use crate::harness::{output_of, program, shell, start, write_script};

fn failure_of(program: Program) -> (Stage, i32) {
    let LaunchError { stage, errno } = start(program).expect_err("must not start");
    (stage, errno)
}

fn program_at(path: &Path) -> Program {
    program(path.to_str().unwrap(), &["script"])
}

#[test]
fn a_missing_program_and_a_missing_interpreter_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    assert_eq!(failure_of(program_at(&missing)), (Stage::Exec, libc::ENOENT));
    let script = write_script(directory.path(), "script", "#!/nowhere/sh\n", 0o755);
    assert_eq!(failure_of(program_at(&script)), (Stage::Exec, libc::ENOENT));
}

#[test]
fn a_file_that_is_not_executable_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let script = write_script(directory.path(), "script", "#!/bin/sh\n", 0o644);
    assert_eq!(failure_of(program_at(&script)), (Stage::Exec, libc::EACCES));
    let error = start(program_at(directory.path())).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::EACCES));
    assert!(error.is_script_fault());
}

#[test]
fn a_script_without_interpreter_line_is_reported_and_not_run_by_a_shell() {
    let directory = tempfile::tempdir().unwrap();
    let script = write_script(directory.path(), "script", "echo hello\n", 0o755);
    let error = start(program_at(&script)).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::ENOEXEC));
    assert!(error.to_string().contains("no #! line"), "{error}");
}

#[test]
fn a_working_directory_that_cannot_be_entered_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = write_script(directory.path(), "file", "", 0o644);
    for (directory, errno) in [(directory.path().join("missing"), libc::ENOENT), (file, libc::ENOTDIR)] {
        let mut program = shell("exit");
        program.directory = CString::new(directory.to_str().unwrap()).unwrap();
        assert_eq!(failure_of(program), (Stage::Directory, errno));
    }
}

#[test]
fn a_malformed_environment_is_refused() {
    for environment in ["A=1", "A=1\0B", "A=1\0\0", "A=1\0B\0", "=1\0", "\0"] {
        let mut program = shell("exit");
        program.environment = environment.as_bytes().to_vec();
        let refused = (Stage::Environment, libc::EINVAL);
        assert_eq!(failure_of(program), refused, "{environment:?}");
    }
}

#[test]
fn a_limit_above_what_the_system_allows_is_reported() {
    let mut program = shell("exit");
    program.limits = ProcessLimits {
        // Above fs.nr_open, which applies to root as well.
        open_files_max: Some(u64::MAX - 1),
        ..ProcessLimits::default()
    };
    assert_eq!(failure_of(program), (Stage::Limits, libc::EPERM));
}

#[test]
fn records_larger_than_the_system_allows_are_reported() {
    for record_bytes_max in [1 << 30, usize::MAX] {
        let mut program = shell("exit");
        program.mailbox = Mailbox::Record { record_bytes_max };
        assert_eq!(failure_of(program), (Stage::Channels, libc::EMSGSIZE));
    }
}

#[test]
fn too_large_an_environment_is_reported() {
    let mut program = shell("exit");
    // One entry may have at most 128 KiB (MAX_ARG_STRLEN in execve(2)).
    program.environment = [b"A=".as_slice(), &[b'x'; 256 * 1024], b"\0"].concat();
    let error = start(program).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::E2BIG));
    assert!(!error.is_script_fault());
}

#[test]
fn the_next_start_after_a_failure_succeeds() {
    for _ in 0..10 {
        assert!(start(program("/nowhere", &["nowhere"])).is_err());
        assert_eq!(output_of(shell("echo fine")), "fine\n");
    }
}
