//! `sluice status`, `reload`, `drain`, `purge`, `retire`, `end` and `log reopen`: finds the server, sends the command, prints the answer.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::Serialize;
use sluice_http::escape::escaped_lines;
use sluice_report::command::{COMMAND_BYTES_MAX, Command, CommandResult, ServerReport};
use sluice_settings::ControlSocket;

use super::found::{self, Running};
use super::{Caller, place, render};

/// The socket that packages and the deployment guide use.
const SYSTEM_SOCKET: &str = "/run/sluice/control.sock";

/// The configuration of the service that has this socket.
const SYSTEM_CONFIGURATION: &str = "/etc/sluice/sluice.toml";

/// How long a server may take to answer: a reload opens all directories and certificates.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

const ANSWER_BYTES_MAX: u64 = 16 << 20;

const HELP: &str = "\
Without --server the command goes to the only server that this user runs, or to the one with the socket /run/sluice/control.sock. \
Only the user of a server and root can give it commands. The exit status is 0 if the command was carried out.";

/// The command line of each of these commands.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct CommandOptions {
    /// The server.
    #[command(flatten)]
    pub server: ServerOptions,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The server that a command is for. Without either, it is the only one that this user runs.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerOptions {
    /// The server: its process id, or the path of its socket (key `control` of `[server]`).
    #[arg(long, value_name = "PID|SOCKET")]
    pub server: Option<String>,
    /// The server that runs this configuration file, or has its control socket.
    #[arg(short = 'c', long = "config", value_name = "FILE", conflicts_with = "server")]
    config: Option<PathBuf>,
}

impl ServerOptions {
    /// Connects to its control socket. Returns the socket's path, too.
    pub(super) fn connect(&self, caller: Caller) -> Result<(PathBuf, UnixStream), String> {
        match &self.config {
            Some(file) => of_configuration(file, caller),
            None => find(self.server.as_deref()),
        }
    }

    /// The same on another command line.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let server = self.server.iter().flat_map(|server| ["--server".into(), server.into()]);
        let config = self.config.iter().flat_map(|file| ["--config".into(), file.into()]);
        server.chain(config).collect()
    }
}

/// Sends a command, and prints the answer. True if it was carried out.
///
/// # Errors
/// One line: no server was found, or it did not answer.
pub fn run(command: &Command, options: &CommandOptions, caller: Caller) -> Result<bool, String> {
    let (answer, text) = ask(&options.server, command, caller)?;
    if options.json {
        (caller.print)(&text)?;
        return Ok(answer.ok);
    }
    let mut shown: String = answer.messages.iter().map(|line| format!("{line}\n")).collect();
    if let Some(state) = &answer.state {
        shown.push_str(&render::render(state));
    }
    (caller.print)(&escaped_lines(&shown))?;
    Ok(answer.ok)
}

/// Sends a command to a server. Returns the answer, and its text; errors as of `run`.
pub(crate) fn ask(
    server: &ServerOptions,
    command: &Command,
    caller: Caller,
) -> Result<(CommandResult, String), String> {
    let (socket, stream) = server.connect(caller)?;
    exchange(&mut BufReader::new(stream), command).map_err(|error| format!("{}: {error}", socket.display()))
}

fn find(server: Option<&str>) -> Result<(PathBuf, UnixStream), String> {
    let directory = place::directory();
    let Some(text) = server else {
        return only_one(&directory, Path::new(SYSTEM_SOCKET), Path::new(SYSTEM_CONFIGURATION));
    };
    if !text.contains('/') {
        let pid = text
            .parse()
            .map_err(|_| format!("--server {text}: must be a process id, or the path of a socket with a slash"))?;
        return of_pid(&directory, pid);
    }
    let socket = PathBuf::from(text);
    let stream = connect(&socket).map_err(|error| found::refusal(&socket, &error))?;
    Ok((socket, stream))
}

