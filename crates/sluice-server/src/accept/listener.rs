//! Listening sockets: bound once for all workers, one socket a worker (SO_REUSEPORT), and the loop that accepts.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::{Domain, Protocol, TcpKeepalive, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::accept::protocol;
use crate::accept::socket::Socket;
use crate::connection::{Connection, Ends};
use crate::worker::Worker;

/// Connections that the kernel holds ready for one worker; the system caps it (net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// A client that is gone without a word, with its machine or its network, is told by its silence: it is asked for a sign of life
/// after so long without a packet, and given up after so many questions. So a script that computes for minutes is not kept for
/// nobody, which no time limit of the server's own would end.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_QUESTIONS: u32 = 6;

/// How long a worker pauses when the system refuses descriptors or memory: those under way end meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds an address for `workers` workers; port 0 lets the system choose, the same port for all.
///
/// An error is the administrator's: the port is taken, or the address is not this machine's.
pub(crate) fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
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
pub(crate) async fn accept(worker: Rc<Worker>, listener: TcpListener, index: usize) {
    let Ok(server) = listener.local_addr() else { return };
    #[expect(
        deprecated,
        reason = "sound for a listener, which owns its descriptor; the function in its place is unsafe for those that do not"
    )]
    let listener = match AsyncFd::with_interest(listener, Interest::READABLE) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("listening socket: {error}"),
    };
    let places = worker.places();
    let mut draining = pin!(worker.draining());
    while !worker.is_draining() {
        let accepted = tokio::select! {
            biased;
            accepted = poll_fn(|context| poll_accept(&listener, context)) => accepted,
            () = &mut draining => return,
        };
        match accepted {
            Ok((socket, client)) => {
                let socket = Socket::new(socket);
                let server = actual_server(&socket, server);
                // Only now: a listener that waits must not hold a place that another could use.
                tokio::select! {
                    biased;
                    () = places.wait() => {}
                    () = &mut draining => return,
                }
                let place = places.take(Connection::new(Ends { client, server }));
                worker.spawn(protocol::serve(Rc::clone(&worker), socket, place, index));
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

/// The next connection: a socket that does not block, and the client's address.
fn poll_accept(
    listener: &AsyncFd<TcpListener>,
    context: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    loop {
        let mut ready = ready!(listener.poll_read_ready(context))?;
        if let Ok(accepted) = ready.try_io(|listener| accept_now(listener.get_ref())) {
            return Poll::Ready(accepted);
        }
    }
}

fn accept_now(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (socket, client) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let client = client.and_then(|client| SocketAddr::try_from(client).ok());
    let client = client.ok_or_else(|| io::Error::other("a client without an address"))?;
    Ok((socket.into(), client))
}

/// Behind a wildcard address the address that the client reached is the connection's own.
fn actual_server(socket: &Socket, listener: SocketAddr) -> SocketAddr {
    if listener.ip().is_unspecified() {
        socket.local_addr().unwrap_or(listener)
    } else {
        listener
    }
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
        let sockets = bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = sockets[0].local_addr().unwrap();
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
        assert_eq!(bind(address, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
