//! The test harness: starts a server per test, sends it raw bytes, and checks what it leaves behind.
//!
//! ```text
//! let server = Setup::new().script("hello", "printf 'Content-Type: text/plain\n\nhello'").start();
//! let response = server.get("/cgi-bin/hello");
//! assert_eq!((response.status, response.text()), (200, "hello"));
//! ```
//! A [`Setup`] is a fresh directory with a configuration: files below `htdocs` (the site's root), programs in
//! `htdocs/cgi-bin`, answered at `/cgi-bin/*` as CGI and at `/cgiplus-bin/*` as CGIplus; keys of limits, routes and
//! log are added as TOML text. `start` gives a [`Server`]: the real binary on its own port. Dropping it checks that it is healthy: it answers, has no more
//! descriptors open than at its start, exits with status 0 on SIGTERM, and leaves no script process behind. Every test thus checks this too.
//!
//! Scripts get two variables beside those of the request: `$TEST_DIR`, the setup's directory, which holds the FIFOs shared with the test, and
//! `$SLUICE_TEST_MARK`, by which the harness finds scripts, their children and grandchildren.
//!
//! A [`Client`] sends raw bytes and reads [`Response`]s, each marked as complete or truncated.
//!
//! Tests do not sleep. To learn that a script has reached a point, let it write a line to a FIFO ([`Setup::event_fifo`] gives the [`FifoReader`]); to hold it
//! there, let it read from one ([`Setup::gate`] gives the [`Gate`]). A reader also reports when every process that had its FIFO open is gone.
//! [`Server::log_line`] waits for a line of the server's log. Only what has no event (the process table, descriptors) is polled, by [`wait_until`]. Every
//! wait ends at [`DEADLINE`].
//!
//! [`binary`] is the program under test, which cargo builds before the tests of the crate `sluice`. Start programs and write
//! executable files only with [`spawn`] and [`write_script`]; `program` says why.

// Clippy does not recognise test code outside of functions marked `#[test]`.
#![allow(clippy::unwrap_used)]

mod client;
mod fifo;
mod held_directory;
mod kit;
mod lease;
mod lines;
mod processes;
mod program;
mod response;
mod running;
mod server;
mod setup;
mod silent_fuse;
mod tls;
mod tmpfs;
mod watcher;

use std::time::{Duration, Instant};

pub use client::Client;
pub use fifo::{FifoReader, Gate};
pub use held_directory::HeldDirectory;
pub use kit::{KIT, python};
pub use lease::Leases;
pub use lines::warnings_and_errors;
pub use processes::{FAMILY, child_of, is_alive, launchers_of};
pub use program::{
    RunResult, binary, run, run_command, signal, sluice, sluice_after, spawn, write_script, write_with_mode,
};
pub use response::{Ending, Response};
pub use running::{SLOW, request, top};
pub use server::{Ended, Server};
pub use setup::{Setup, make_old};
pub use silent_fuse::SilentFuse;
pub use tls::{Authority, TlsClient, curl};
pub use tmpfs::Tmpfs;
pub use watcher::Watcher;

/// The longest wait for something that must happen: far longer than it takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Polls a condition that has no event. False if it has not become true within [`DEADLINE`].
#[must_use]
pub fn wait_until(condition: impl FnMut() -> bool) -> bool {
    wait_until_within(DEADLINE, condition)
}

/// Polls a condition as [`wait_until`] does, with another deadline.
#[must_use]
pub fn wait_until_within(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if begin.elapsed() > deadline {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
