//! The server's side of the control socket.
//!
//! Only the user of the server and root may connect: the file's mode says so, and the credentials of each peer are checked. A peer that
//! sends nothing, or too much, is disconnected, and earlier if many others come: a script runs as that user, too. A few commands are carried out at
//! once. One that watches does not count among these.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::geteuid;
use sluice_launch::deadline;
use sluice_net::unix::SocketFile;
use sluice_report::command::{COMMAND_BYTES_MAX, Command, CommandResult};
use sluice_server::commands::{CommandRequest, Requester};
use sluice_server::watch_log::WatchLog;
use sluice_settings::ControlSocket;
use sluice_tools::control::place;
use sluice_tools::control::watching::Watching;
use sluice_watch::Hub;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedWriteHalf, UCred};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::peer::PeerReader;
use super::watch_stream::{STALL, Stream};
use crate::log_files::do_elsewhere;

const COMMANDS_MAX: usize = 16;

/// The mode of the file: for its owner only.
const MODE: u32 = 0o600;

/// Connections at once that have sent no command yet, or whose command waits; then the oldest of them is closed.
const WAITING_MAX: usize = 64;

/// How long a peer may take to send its command, or to read its answer.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// The control socket of a server. Dropping it removes its file.
pub(crate) struct Control {
    requests: mpsc::Receiver<CommandRequest>,
    /// `None` if the supervisor has the file.
    _file: Option<SocketFile>,
    accepting: JoinHandle<()>,
}

impl Control {
    /// Listens on the socket of the settings, as of `BoundControl::bind`; `sluice watch` watches `hub`.
    pub(crate) fn listen(settings: &ControlSocket, hub: &Arc<Hub>) -> Result<Option<Control>, String> {
        let Some(BoundControl { socket, file, .. }) = BoundControl::bind(settings)? else {
            return Ok(None);
        };
        let mut control = Control::on(socket, hub)?;
        control._file = file;
        Ok(Some(control))
    }

    /// Listens on a socket that the supervisor has bound. Fails if it is not a unix socket.
    pub(crate) fn on(socket: OwnedFd, hub: &Arc<Hub>) -> Result<Control, String> {
        let listener = UnixListener::from_std(socket.into()).map_err(|error| format!("control: {error}"))?;
        let (sender, requests) = mpsc::channel(COMMANDS_MAX);
        Ok(Control {
            requests,
            _file: None,
            accepting: tokio::spawn(accept(listener, Server { requests: sender, hub: Arc::clone(hub) })),
        })
    }

