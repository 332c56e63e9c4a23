//! Access control: who gets an answer, with the real binary.
//!
//! Here: what the tests share. The password of every user is `open sesame`.

mod agents;
mod attacks;
mod gate;
mod identity;
mod limits;
mod passwd;
mod throttle;
mod watched;

use sluice_testing::{Response, Server, Setup, write_with_mode};

/// The hash of `open sesame`, by bcrypt with a low cost.
const HASH: &str = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";

/// A script that prints what it knows of the user.
const WHO: &str =
    "printf 'Content-Type: text/plain\\n\\n'; env | grep -E '^(AUTH_|REMOTE_USER|HTTP_AUTHORIZATION|HTTP_X_)' | sort";

/// A script that reports its begin, and waits at a gate.
const WAITING_SCRIPT: &str =
    "echo begun > \"$TEST_DIR/events\"; read line < \"$TEST_DIR/gate\"; printf 'Content-Type: text/plain\\n\\ndone'";

/// A setup with the users ann, bob and eve, and the groups staff (ann, bob) and editors (ann).
fn setup() -> Setup {
    let setup = Setup::new()
        .file("a.txt", "public")
        .file("secret/a.txt", "SECRET")
        .script("who", WHO);
    users(&setup, &["ann", "bob", "eve"]);
    write_with_mode(&setup.path("groups"), b"staff: ann bob\neditors: ann\n", 0o600);
    setup
}

/// Writes the users file.
fn users(setup: &Setup, names: &[&str]) {
    let lines: String = names.iter().map(|name| format!("{name}:{HASH}\n")).collect();
    write_with_mode(&setup.path("users"), lines.as_bytes(), 0o600);
}

/// A request without a body.
fn request(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n{fields}\r\n")
}

/// The field with a name and a password (RFC 7617).
fn basic(name: &str, password: &str) -> String {
    format!(
        "Authorization: Basic {}\r\n",
        base64(format!("{name}:{password}").as_bytes())
    )
}

/// The response to a request by a user with the right password.
#[track_caller]
fn ask_as(server: &Server, name: &str, method: &str, path: &str) -> Response {
    let mut client = server.connect();
    client.send(request(method, path, &basic(name, "open sesame")));
    client.response_to(method)
}

/// The status of the response to a request with these fields.
#[track_caller]
fn status(server: &Server, method: &str, path: &str, fields: &str) -> u16 {
    let mut client = server.connect();
    client.send(request(method, path, fields));
    client.response_to(method).status
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            let is_padding = place > chunk.len();
            text.push(if is_padding {
                '='
            } else {
                char::from(DIGITS[digit as usize])
            });
        }
    }
    text
}
