//! Supervisor and server process: restarts, reloads with other addresses, upgrades, systemd.

mod activation;
mod addresses;
mod container;
mod hangs;
mod notify;
mod restart;
mod roles;
mod silent;
mod unit;
mod upgrade;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use sluice_testing::{Client, Response, RunResult, Server, Setup, run, wait_until};

fn answered(response: &Response, expected: &[u8]) {
    assert_eq!(response.status, 200);
    assert!(response.body == expected, "{} bytes", response.body.len());
}

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

/// Prints a figure, or why a test does nothing on this system.
fn note(text: &str) {
    use std::io::Write;
    // Not eprintln!, which only the program may use.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// How often something is repeated: `few` times, or as the variable ROUNDS says (docs/internals/processes.md).
fn rounds(few: u32) -> u32 {
    let wanted = std::env::var("ROUNDS").ok();
    wanted.map_or(few, |wanted| wanted.parse().expect("ROUNDS is a number"))
}

/// Bytes of the response of a script, more than pipes and sockets hold.
const SCRIPT_BYTES: usize = 3_000_000;

/// Clients that send requests over and over.
struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// A server for `of_all_kinds`.
    fn setup() -> Setup {
        let kept = r#"while read -r line <&3; do
    if [ -z "$line" ]; then printf 'Content-Type: text/plain\n\nkept%s\n' "$CGIPLUSEOF"; fi
done"#;
        Setup::new()
            .file("a.txt", "a")
            .script(
                "large",
                &format!("printf 'Content-Type: text/plain\\n\\n'; head -c {SCRIPT_BYTES} /dev/zero"),
            )
            .script("kept", kept)
    }

    /// A client for each kind of response, for which every request must be answered completely: a file, on new connections and on one that
    /// is used until the server ends it, and scripts of both modes, one with a large response.
    fn of_all_kinds(server: &Server) -> Load {
        let address = server.address();
        let mut load = Load::none();
        load.add(move || answered(&Client::connect(address).get("/a.txt").response(), b"a"));
        load.add(move || answered(&Client::connect(address).get("/cgiplus-bin/kept").response(), b"kept"));
        load.add(move || {
            answered(
                &Client::connect(address).get("/cgi-bin/large").response(),
                &[0; SCRIPT_BYTES],
            );
        });
        let mut kept = None;
        load.add(move || {
            let client = kept.get_or_insert_with(|| Client::connect(address));
            let response = client.get("/a.txt").response();
            answered(&response, b"a");
            if response.field("connection") == Some("close") {
                kept = None;
            }
        });
        load
    }

    /// Clients that must be able to connect, whatever happens to their requests.
    fn connecting(server: &Server, path: &'static str) -> Load {
        let address = server.address();
        let mut load = Load::none();
        for _ in 0..3 {
            load.add(move || {
                // Fails the test if it is refused.
                let mut client = Client::connect(address);
                client.try_send(format!(
                    "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
                ));
                client.rest();
            });
        }
        load
    }

    fn none() -> Load {
        Load {
            is_over: Arc::default(),
            answered: Arc::default(),
            clients: Vec::new(),
        }
    }

    fn add(&mut self, mut request: impl FnMut() + Send + 'static) {
        let (is_over, answered) = (Arc::clone(&self.is_over), Arc::clone(&self.answered));
        self.clients.push(std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                request();
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
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
