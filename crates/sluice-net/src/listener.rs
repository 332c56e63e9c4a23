//! Listening sockets: bound once for all workers, and the loop that accepts.
//!
//! An internet address has one socket per worker (SO_REUSEPORT), among which the kernel distributes connections. A unix
//! socket, and a socket that systemd has bound, is one for all workers: each waiting worker is woken, and the first one gets the
//! connection. Sockets may be bound by another process (`Bound::of_sockets`), so that they outlive the server.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use sluice_http::endpoints::{Endpoints, NamedBy};
use sluice_launch::refuse_descriptors;
use sluice_settings::{ListenAddress, ListenSettings};
use socket2::{Domain, Protocol, SockRef, TcpKeepalive, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::client_counts::Counted;
use crate::connection_events;
use crate::serve_connection::serve_connection;
use crate::service::Service;
use crate::socket::Socket;
use crate::unix::{self, SocketFile};
use crate::unix_peer::{UnixPeer, close_listener};
use crate::worker_net::WorkerNet;

/// Connections that wait in the kernel to be accepted by one worker; the system caps this (net.core.somaxconn).
pub(crate) const BACKLOG: i32 = 4096;

/// TCP keepalive detects clients whose machine or network has gone: no time limit of the server applies while a script computes for minutes.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// How long a worker pauses when the system is out of descriptors or memory: some connections end meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// A worker's listening socket.
pub struct Listener {
    socket: OwnedFd,
    kind: ListenerKind,
}

#[derive(Clone, Copy)]
struct ListenerKind {
    /// The address it is bound to. `None` for a unix socket.
    address: Option<SocketAddr>,
    /// Whether other workers accept from the same socket.
    is_shared: bool,
}

/// The listening sockets of one address.
pub struct Bound {
    /// One for each worker, or fewer, which workers share.
    pub sockets: Vec<OwnedFd>,
    /// The configured address.
    pub configured: ListenAddress,
    /// The same, with the port that the system chose.
    pub address: ListenAddress,
    /// The file of a unix socket, which is removed with these sockets.
    pub file: Option<SocketFile>,
}

/// Binds an address. Port 0 lets the system choose one for all workers. An error is the administrator's fault.
pub fn bind(settings: &ListenSettings, workers: usize) -> io::Result<Bound> {
    match &settings.address {
        ListenAddress::Inet(address) => {
            let sockets = bind_inet(*address, workers)?;
            Ok(Bound {
                address: sockets[0].local_addr()?.into(),
                configured: settings.address.clone(),
                sockets: sockets.into_iter().map(OwnedFd::from).collect(),
                file: None,
            })
        }
        ListenAddress::Unix(path) => {
            let (socket, file) = unix::bind(path, settings.socket_mode)?;
            Ok(Bound {
                sockets: vec![socket],
                configured: settings.address.clone(),
                address: settings.address.clone(),
                file: Some(file),
            })
        }
    }
}

impl Bound {
    /// The sockets of an address that another process has bound, and whose file it removes. An error: one does not listen there.
    pub fn of_sockets(configured: &ListenAddress, sockets: Vec<OwnedFd>) -> io::Result<Bound> {
        let mut address = None;
        for socket in &sockets {
            let socket = SockRef::from(socket);
            socket.set_nonblocking(true)?;
            if !socket.is_listener()? {
                return Err(io::Error::other("the socket does not listen"));
            }
            match configured {
                ListenAddress::Inet(_) => {
                    let own = socket.local_addr()?.as_socket();
                    address = Some(own.ok_or_else(|| io::Error::other("the socket is no internet socket"))?);
                }
                // Connections that wait already are asked when they are accepted.
                ListenAddress::Unix(_) => _ = refuse_descriptors(&*socket),
            }
        }
        if sockets.is_empty() {
            return Err(io::Error::other("there is no socket"));
        }
        Ok(Bound {
            sockets,
            configured: configured.clone(),
            address: address.map_or_else(|| configured.clone(), ListenAddress::from),
            file: None,
        })
    }

    /// Has the file of a unix socket, if there is one, removed with these sockets. An error: no descriptors are left.
    pub fn owning_file(mut self) -> io::Result<Bound> {
        if let (ListenAddress::Unix(path), Some(socket)) = (&self.configured, self.sockets.first()) {
            self.file = SocketFile::of(path, socket.try_clone()?).ok();
        }
        Ok(self)
    }

    /// The listeners of each worker, one or more for every socket, and the file of a unix socket. An error: no descriptors are left.
    pub fn into_listeners(mut self, workers: usize) -> io::Result<(Vec<Vec<Listener>>, Option<SocketFile>)> {
        let address = match self.address {
            ListenAddress::Inet(address) => Some(address),
            ListenAddress::Unix(_) => None,
        };
        let sockets = std::mem::take(&mut self.sockets);
        let given = sockets.len();
        let kind = ListenerKind { address, is_shared: given < workers };
        let mut by_worker: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
        let listener = |socket| Listener { socket, kind };
        for (worker, listeners) in by_worker.iter_mut().enumerate().skip(given) {
            listeners.push(listener(sockets[worker % given].try_clone()?));
        }
        for (index, socket) in sockets.into_iter().enumerate() {
            by_worker[index % workers].push(listener(socket));
        }
        Ok((by_worker, self.file.take()))
    }
}

/// Connections wait in the queue of a unix socket, and what their clients have sent with them.
impl Drop for Bound {
    fn drop(&mut self) {
        if let ListenAddress::Unix(_) = self.configured {
            self.sockets.drain(..).for_each(close_listener);
        }
    }
}

fn bind_inet(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    // With SO_REUSEPORT a second server could bind the same port. Without it, binding fails if any process listens.
    drop(socket(address, false)?);
    let first = socket(address, true)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    while sockets.len() < workers {
        sockets.push(socket(address, true)?);
    }
    Ok(sockets)
}

/// A socket at an address; `listens` with others of this server.
fn socket(address: SocketAddr, listens: bool) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // An address whose last connections are still in TIME-WAIT can be bound again (socket(7)).
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(listens)?;
    if address.is_ipv6() {
        // `[::]` does not include `0.0.0.0`, so that a server can listen on both.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if listens {
        // Accepted sockets inherit these options, which saves system calls.
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_EVERY)
            .with_retries(KEEPALIVE_PROBES);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.listen(BACKLOG)?;
    }
    Ok(socket.into())
}

