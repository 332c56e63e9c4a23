//! Messages that the system does not let pass.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::channel;

use super::*;
use crate::wire::service::tests::{DEADLINE, program};

/// Makes the buffer of a socket as small as the system permits, so that larger messages fail with EMSGSIZE.
fn shrink(socket: &OwnedFd) {
    let size: libc::c_int = 1;
    let bytes = libc::socklen_t::try_from(size_of_val(&size)).unwrap();
    // SAFETY: the kernel reads a number.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const size).cast(),
            bytes,
        )
    };
    assert_eq!(set, 0);
}

#[test]
fn a_start_that_the_socket_refuses_fails_and_later_messages_pass() {
    let (near, far) = launcher_sockets().unwrap();
    shrink(&near);
    let launcher = RemoteLauncher::start(near).unwrap();
    let mut large = program(&["/bin/true"]);
    large.environment = vec![b'x'; 20_000];
    let (sender, outcomes) = channel();
    launcher.launch(large, "", move |started| drop(sender.send(started.map(|_| ()))));
    let refused = outcomes.recv_timeout(DEADLINE).unwrap();
    assert_eq!(refused.map_err(|error| error.errno()), Err(libc::EMSGSIZE));
    launcher.launch(program(&["/bin/true"]), "", |_| {});
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let began = Instant::now();
    while !matches!(receive(far.as_fd(), &mut buffer), Ok(Some(_))) {
        assert!(began.elapsed() < DEADLINE, "the next message does not pass");
        thread::yield_now();
    }
}