    pub(crate) async fn next(control: Option<&mut Control>) -> CommandRequest {
        if let Some(control) = control
            && let Some(request) = control.requests.recv().await
        {
            return request;
        }
        std::future::pending().await
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn usual() -> Result<PathBuf, String> {
    let directory = place::directory();
    let asked = directory.clone();
    let made = deadline::ask(&directory, move || Ok(place::create(&asked)));
    made.map_err(|error| format!("{}: {error}", directory.display()))??;
    Ok(place::socket_of(&directory, std::process::id()))
}

/// A control socket that is bound. Dropping it removes its file.
pub(crate) struct BoundControl {
    pub(crate) path: PathBuf,
    pub(crate) socket: OwnedFd,
    /// `None` if somebody has removed the file of an earlier supervisor.
    file: Option<SocketFile>,
    /// Why the socket was not bound again, as the log has it.
    problem: String,
}

impl BoundControl {
    /// Binds the socket of the settings. Without the usual one the server starts, too, and logs why.
    pub(crate) fn bind(settings: &ControlSocket) -> Result<Option<BoundControl>, String> {
        match settings {
            ControlSocket::Off => Ok(None),
            ControlSocket::Path(path) => bind(path).map(Some).map_err(|error| format!("control: {error}")),
            ControlSocket::Usual => {
                let made = usual().and_then(|path| bind(&path));
                Ok(made
                    .inspect_err(|error| tracing::warn!("sluice status cannot reach this server: {error}"))
                    .ok())
            }
        }
    }

    pub(crate) fn of(path: PathBuf, socket: OwnedFd) -> io::Result<BoundControl> {
        let file = SocketFile::of(&path, socket.try_clone()?).ok();
        Ok(BoundControl { path, socket, file, problem: String::new() })
    }

    /// Binds another socket if the file is gone, as a cleaner of temporary files leaves it, and returns whether it did. A file of the same name may be that of
    /// another server, and stays.
    pub(crate) async fn restore(&mut self) -> bool {
        let path = self.path.clone();
        let bound = do_elsewhere(move || bind_again(&path)).await;
        let shown = self.path.display();
        match bound.unwrap_or(Ok(None)) {
            Ok(Some((socket, file))) => {
                tracing::warn!("control socket {shown}: its file had been removed; another one is bound");
                (self.socket, self.file, self.problem) = (socket, Some(file), String::new());
                return true;
            }
            Err(error) if error != self.problem => {
                tracing::warn!("control socket {shown}: its file was removed, and cannot be made again: {error}");
                self.problem = error;
            }
            _ => {}
        }
        false
    }
}

fn bind_again(path: &Path) -> Result<Option<(OwnedFd, SocketFile)>, String> {
    if path.symlink_metadata().is_ok() {
        return Ok(None);
    }
    if path.parent() == Some(&place::directory()) {
        usual()?;
    }
    match sluice_net::unix::bind_new(path, MODE) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        bound => bound.map(Some).map_err(|error| error.to_string()),
    }
}

fn bind(path: &Path) -> Result<BoundControl, String> {
    let asked = path.to_owned();
    let bound = deadline::ask(path, move || sluice_net::unix::bind(&asked, MODE));
    let (socket, file) = bound.map_err(|error| format!("socket {}: {error}", path.display()))?;
    Ok(BoundControl {
        path: path.to_owned(),
        socket,
        file: Some(file),
        problem: String::new(),
    })
}

#[derive(Clone)]
struct Server {
    requests: mpsc::Sender<CommandRequest>,
    hub: Arc<Hub>,
}

struct Connection {
    reader: BufReader<tokio::io::Take<PeerReader>>,
    writer: OwnedWriteHalf,
    peer: UCred,
    /// The permit that counts this command among those in progress.
    slot: OwnedSemaphorePermit,
}

/// The connections that have not sent their command yet, or whose command waits for others, the oldest first. Dropping one of these closes its connection.
#[derive(Default)]
struct Waiting(VecDeque<oneshot::Sender<Infallible>>);

impl Waiting {
    /// Adds a connection. What it gets ends when there is no room for it any more.
    fn add(&mut self) -> oneshot::Receiver<Infallible> {
        self.0.retain(|connection| !connection.is_closed());
        if self.0.len() >= WAITING_MAX {
            self.0.pop_front();
        }
        let (sender, receiver) = oneshot::channel();
        self.0.push_back(sender);
        receiver
    }
}

async fn accept(listener: UnixListener, server: Server) {
    let slots = Arc::new(Semaphore::new(COMMANDS_MAX));
    let mut waiting = Waiting::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (server, slots, room) = (server.clone(), Arc::clone(&slots), waiting.add());
                tokio::spawn(async move {
                    if let Err(error) = answer_peer(stream, room, slots, server).await {
                        tracing::debug!("control socket: {error}");
                    }
                });
            }
            Err(error) => {
                tracing::warn!("control socket: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer_peer(
    stream: UnixStream,
    mut room: oneshot::Receiver<Infallible>,
    slots: Arc<Semaphore>,
    server: Server,
) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    let (reader, mut writer) = stream.into_split();
    let reader = PeerReader::new(reader, peer.uid());
    if peer.uid() != 0 && peer.uid() != geteuid().as_raw() {
        tracing::warn!("control socket: user {} was refused", peer.uid());
        return Ok(());
    }
    let mut reader = BufReader::new(reader.take(COMMAND_BYTES_MAX));
    let mut line = String::new();
    tokio::select! {
        biased;
        read = timeout(PEER_TIMEOUT, reader.read_line(&mut line)) => read??,
        _ = &mut room => return Err(io::Error::other("a connection without a command was closed, because there were too many")),
    };
    let slot = tokio::select! {
        biased;
        slot = slots.acquire_owned() => slot.map_err(io::Error::other)?,
        _ = room => {
            let refusal = CommandResult::refused("too many commands wait: try again");
            return answer(&mut writer, &refusal).await;
        }
    };
    let mut connection = Connection { reader, writer, peer, slot };
    if is_watch(&line) {
        return match serde_json::from_str(&line) {
            Ok(watching) => watch(watching, connection, &server.hub).await,
            Err(error) => {
                let refusal = CommandResult::refused(&format!("not a watch: {error}"));
                connection.answer(&refusal).await
            }
        };
    }
    let answer = match serde_json::from_str(&line) {
        Ok(command) => carry_out(command, connection.peer.uid(), server.requests).await,
        Err(error) => CommandResult::refused(&format!("not a command: {error}")),
    };
    connection.answer(&answer).await
}

impl Connection {
    async fn answer(&mut self, result: &CommandResult) -> io::Result<()> {
        answer(&mut self.writer, result).await
    }
}

async fn answer(writer: &mut OwnedWriteHalf, result: &CommandResult) -> io::Result<()> {
    let mut text = serde_json::to_vec(result)?;
    text.push(b'\n');
    timeout(PEER_TIMEOUT, writer.write_all(&text)).await?
}

/// Whether the command is `watch`, whatever else it says.
fn is_watch(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        command: String,
    }
    serde_json::from_str::<Named>(line).is_ok_and(|named| named.command == "watch")
}

