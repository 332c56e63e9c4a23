//! Tunnels through a whole connection, with a service whose tunnel sends back what it gets.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, Ready, ready};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::Empty;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::ext::Protocol;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluice_http::endpoints::Endpoints;
use sluice_http::request_body::Incoming;
use sluice_http::tasks::Tasks;
use sluice_settings::limits::Limits;
use sluice_watch::Hub;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, yield_now};

use crate::active_exchange::ActiveExchange;
use crate::chunk::Chunk;
use crate::client_counts::ClientCounts;
use crate::connection::Connection;
use crate::listener_protocol::ListenerProtocol;
use crate::phase::Phase;
use crate::serve_connection::serve_connection;
use crate::service::{Answered, HeadRefusal, Service};
use crate::socket::Socket;
use crate::tunnel::{ByteStream, Tunnel};
use crate::worker_net::{WorkerNet, WorkerNetLimits};

/// A request that becomes a tunnel in HTTP/1.1.
const SWITCH: &str = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

/// How long a test waits for what must happen at once.
const LIMIT: Duration = Duration::from_secs(20);

/// The service: `/echo` is a tunnel, everything else an empty response.
struct EchoService {
    limits: Limits,
}

impl Service for EchoService {
    type Body = NoBody;
    type Answer = Ready<Answered<NoBody>>;

    fn limits(&self) -> Limits {
        self.limits
    }

    fn is_trusted_proxy(&self, _: &Endpoints) -> bool {
        false
    }

    fn has_tunnels(&self) -> bool {
        true
    }

    fn serve(&self, connection: &Rc<Connection>, request: Request<Incoming>) -> Self::Answer {
        let exchange = ActiveExchange::begin(connection);
        let mut response = Response::new(NoBody);
        if request.uri().path() != "/echo" {
            return ready(Answered::from(Ok(response)));
        }
        if request.method() != Method::CONNECT {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let fields = response.headers_mut();
            fields.insert(header::CONNECTION, header::HeaderValue::from_static("upgrade"));
            fields.insert(header::UPGRADE, header::HeaderValue::from_static("echo"));
        }
        let tunnel = Some(Box::new(Echo::new(exchange)) as Box<dyn Tunnel>);
        ready(Answered { response, tunnel })
    }

    fn refuse(&self, _: Endpoints, _: &HeadRefusal) -> Option<Vec<u8>> {
        None
    }
}

struct NoBody;

impl Body for NoBody {
    type Data = Chunk;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, Box<dyn Error + Send + Sync>>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

/// Sends back what it gets, and "end" when the client sends no more.
struct Echo {
    _exchange: ActiveExchange,
    unsent: Vec<u8>,
    is_ending: bool,
}

impl Echo {
    fn new(mut exchange: ActiveExchange) -> Echo {
        exchange.wait_on_client();
        Echo {
            _exchange: exchange,
            unsent: Vec::new(),
            is_ending: false,
        }
    }
}

impl Tunnel for Echo {
    fn poll(&mut self, client: &mut dyn ByteStream, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.unsent.is_empty() {
                let sent = ready!(Pin::new(&mut *client).poll_write(context, &self.unsent))?;
                self.unsent.drain(..sent);
            }
            ready!(Pin::new(&mut *client).poll_flush(context))?;
            if self.is_ending {
                return Pin::new(client).poll_shutdown(context);
            }
            let mut bytes = [0; 1000];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut *client).poll_read(context, &mut buffer))?;
            self.is_ending = buffer.filled().is_empty();
            self.unsent
                .extend_from_slice(if self.is_ending { b"end" } else { buffer.filled() });
        }
    }
}

/// A worker with one connection.
struct Worker {
    net: Rc<WorkerNet>,
    phases: watch::Sender<Phase>,
    connection: JoinHandle<()>,
}

