//! Listening sockets: bound once for all workers, and the loop that accepts.
//!
//! An address of a network has one socket a worker (SO_REUSEPORT), among which the kernel shares out connections. A unix socket
//! has one for all: every worker that waits is woken, and the first one has the connection.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use sluice_http::endpoints::Endpoints;
use sluice_settings::{ListenAddress, ListenSettings};
use socket2::{Domain, Protocol, TcpKeepalive, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::connection::Connection;
use crate::front::Front;
use crate::protocol;
use crate::service::Service;
use crate::socket::Socket;
use crate::unix;
use crate::unix::SocketFile;

/// Connections that the kernel holds ready for one worker; the system caps it (net.core.somaxconn).
pub(crate) const BACKLOG: i32 = 4096;

/// A client that is gone without a word, with its machine or its network, is told by its silence: it is asked for a sign of life
/// after so long without a packet, and given up after so many questions. So a script that computes for minutes is not kept for
/// nobody, which no time limit of the server's own would end.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_QUESTIONS: u32 = 6;

/// How long a worker pauses when the system refuses descriptors or memory: those under way end meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// A worker's listening socket.
pub struct Listener {
    socket: OwnedFd,
    /// What it is bound to; none for a unix socket.
    address: Option<SocketAddr>,
}

/// An address that is listened on.
pub struct Bound {
    /// One for each worker.
    pub listeners: Vec<Listener>,
    /// As it was asked for, with the port that the system chose.
    pub address: ListenAddress,
    /// The file of a unix socket, removed when this is dropped.
    pub file: Option<SocketFile>,
}

/// Binds an address for `workers` workers; port 0 lets the system choose, the same port for all.
///
/// An error is the administrator's: the port is taken, or the address is not this machine's.
pub fn bind(settings: &ListenSettings, workers: usize) -> io::Result<Bound> {
    match &settings.address {
        ListenAddress::Inet(address) => {
            let sockets = bind_inet(*address, workers)?;
            let address = sockets[0].local_addr()?;
            let listener = |socket: TcpListener| Listener {
                socket: socket.into(),
                address: Some(address),
            };
            Ok(Bound {
                listeners: sockets.into_iter().map(listener).collect(),
                address: address.into(),
                file: None,
            })
        }
        ListenAddress::Unix(path) => {
            let (socket, file) = unix::bind(path, settings.socket_mode)?;
            let listener = |_| {
                Ok(Listener {
                    socket: socket.try_clone()?,
                    address: None,
                })
            };
            Ok(Bound {
                listeners: (0..workers).map(listener).collect::<io::Result<_>>()?,
                address: settings.address.clone(),
                file: Some(file),
            })
        }
    }
}

fn bind_inet(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    // A port shared by SO_REUSEPORT can be bound twice, by a second server as well. So first without: that fails where
    // anybody listens.
    drop(socket(address, Sharing::Alone)?);
    let first = socket(address, Sharing::Workers)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    while sockets.len() < workers {
        sockets.push(socket(address, Sharing::Workers)?);
    }
    Ok(sockets)
}

#[derive(Clone, Copy, PartialEq)]
enum Sharing {
    Alone,
    Workers,
}

fn socket(address: SocketAddr, sharing: Sharing) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // An address whose last connections are still in TIME-WAIT can be bound again (socket(7)).
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Workers)?;
    if address.is_ipv6() {
        // `[::]` and `0.0.0.0` are two addresses, also where both are listened on.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if sharing == Sharing::Workers {
        // Inherited by accepted sockets, which saves calls for each.
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_EVERY)
            .with_retries(KEEPALIVE_QUESTIONS);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.listen(BACKLOG)?;
    }
    Ok(socket.into())
}

/// Accepts until the worker drains. Each connection is a task of its own. `index` is the listener's among the worker's.
pub async fn accept<S: Service>(front: Rc<Front>, service: Rc<S>, listener: Listener, index: usize) {
    let Listener { socket, address } = listener;
    #[expect(
        deprecated,
        reason = "sound for a listener, which owns its descriptor; the function in its slot is unsafe for those that do not"
    )]
    let listener = match AsyncFd::with_interest(socket, Interest::READABLE) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("listening socket: {error}"),
    };
    let slots = Rc::clone(front.slots());
    let mut draining = pin!(front.draining());
    while !front.is_draining() {
        // A socket that others accept from as well: they may have a slot when there is none here.
        if address.is_none() {
            tokio::select! {
                biased;
                () = slots.wait() => {}
                () = &mut draining => return,
            }
        }
        let accepted = tokio::select! {
            biased;
            accepted = poll_fn(|context| poll_accept(&listener, context)) => accepted,
            () = &mut draining => return,
        };
        match accepted {
            Ok((socket, client)) => {
                let socket = Socket::new(socket);
                let Some(endpoints) = endpoints(&socket, client, address) else {
                    continue;
                };
                // Only now: a listener that waits must not hold a slot that another could use.
                tokio::select! {
                    biased;
                    () = slots.wait() => {}
                    () = &mut draining => return,
                }
                let slot = slots.take(Connection::new(endpoints));
                let (front, service) = (Rc::clone(&front), Rc::clone(&service));
                let tasks = front.tasks().clone();
                tasks.spawn(protocol::serve(front, service, socket, slot, index));
            }
            Err(error) => {
                if is_shortage(&error) {
                    tracing::error!("accept: {error}; pausing for {PAUSE:?}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// The next connection: a socket that does not block, and the client's address, if it has one.
fn poll_accept(
    listener: &AsyncFd<OwnedFd>,
    context: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, Option<SocketAddr>)>> {
    loop {
        let mut ready = ready!(listener.poll_read_ready(context))?;
        if let Ok(accepted) = ready.try_io(|listener| accept_now(listener.get_ref())) {
            return Poll::Ready(accepted);
        }
    }
}

/// std's `TcpStream` stands for any connected stream here: what is asked of it is TCP's alone nowhere (`socket`).
fn accept_now(listener: &OwnedFd) -> io::Result<(TcpStream, Option<SocketAddr>)> {
    let (socket, client) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let client = client.and_then(|client| SocketAddr::try_from(client).ok());
    Ok((socket.into(), client))
}

/// Who speaks with whom. Behind a wildcard address the address that the client reached is the connection's own. None for a client
/// of a network that has no address: it is not to be taken for one of a unix socket.
fn endpoints(socket: &Socket, client: Option<SocketAddr>, listener: Option<SocketAddr>) -> Option<Endpoints> {
    let Some(listener) = listener else {
        return Some(Endpoints::UNIX);
    };
    let server = if listener.ip().is_unspecified() {
        socket.local_addr().unwrap_or(listener)
    } else {
        listener
    };
    Some(Endpoints {
        client: client?,
        server,
        is_unix: false,
    })
}

/// Errors of the system, not of one connection (accept(2)): trying again at once would only spin.
fn is_shortage(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port_and_a_second_server_does_not() {
        let bound = bind_inet("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = bound[0].local_addr().unwrap();
        assert!(bound.iter().all(|socket| socket.local_addr().unwrap() == address));
        assert_eq!(bind_inet(address, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