/// Accepts connections until the worker drains, or until `closing` says that the address is removed, and starts a task for each. The
/// connections that wait in the kernel when the address is removed are still accepted. `index` is that of the address.
pub async fn accept<S: Service>(
    net: Rc<WorkerNet>,
    service: Rc<S>,
    listener: Listener,
    index: usize,
    closing: watch::Receiver<bool>,
) {
    let Listener { socket, kind } = listener;
    #[expect(
        deprecated,
        reason = "sound for a listener, which owns its descriptor; its replacement is unsafe because not all types do"
    )]
    let listener = match AsyncFd::with_interest(socket, Interest::READABLE) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("listening socket: {error}"),
    };
    accept_until_closed(&net, &service, &listener, (kind, index), closing).await;
    if kind.address.is_none() {
        close_listener(listener.into_inner());
    }
}

async fn accept_until_closed<S: Service>(
    net: &Rc<WorkerNet>,
    service: &Rc<S>,
    listener: &AsyncFd<OwnedFd>,
    (ListenerKind { address, is_shared }, index): (ListenerKind, usize),
    mut closing: watch::Receiver<bool>,
) {
    let slots = Rc::clone(&net.slots);
    let mut draining = pin!(net.closing());
    while net.is_accepting() {
        // Workers may share a socket: a worker without a free slot makes room first, and the others accept meanwhile.
        if is_shared && slots.are_full() {
            tokio::select! {
                biased;
                () = make_room_for_waiting(net, listener) => {}
                () = &mut draining => return,
                () = closed(&mut closing) => {}
            }
        }
        let accepted = tokio::select! {
            biased;
            accepted = poll_fn(|context| poll_accept(listener, context)) => accepted,
            () = &mut draining => return,
            () = closed(&mut closing) => match accept_now(listener.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                accepted => accepted,
            },
        };
        match accepted {
            Ok((socket, client)) => {
                let socket = match address {
                    Some(_) => Socket::new(socket),
                    None => {
                        let peer = UnixPeer::of(&socket, &net.log);
                        Socket::with_peer(socket, peer)
                    }
                };
                let Some(endpoints) = endpoints(&socket, client, address) else {
                    continue;
                };
                let Some(counted) = count(net, &**service, &endpoints, index) else {
                    let most = net.client_counts.connections_max;
                    net.log.over_client_limit(&endpoints, most);
                    connection_events::note_over_client_limit(net, &endpoints, most);
                    continue;
                };
                // After accepting, because a waiting listener must not hold a slot that another listener could use.
                tokio::select! {
                    biased;
                    () = make_room(net) => {}
                    () = &mut draining => return,
                }
                let slot = slots.take(net.connection(endpoints), counted, net.tick());
                if net.watches().is_on() {
                    let is_proxy = net.has_proxy_protocol(index) || service.is_trusted_proxy(&endpoints);
                    slot.peer.listener.set(index);
                    slot.peer.is_proxy.set(is_proxy);
                    connection_events::note_accepted(net, &slot, slot.number);
                }
                let (net, service) = (Rc::clone(net), Rc::clone(service));
                let tasks = net.tasks.clone();
                tasks.spawn(serve_connection(net, service, socket, slot, index));
            }
            Err(error) if is_shortage(&error) => {
                net.log.accept_failed(&error, PAUSE);
                tokio::time::sleep(PAUSE).await;
            }
            Err(_) => {}
        }
    }
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|is_closed| *is_closed).await.is_err() {
        // The server itself is gone, and with it this worker soon.
        std::future::pending::<()>().await;
    }
}

