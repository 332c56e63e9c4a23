//! What every test here leans on: a server of its own, a client of raw bytes, and a look at what is left behind.
//!
//! ```text
//! let server = Setup::new().script("hello", "printf 'Content-Type: text/plain\n\nhello'").start();
//! let response = server.get("/cgi-bin/hello");
//! assert_eq!((response.status, response.text()), (200, "hello"));
//! ```
//! A [`Setup`] is a fresh folder with a configuration in it: files below `htdocs` (the site's root), programs in
//! `htdocs/cgi-bin`, answered at `/cgi-bin/*` as CGI and at `/cgiplus-bin/*` as CGIplus; keys of limits, routes and log
//! are added as TOML text. `start` gives a [`Server`]: the real binary on a port of its own. When that is dropped it
//! is asked once more whether it is well: it answers, its descriptors are as many as at its start, it ends on SIGTERM with
//! status 0, and no process of any script is left. So every test is a test of that too, without a word.
//!
//! Scripts find two variables beside those of the request: `$TEST_DIR`, the folder of the setup, where they meet the test
//! in FIFOs, and `$SLUICE_TEST_MARK`, by which the harness finds them, their children and grandchildren.
//!
//! A [`Client`] sends bytes as they are and reads [`Response`]s, each with a verdict: complete or cut.
//!
//! Nobody sleeps. To learn that a script has come to a point let it write a line to a FIFO ([`Setup::listen`] gives the
//! [`Listener`]); to hold it there let it read from one ([`Setup::gate`] gives the [`Gate`]); a listener also tells when
//! all who held its FIFO open are gone. Lines of the server's log are waited for ([`Server::log_line`]). Only what has no
//! event (the process table, descriptors) is looked at again and again by [`wait_until`]. Every wait ends at [`DEADLINE`].
//!
//! Programs are started and executable files written only through here ([`spawn`], [`write_script`]): see `program`.

mod client;
mod fifo;
mod kit;
mod lines;
mod processes;
mod program;
mod response;
mod server;
mod setup;
mod tls;

use std::time::{Duration, Instant};

pub(crate) use client::Client;
pub(crate) use fifo::{Gate, Listener};
pub(crate) use kit::python;
pub(crate) use lines::complaints;
pub(crate) use processes::is_alive;
pub(crate) use program::{Ran, run, signal, spawn, write_script, write_with_mode};
pub(crate) use response::{Ending, Response};
pub(crate) use server::Server;
pub(crate) use setup::{Setup, make_old};
pub(crate) use tls::{Authority, TlsClient, curl};

/// How long anything may take that must happen: far longer than it does on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Waits for what has no event to wait for. False when it has not come true within [`DEADLINE`].
#[must_use]
pub(crate) fn wait_until(condition: impl FnMut() -> bool) -> bool {
    wait_until_within(DEADLINE, condition)
}

/// As [`wait_until`], with a deadline of its own.
#[must_use]
pub(crate) fn wait_until_within(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
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