/// The servers that this user runs. The sockets of those that were killed are removed.
fn running(directory: &Path) -> Result<Vec<Running>, String> {
    let mut running = Vec::new();
    if directory.exists() {
        place::check(directory)?;
        for (pid, socket) in place::sockets(directory) {
            match connect(&socket) {
                Ok(stream) => running.push(Running { pid, socket, stream }),
                // The server was killed.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    let _ = std::fs::remove_file(&socket);
                }
                Err(_) => {}
            }
        }
    }
    Ok(running)
}

fn of_pid(directory: &Path, pid: u32) -> Result<(PathBuf, UnixStream), String> {
    // A server with `control` in its configuration has its socket elsewhere, so a wrong directory is no reason to give up.
    let mut others = Vec::new();
    for server in running(directory).into_iter().flatten() {
        if server.pid == pid {
            return Ok((server.socket, server.stream));
        }
        others.push(server.pid);
    }
    for socket in found::sockets_of(pid) {
        // The process may have other sockets: only this one answers the command.
        let is_control = connect(&socket).is_ok_and(|stream| state(stream).is_some());
        if is_control && let Ok(stream) = connect(&socket) {
            return Ok((socket, stream));
        }
    }
    Err(format!(
        "no server of this user has the process id {pid} ({}); one with a control socket of its own is found with -c FILE, or --server SOCKET",
        found::process_ids(&others)
    ))
}

/// The server that runs a configuration file: the file names its socket, or the server says so itself.
fn of_configuration(file: &Path, caller: Caller) -> Result<(PathBuf, UnixStream), String> {
    let shown = file.display();
    let wanted = file.canonicalize().map_err(|error| format!("{shown}: {error}"))?;
    let named = (caller.named_socket)(file)?;
    let refusal = match &named.socket {
        Some(ControlSocket::Path(socket)) => match connect(socket) {
            Ok(stream) => return Ok((socket.clone(), stream)),
            Err(error) if found::is_absent(&error) => Some(format!(
                "nothing listens on {}, the control socket of {shown}: either no server runs it (\"sluice run -c {shown}\" starts one), or the file of the \
                 socket is missing (the server makes it again within seconds, or its log says why not), or control was changed (name the former: \
                 --server SOCKET)",
                socket.display()
            )),
            Err(error) => return Err(found::refusal(socket, &error)),
        },
        Some(ControlSocket::Off) => Some(format!(
            "{shown} has control = \"off\", so its server takes no commands; signals still work: kill -HUP PID reloads, kill -TERM PID ends it"
        )),
        _ => None,
    };
    // The server may have been started before `control` was written.
    let directory = place::directory();
    let running = running(&directory);
    let mut others = Vec::new();
    for server in running.iter().flatten() {
        let own = connect(&server.socket)
            .ok()
            .and_then(state)
            .and_then(|state| state.configuration);
        if own.and_then(|own| Path::new(&own).canonicalize().ok()).as_deref() == Some(&*wanted)
            && let Ok(stream) = connect(&server.socket)
        {
            return Ok((server.socket.clone(), stream));
        }
        others.push(server.pid);
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    running?;
    let pids = found::process_ids(&others);
    Err(match named.mistake {
        Some(mistake) => format!(
            "{shown} cannot be read, so its control socket is not known, and no server of this user runs it ({pids}): name the server with \
             --server; {mistake}"
        ),
        None => format!("no server of this user runs {shown} ({pids})"),
    })
}

/// The only server that this user runs, or the one with the usual socket of the system.
fn only_one(directory: &Path, system: &Path, configuration: &Path) -> Result<(PathBuf, UnixStream), String> {
    let mut running = running(directory)?;
    if running.len() > 1 {
        let servers: Vec<String> = running
            .into_iter()
            .map(|server| found::described(server.pid, state(server.stream).as_ref()))
            .collect();
        return Err(format!(
            "several servers run: choose one with --server PID ({})",
            servers.join("; ")
        ));
    }
    if let Some(server) = running.pop() {
        return Ok((server.socket, server.stream));
    }
    let none = format!("no running server of this user was found in {}", directory.display());
    let others = "a server whose configuration has control = \"…\" is found with -c FILE, or --server SOCKET";
    match connect(system) {
        Ok(stream) => Ok((system.to_owned(), stream)),
        Err(error) if found::is_absent(&error) && configuration.exists() => Err(format!(
            "the server of {} does not run, or is only starting: \"systemctl start sluice\" starts it, \"systemctl status sluice\" says why it has \
             ended; {none}; {others}",
            configuration.display()
        )),
        Err(error) if found::is_absent(&error) => Err(format!("{none}; {others}")),
        Err(error) => Err(format!("{none}; {others}; {}", found::refusal(system, &error))),
    }
}

/// The state of the server on the other end; `None` if it does not answer as one.
fn state(stream: UnixStream) -> Option<ServerReport> {
    let (answer, _) = exchange(&mut BufReader::new(stream), &Command::Status).ok()?;
    answer.state
}

/// Connects, unless the socket belongs to a user whose answers are not to be trusted.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    let peer = socket_peercred(&stream)?.uid;
    let own = geteuid();
    if peer != own && !peer.is_root() && !own.is_root() {
        let text = format!(
            "the socket belongs to {}, so its answers are not trusted: give the command as that user, or as root",
            found::user(peer.as_raw())
        );
        return Err(io::Error::other(text));
    }
    Ok(stream)
}

