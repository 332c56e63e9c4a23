//! The server's side of the control socket.
//!
//! Only the user of the server and root may connect: the file's mode says so, and the credentials of each peer are checked. A peer that
//! sends nothing, or too much, is disconnected; a few connections may wait at once.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::geteuid;
use sluice_server::SocketFile;
use sluice_settings::ControlSocket;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Answer, COMMAND_BYTES_MAX, Command, place};

/// Connections at once; others wait.
const CONNECTIONS_MAX: usize = 16;

/// How long a peer may take to send its command, or to read its answer.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// A command that waits for its answer.
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// The control socket of a server. Dropping it removes its file.
pub(crate) struct Control {
    requests: mpsc::Receiver<Request>,
    _file: SocketFile,
    accepting: JoinHandle<()>,
}

impl Control {
    /// Listens on the socket of the settings. Without the usual one the server starts, too, and logs why.
    ///
    /// # Errors
    /// One line: the configured socket cannot be made.
    pub(crate) fn listen(settings: &ControlSocket) -> Result<Option<Control>, String> {
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

    /// The next command.
    pub(crate) async fn next(control: Option<&mut Control>) -> Request {
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
    place::create(&directory)?;
    Ok(place::socket_of(&directory, std::process::id()))
}

fn bind(path: &Path) -> Result<Control, String> {
    let listen = || -> io::Result<(UnixListener, SocketFile)> {
        let (socket, file): (OwnedFd, SocketFile) = sluice_server::bind_unix_socket(path, 0o600)?;
        let listener = UnixListener::from_std(socket.into())?;
        Ok((listener, file))
    };
    let (listener, file) = listen().map_err(|error| format!("socket {}: {error}", path.display()))?;
    let (sender, requests) = mpsc::channel(CONNECTIONS_MAX);
    Ok(Control {
        requests,
        _file: file,
        accepting: tokio::spawn(accept(listener, sender)),
    })
}

async fn accept(listener: UnixListener, requests: mpsc::Sender<Request>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let requests = requests.clone();
                tokio::spawn(async move {
                    if let Err(error) = answer_peer(stream, requests).await {
                        tracing::debug!("control socket: {error}");
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!("control socket: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Reads one command, and writes its answer.
async fn answer_peer(stream: UnixStream, requests: mpsc::Sender<Request>) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if peer != 0 && peer != geteuid().as_raw() {
        tracing::warn!("control socket: user {peer} was refused");
        return Ok(());
    }
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(COMMAND_BYTES_MAX));
    timeout(PEER_TIMEOUT, reader.read_line(&mut line)).await??;
    let answer = match serde_json::from_str(&line) {
        Ok(command) => carry_out(command, requests).await,
        Err(error) => Answer::refused(format!("not a command: {error}")),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    timeout(PEER_TIMEOUT, writer.write_all(&text)).await??;
    Ok(())
}

async fn carry_out(command: Command, requests: mpsc::Sender<Request>) -> Answer {
    let (answer, answered) = oneshot::channel();
    let ending = || Answer::refused("the server is ending");
    match requests.send(Request { command, answer }).await {
        Ok(()) => answered.await.unwrap_or_else(|_| ending()),
        Err(_) => ending(),
    }
}