impl Worker {
    /// A worker, and the client of its connection.
    fn start(limits: Limits) -> (Worker, UnixStream) {
        let protocol = ListenerProtocol {
            tls: None,
            http2: true,
            proxy_protocol: None,
            redirect_to_https: None,
        };
        let net_limits = WorkerNetLimits {
            slots: 1,
            send_bytes_max: 1 << 20,
            client_counts: Arc::new(ClientCounts::new(0)),
        };
        let (phases, phase) = watch::channel(Phase::Serving);
        let protocols = Arc::new(ArcSwap::from_pointee(vec![protocol]));
        let net = WorkerNet::new(
            protocols,
            net_limits,
            phase,
            Tasks::default(),
            Arc::default(),
            &Hub::new(),
        );
        let net = Rc::new(net);
        let (server, client) = StdUnixStream::pair().unwrap();
        for end in [&server, &client] {
            end.set_nonblocking(true).unwrap();
        }
        let socket = Socket::new(TcpStream::from(OwnedFd::from(server)));
        let slot = net.slots.take(net.connection(Endpoints::UNIX), None, net.tick());
        let service = Rc::new(EchoService { limits });
        let connection = tokio::task::spawn_local(serve_connection(Rc::clone(&net), service, socket, slot, 0));
        let worker = Worker { net, phases, connection };
        (worker, UnixStream::from_std(client).unwrap())
    }

    fn is_idle(&self) -> bool {
        let mut is_idle = true;
        self.net
            .slots
            .for_each(|connection, _| is_idle &= connection.exchanges.is_idle());
        is_idle
    }

    fn drain(&self) {
        self.phases.send(Phase::Draining).unwrap();
        self.net.drain();
    }

    /// Waits until the connection has ended and its slot is free; the worker's seconds pass meanwhile.
    async fn ended(self) {
        while !self.connection.is_finished() {
            self.net.advance();
            yield_now().await;
        }
        assert!(!self.net.slots.are_full());
        assert_eq!(self.net.tasks.running(), 0);
    }
}

/// Runs a test on a worker's thread.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limited = async { tokio::time::timeout(LIMIT, test).await.expect("in time") };
    LocalSet::new().block_on(&runtime, limited);
}

async fn expect(client: &mut (impl AsyncRead + Unpin), expected: &str) {
    let mut bytes = vec![0; expected.len()];
    client.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

/// Reads to the end. A reset is an end, too.
async fn read_to_end(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    match client.read_to_end(&mut bytes).await {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

/// Reads a head, byte by byte, so that nothing after it is lost.
async fn read_head(client: &mut UnixStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(client.read_u8().await.unwrap()));
    }
    head
}

#[test]
fn bytes_go_both_ways_and_none_that_came_with_the_head_is_lost() {
    run(async {
        let (worker, mut client) = Worker::start(Limits::default());
        let pipelined = format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{SWITCH}first");
        client.write_all(pipelined.as_bytes()).await.unwrap();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
        let head = read_head(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(
            head.contains("upgrade: echo\r\n") && !head.contains("content-length"),
            "{head}"
        );
        expect(&mut client, "first").await;
        for text in ["second", "GET / HTTP/1.9\r\n\r\n"] {
            client.write_all(text.as_bytes()).await.unwrap();
            expect(&mut client, text).await;
        }
        assert!(!worker.is_idle());
        client.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut client).await, "end");
        worker.ended().await;
    });
}