async fn watch(watching: Watching, mut connection: Connection, hub: &Arc<Hub>) -> io::Result<()> {
    let Watching::Watch { format, spec } = watching;
    let watcher = match connection.peer.pid() {
        Some(pid) => format!("user {} (process {pid})", connection.peer.uid()),
        None => format!("user {}", connection.peer.uid()),
    };
    let watch = match hub.watch(spec) {
        Ok(watch) => watch,
        Err(refused) => {
            tracing::warn!("watch by {watcher} was refused: {refused}");
            return connection.answer(&CommandResult::refused(&refused.to_string())).await;
        }
    };
    let stream = Stream {
        log: WatchLog::begin(watcher, watch.spec()),
        watch,
        format,
        stall: STALL,
    };
    connection.answer(&CommandResult::done()).await?;
    let Connection { reader, writer, slot, .. } = connection;
    drop(slot);
    stream.run(reader.into_inner().into_inner(), writer).await;
    Ok(())
}

async fn carry_out(command: Command, user: u32, requests: mpsc::Sender<CommandRequest>) -> CommandResult {
    let (answer, answered) = oneshot::channel();
    let request = CommandRequest {
        command,
        requester: Requester::SystemUser(user),
        answer,
    };
    let ending = || CommandResult::refused("the server is ending");
    match requests.send(request).await {
        Ok(()) => answered.await.unwrap_or_else(|_| ending()),
        Err(_) => ending(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[tokio::test]
    async fn the_socket_is_bound_again_unless_another_server_has_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let mut bound = BoundControl::bind(&ControlSocket::Path(path.clone())).unwrap().unwrap();
        assert!(!bound.restore().await, "nothing is missing");
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        assert!(!bound.restore().await);
        UnixStream::connect(&path).unwrap();
        other.accept().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(bound.restore().await);
        UnixStream::connect(&path).unwrap();
        drop(bound);
        assert!(!path.exists());
    }
}