async fn make_room(net: &WorkerNet) {
    net.slots
        .make_room(|connection| net.log.closed_for_another(connection))
        .await;
}

/// Waits until a connection waits to be accepted, and then until a slot is free.
async fn make_room_for_waiting(net: &WorkerNet, listener: &AsyncFd<OwnedFd>) {
    while net.slots.are_full() {
        let Ok(mut ready) = listener.readable().await else {
            return;
        };
        let mut listeners = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut listeners, Some(&Timespec::default())) {
            Ok(0) => ready.clear_ready(),
            _ => make_room(net).await,
        }
    }
}

/// Counts a connection of its client. `None` if the client has as many as it may have; `Some(None)` if it is not counted.
/// A proxy's connections are those of many clients, and a unix socket's are a proxy's.
fn count<S: Service>(net: &WorkerNet, service: &S, endpoints: &Endpoints, index: usize) -> Option<Option<Counted>> {
    let counts = &net.client_counts;
    let is_counted = counts.connections_max > 0
        && !endpoints.is_unix
        && !service.is_trusted_proxy(endpoints)
        && !net.has_proxy_protocol(index);
    match is_counted {
        true => counts.count(endpoints.client.ip()).map(Some),
        false => Some(None),
    }
}

/// An accepted connection, which does not block, and its client. It may be a unix socket: nothing that is called on it is specific to TCP (`socket`).
type NewSocket = (TcpStream, Option<SocketAddr>);

fn poll_accept(listener: &AsyncFd<OwnedFd>, context: &mut Context<'_>) -> Poll<io::Result<NewSocket>> {
    loop {
        let mut ready = ready!(listener.poll_read_ready(context))?;
        if let Ok(accepted) = ready.try_io(|listener| accept_now(listener.get_ref())) {
            return Poll::Ready(accepted);
        }
    }
}

fn accept_now(listener: &OwnedFd) -> io::Result<NewSocket> {
    let (socket, client) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let client = client.and_then(|client| SocketAddr::try_from(client).ok());
    Ok((socket.into(), client))
}

/// The two ends of a connection. A listener on a wildcard address asks the socket which address the client reached.
/// `None` for an internet client without an address, which must not be mistaken for a client of a unix socket.
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
        named_by: NamedBy::Connection,
    })
}

/// Whether an error is the system's, not the connection's (accept(2)): retrying at once would only spin.
fn is_shortage(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port_that_a_second_server_cannot_bind() {
        let bound = bind_inet("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = bound[0].local_addr().unwrap();
        assert!(bound.iter().all(|socket| socket.local_addr().unwrap() == address));
        assert_eq!(bind_inet(address, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