#[test]
fn every_split_of_the_head_begins_the_same_tunnel() {
    run(async {
        for at in [1, SWITCH.len() - 1, SWITCH.len()] {
            let (worker, mut client) = Worker::start(Limits::default());
            let (first, second) = SWITCH.split_at(at);
            client.write_all(first.as_bytes()).await.unwrap();
            (0..10).for_each(|_| worker.net.advance());
            yield_now().await;
            client.write_all(format!("{second}bytes").as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            read_head(&mut client).await;
            assert_eq!(read_to_end(&mut client).await, "bytesend", "{at}");
            worker.ended().await;
        }
    });
}

#[test]
fn a_silent_tunnel_stays_and_one_that_takes_nothing_is_ended() {
    run(async {
        let limits = Limits {
            head_timeout: Duration::ZERO,
            send_timeout: Duration::ZERO,
            ..Limits::default()
        };
        let (worker, mut client) = Worker::start(limits);
        client.write_all(SWITCH.as_bytes()).await.unwrap();
        read_head(&mut client).await;
        for _ in 0..100 {
            worker.net.advance();
            yield_now().await;
        }
        client.write_all(b"still here").await.unwrap();
        expect(&mut client, "still here").await;
        // What comes back is not read.
        let chunk = [b'a'; 4096];
        while client.write_all(&chunk).await.is_ok() {
            worker.net.advance();
            yield_now().await;
        }
        worker.ended().await;
    });
}

#[test]
fn draining_ends_a_tunnel() {
    run(async {
        let (worker, mut client) = Worker::start(Limits::default());
        client.write_all(SWITCH.as_bytes()).await.unwrap();
        read_head(&mut client).await;
        worker.drain();
        assert_eq!(read_to_end(&mut client).await, "");
        drop(client);
        worker.ended().await;
    });
}

#[test]
fn a_client_that_is_gone_ends_its_tunnel() {
    run(async {
        let (worker, mut client) = Worker::start(Limits::default());
        client.write_all(SWITCH.as_bytes()).await.unwrap();
        read_head(&mut client).await;
        client.write_all(&[b'a'; 100]).await.unwrap();
        drop(client);
        worker.ended().await;
    });
}

/// A client of HTTP/2 that knows what the server has announced.
async fn http2_client(client: UnixStream) -> SendRequest<Empty<Bytes>> {
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
        .await
        .unwrap();
    tokio::task::spawn_local(async { drop(connection.await) });
    assert_eq!(get(&mut sender).await, StatusCode::OK);
    sender
}

async fn get(sender: &mut SendRequest<Empty<Bytes>>) -> StatusCode {
    let request = Request::get("http://a/").body(Empty::new()).unwrap();
    sender.send_request(request).await.unwrap().status()
}

/// Has a stream become a tunnel.
async fn switch(sender: &mut SendRequest<Empty<Bytes>>) -> TokioIo<Upgraded> {
    let request = Request::connect("http://a/echo")
        .extension(Protocol::from_static("echo"))
        .body(Empty::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    TokioIo::new(hyper::upgrade::on(response).await.unwrap())
}

#[test]
fn a_stream_of_http2_is_a_tunnel_beside_other_exchanges() {
    run(async {
        let (worker, client) = Worker::start(Limits::default());
        let mut sender = http2_client(client).await;
        let (mut first, mut second) = (switch(&mut sender).await, switch(&mut sender).await);
        let long = "long ".repeat(50_000);
        for text in ["short", &long] {
            for tunnel in [&mut first, &mut second] {
                let (mut reading, mut writing) = tokio::io::split(tunnel);
                let sent = async {
                    writing.write_all(text.as_bytes()).await.unwrap();
                    writing.flush().await.unwrap();
                };
                tokio::join!(sent, expect(&mut reading, text));
                assert_eq!(get(&mut sender).await, StatusCode::OK);
            }
        }
        assert!(!worker.is_idle());
        first.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut first).await, "end");
        second.write_all(b"goes on").await.unwrap();
        expect(&mut second, "goes on").await;
        drop((first, second, sender));
        worker.ended().await;
    });
}

#[test]
fn draining_ends_the_tunnels_of_http2() {
    run(async {
        let (worker, client) = Worker::start(Limits::default());
        let mut sender = http2_client(client).await;
        let mut tunnel = switch(&mut sender).await;
        worker.drain();
        let mut rest = Vec::new();
        let _ = tunnel.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
        drop((tunnel, sender));
        worker.ended().await;
    });
}

#[test]
fn an_answer_without_a_tunnel_is_a_response() {
    let response: Result<Response<NoBody>, Infallible> = Ok(Response::new(NoBody));
    assert!(Answered::from(response).tunnel.is_none());
}
