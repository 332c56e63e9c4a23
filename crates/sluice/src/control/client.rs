//! `sluice status`, `reload`, `drain`, `purge` and `reopen-logs`: finds the server, sends the command, prints the answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use sluice_http::escape::escaped_lines;

use super::{Answer, Command, place, render};

/// The socket that packages and the deployment guide use.
const SYSTEM_SOCKET: &str = "/run/sluice/control.sock";

/// How long a server may take to answer: a reload opens all directories and certificates.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

const HELP: &str = "\
Without --server the command goes to the only server that this user runs, or to the one with the socket /run/sluice/control.sock. \
Only the user of a server and root can give it commands. The exit status is 0 if the command was carried out.";

/// The command line of each of these commands.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The server: its process id, or the path of its socket (key `control` of `[server]`).
    #[arg(long, value_name = "PID|SOCKET")]
    server: Option<String>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Sends a command, and prints the answer. True if it was carried out.
///
/// # Errors
/// One line: no server was found, or it did not answer.
pub(crate) fn run(command: Command, options: &Options, print: fn(&str) -> Result<(), String>) -> Result<bool, String> {
    let (socket, stream) = find(options.server.as_deref())?;
    let text = exchange(stream, command).map_err(|error| format!("{}: {error}", socket.display()))?;
    let answer: Answer =
        serde_json::from_str(&text).map_err(|error| format!("{}: not an answer: {error}", socket.display()))?;
    if options.json {
        print(&text)?;
        return Ok(answer.ok);
    }
    let mut shown: String = answer.messages.iter().map(|line| format!("{line}\n")).collect();
    if let Some(state) = &answer.state {
        shown.push_str(&render::render(state));
    }
    print(&escaped_lines(&shown))?;
    Ok(answer.ok)
}

/// The server that a command is for.
pub(super) fn find(server: Option<&str>) -> Result<(PathBuf, UnixStream), String> {
    let directory = place::directory();
    let socket = match server {
        Some(text) if text.contains('/') => PathBuf::from(text),
        Some(text) => {
            let pid = text
                .parse()
                .map_err(|_| format!("--server {text}: must be a process id, or the path of a socket with a slash"))?;
            place::check(&directory)?;
            place::socket_of(&directory, pid)
        }
        None => return only_one(&directory),
    };
    match connect(&socket) {
        Ok(stream) => Ok((socket, stream)),
        Err(error) => Err(format!("{}: {error}", socket.display())),
    }
}

/// The only server that this user runs, or the one with the usual socket of the system.
fn only_one(directory: &Path) -> Result<(PathBuf, UnixStream), String> {
    let mut running = Vec::new();
    if directory.exists() {
        place::check(directory)?;
        for (pid, socket) in place::sockets(directory) {
            match connect(&socket) {
                Ok(stream) => running.push((pid, socket, stream)),
                // The server was killed.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    let _ = std::fs::remove_file(&socket);
                }
                Err(_) => {}
            }
        }
    }
    if running.len() > 1 {
        let pids: Vec<String> = running.iter().map(|(pid, ..)| pid.to_string()).collect();
        return Err(format!(
            "several servers run: choose one with --server PID (process ids {})",
            pids.join(", ")
        ));
    }
    if let Some((_, socket, stream)) = running.pop() {
        return Ok((socket, stream));
    }
    let system = PathBuf::from(SYSTEM_SOCKET);
    match connect(&system) {
        Ok(stream) => Ok((system, stream)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
            "no running server of this user was found in {}; name the socket of another one with --server SOCKET",
            directory.display()
        )),
        Err(error) => Err(format!("{SYSTEM_SOCKET}: {error}")),
    }
}

/// Connects, unless the socket belongs to a user whose answers are not to be trusted.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    let peer = socket_peercred(&stream)?.uid;
    let own = geteuid();
    if peer != own && !peer.is_root() && !own.is_root() {
        let text = format!("the socket belongs to user {}", peer.as_raw());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(stream)
}

fn exchange(mut stream: UnixStream, command: Command) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let mut line = serde_json::to_vec(&command)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut text = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut text)?;
    if text.is_empty() {
        let message = "the server closed the connection: is this command given by its user, or by root?";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(text)
}
