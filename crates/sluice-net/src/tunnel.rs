//! Tunnels: bytes of another protocol, such as WebSocket, both ways on a connection or stream whose exchange has switched to it (RFC 9110 §7.8, RFC 8441).
//!
//! ```text
//! HTTP/1.1   GET, Upgrade      ─▶ 101 ─▶ hyper ends, and returns what it has read ─▶ run_on_connection
//! HTTP/2     CONNECT, :protocol ─▶ 200 ─▶ the stream goes on as bytes             ─▶ a task: run_on_stream
//! ```

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sluice_settings::limits::Limits;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::close_reason::CloseReason;
use crate::http_connection::HttpConnection;
use crate::monitor::{Action, ConnectionMonitor};
use crate::service::{Answered, Service};
use crate::stream::SharedStream;
use crate::worker_net::WorkerNet;

/// A stream of bytes in both directions. The end of reading is the end of the other side's sending; `poll_shutdown` ends the own side.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> ByteStream for T {}

/// The protocol that a client and a service speak after their exchange has switched to it.
///
/// It keeps the [`ActiveExchange`](crate::active_exchange::ActiveExchange), so that the connection counts as busy until the tunnel is
/// dropped: when it is over, when its client does not take what it is sent, and when the server drains.
pub trait Tunnel {
    /// Moves bytes as far as possible. Ready when the tunnel is over and everything is flushed. An error resets the connection.
    fn poll(&mut self, client: &mut dyn ByteStream, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// The answer to a request as hyper gets it: the response alone. `keep` gets the tunnel.
pub(crate) struct Answering<A, B, K> {
    answer: A,
    keep: K,
    body: PhantomData<fn() -> B>,
}

impl<A, B, K> Answering<A, B, K> {
    pub(crate) fn new(answer: A, keep: K) -> Answering<A, B, K> {
        let body = PhantomData;
        Answering { answer, keep, body }
    }
}

impl<A, B, K> Future for Answering<A, B, K>
where
    A: Future<Output: Into<Answered<B>>> + Unpin,
    K: FnMut(Box<dyn Tunnel>) + Unpin,
{
    type Output = Result<Response<B>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered: Answered<B> = ready!(Pin::new(&mut self.answer).poll(context)).into();
        if let Some(tunnel) = answered.tunnel {
            (self.keep)(tunnel);
        }
        Poll::Ready(Ok(answered.response))
    }
}

/// Runs a tunnel instead of HTTP/1.1, until it is over or the connection is to be closed.
pub(crate) async fn run_on_connection<S: Service>(http: &HttpConnection<S>, mut tunnel: Box<dyn Tunnel>) {
    let (connection, limits) = (&http.slot, http.service.limits());
    let mut monitor = ConnectionMonitor::new(connection, http.net.tick());
    let mut client = SharedStream {
        stream: Rc::clone(&http.stream),
        ends_sending: true,
    };
    let reason = poll_fn(|context| {
        http.join_watches();
        if connection.due_close_request().is_some() {
            // The reason is known.
            return Poll::Ready(CloseReason::default());
        }
        let check = |monitor: &mut ConnectionMonitor| check(http, &limits, monitor);
        match monitor.next_action(&http.net, connection, context, check) {
            Action::Continue => {}
            Action::ShutDown => return Poll::Ready(CloseReason::Draining),
            Action::Close(()) => return Poll::Ready(CloseReason::TooSlow),
        }
        http.stream.borrow_mut().begin_turn();
        tunnel.poll(&mut client, context).map(|end| match end {
            Ok(()) => CloseReason::TunnelEnded,
            Err(error) => {
                connection.abort();
                http.reason_of_error(&error)
            }
        })
    })
    .await;
    connection.close_because(reason);
}

/// Checks once a second whether the client takes what it is sent. It may be silent for as long as the tunnel permits.
fn check<S: Service>(http: &HttpConnection<S>, limits: &Limits, monitor: &mut ConnectionMonitor) -> Action<()> {
    let wait = http.stream.borrow_mut().client_wait(monitor.now());
    if monitor.is_fast_enough(&http.slot, wait, limits) {
        return Action::Continue;
    }
    http.end_slow();
    Action::Close(())
}

/// Runs a tunnel on a stream of HTTP/2, from the moment at which its response is sent. Dropping the stream ends it.
pub(crate) async fn run_on_stream(net: Rc<WorkerNet>, upgrade: OnUpgrade, mut tunnel: Box<dyn Tunnel>) {
    let mut draining = pin!(net.draining());
    let mut upgrade = pin!(upgrade);
    let upgraded = poll_fn(|context| match draining.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => upgrade.as_mut().poll(context).map(Result::ok),
    });
    let Some(upgraded) = upgraded.await else { return };
    let mut client = TokioIo::new(upgraded);
    let end = poll_fn(|context| match draining.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(Ok(())),
        Poll::Pending => tunnel.poll(&mut client, context),
    });
    if let Err(error) = end.await {
        tracing::debug!("tunnel of a stream: {error}");
    }
}
