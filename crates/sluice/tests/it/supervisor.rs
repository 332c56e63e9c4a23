//! Supervisor and server process: restarts, reloads with other addresses, upgrades, systemd.

mod activation;
mod addresses;
mod notify;
mod restart;
mod roles;
mod upgrade;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::harness::{Client, RunResult, Server, run, wait_until};

/// Runs a command for the server.
fn command(server: &Server, arguments: &[&str]) -> RunResult {
    run(server.setup().directory(), arguments)
}

/// The state of the server.
fn status(server: &Server) -> serde_json::Value {
    let ran = command(server, &["status", "--json"]);
    assert!(ran.status.success(), "{}", ran.errors);
    let answer: serde_json::Value = serde_json::from_str(&ran.output).unwrap();
    answer["state"].clone()
}

/// Waits for a server process that is not `old`.
fn next_server_process(server: &Server, old: u32) -> u32 {
    let mut now = old;
    let is_new = wait_until(|| {
        now = server.server_pid();
        now != old && now != server.pid()
    });
    assert!(is_new, "{}", server.log());
    now
}

/// Clients that request a file over and over, each time on a new connection.
struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Clients for which every request must be answered with these bytes.
    fn start(server: &Server, path: &'static str, expected: &'static str) -> Load {
        Load::of(server.address(), move |address| {
            let response = Client::connect(address).get(path).response();
            assert_eq!((response.status, response.text()), (200, expected));
        })
    }

    /// Clients that must be able to connect, whatever happens to their requests.
    fn connecting(server: &Server, path: &'static str) -> Load {
        Load::of(server.address(), move |address| {
            // Fails the test if it is refused.
            let mut client = Client::connect(address);
            client.try_send(format!(
                "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
            ));
            client.rest();
        })
    }

    fn of(address: SocketAddr, request: impl Fn(SocketAddr) + Clone + Send + 'static) -> Load {
        let (is_over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = || {
            let (is_over, answered, request) = (Arc::clone(&is_over), Arc::clone(&answered), request.clone());
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    request(address);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        Load {
            clients: (0..3).map(|_| client()).collect(),
            is_over,
            answered,
        }
    }

    /// Waits until some more requests were answered.
    fn goes_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        let some = wait_until(|| self.has_failed() || self.answered.load(Ordering::Relaxed) > before + 6);
        assert!(some && !self.has_failed(), "a client has failed, or waits");
    }

    fn has_failed(&self) -> bool {
        self.clients.iter().any(JoinHandle::is_finished)
    }

    /// Ends the clients; a failure of one fails the test.
    fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        self.answered.load(Ordering::Relaxed)
    }
}