/// Sends a command and reads the answer, which is also returned as text.
pub(super) fn exchange(
    stream: &mut BufReader<UnixStream>,
    command: &impl Serialize,
) -> io::Result<(CommandResult, String)> {
    let mut line = serde_json::to_vec(command)?;
    line.push(b'\n');
    if line.len() as u64 > COMMAND_BYTES_MAX {
        let text = format!("the command is too long: {COMMAND_BYTES_MAX} bytes at most");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    stream.get_ref().set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.get_ref().set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.get_mut().write_all(&line)?;
    let mut text = String::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_line(&mut text);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other(format!(
            "the server has not answered for {} s; what it was asked to do may still happen; if its server process hangs, the supervisor starts another \
             one after kill -KILL PID (\"sluice: server\" in ps)",
            ANSWER_TIMEOUT.as_secs()
        )),
        _ => error,
    })?;
    if text.is_empty() {
        let message = match geteuid().is_root() {
            true => "the connection was closed without an answer: is this the control socket of a running server?",
            false => "the server closed the connection: is this command given by its user, or by root?",
        };
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    let answer = serde_json::from_str(&text).map_err(|error| io::Error::other(format!("not an answer: {error}")))?;
    Ok((answer, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn root_finds_the_socket_of_the_system_in_a_directory_of_another_user() {
        let root = tempfile::tempdir().unwrap();
        let (own, directory) = (root.path().join("sluice-root"), root.path().join("sluice"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o750)).unwrap();
        let system = directory.join("control.sock");
        let _listener = UnixListener::bind(&system).unwrap();
        let found = || only_one(&own, &system, Path::new("/none")).unwrap().0;
        assert_eq!(found(), system, "a directory of this user");
        if !geteuid().is_root() {
            // Only root can give a directory to another user.
            return;
        }
        for path in [&directory, &system] {
            chown(path, Some(65_534), Some(65_534)).unwrap();
        }
        assert_eq!(found(), system);
        let error = only_one(&directory, &system, Path::new("/none")).unwrap_err();
        assert!(error.contains("belongs to user 65534"), "{error}");
    }

    #[test]
    fn a_second_server_of_root_has_a_directory_beside_that_of_the_service() {
        if geteuid().is_root() && std::env::var_os("SLUICE_RUNTIME_DIR").is_none() {
            assert!(!Path::new(SYSTEM_SOCKET).starts_with(place::directory()));
        }
    }

    #[test]
    fn a_service_that_does_not_run_is_named_with_what_starts_it() {
        let root = tempfile::tempdir().unwrap();
        let configuration = root.path().join("sluice.toml");
        let error = || only_one(root.path(), &root.path().join("control.sock"), &configuration).unwrap_err();
        assert!(error().starts_with("no running server of this user"), "{}", error());
        std::fs::write(&configuration, "").unwrap();
        let (error, shown) = (error(), configuration.display());
        assert!(
            error.starts_with(&format!("the server of {shown} does not run")),
            "{error}"
        );
        assert!(error.contains("systemctl start sluice"), "{error}");
    }
}
