//! The server process by itself, with the test as its supervisor.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use socket2::{Domain, Socket, Type};

use sluice_testing::{Setup, run_command, sluice, spawn};

const START: &str = r#".{"Start":{"file":"sluice.toml","sockets":[1],"has_control":false,
"supervisor":{"pid":1,"restarts":0,"last_end":null},"alive_interval_ms":null}}"#;

/// Starts a server process with a message and descriptors. Returns what it says, and its exit status.
fn said(setup: &Setup, message: &str, fds: &[OwnedFd]) -> (String, ExitStatus) {
    let (near, far) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    let mut command = sluice(setup.directory());
    command.arg0("sluice: server").stdin(Stdio::from(OwnedFd::from(far)));
    let mut child = spawn(&mut command).unwrap();
    drop(command);
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let parts = [std::io::IoSlice::new(message.as_bytes())];
    sendmsg(&near, &parts, &mut ancillary, SendFlags::empty()).unwrap();
    let mut answer = [0; 10_000];
    let bytes = (&near).read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..bytes]).into_owned();
    drop(near);
    (answer, child.wait().unwrap())
}

#[test]
fn files_that_a_server_process_cannot_parse_are_reported_to_the_supervisor() {
    let setup = Setup::new();
    setup.write_configuration();
    let mut bundle = tempfile::tempfile().unwrap();
    bundle.write_all(b"sluice bundle 0\nof another version").unwrap();
    let (answer, status) = said(&setup, START, &[bundle.into()]);
    assert!(
        answer.contains(r#""Failed":"the files of the configuration were handed over in a form"#),
        "{answer}"
    );
    assert_eq!(status.code(), Some(1));
    let (answer, status) = said(&setup, START, &[]);
    assert!(answer.contains("too few descriptors"), "{answer}");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_server_process_started_by_hand_says_so() {
    let setup = Setup::new();
    let mut command = sluice(setup.directory());
    let ran = run_command(command.arg0("sluice: server"));
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("started by `sluice run`, not by hand"),
        "{}",
        ran.errors
    );
}
