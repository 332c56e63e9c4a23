//! HTTP/1.1 with hyper: its limits, and the refusal of heads that it cannot take.
//!
//! Between exchanges an idle connection costs little more than its socket: hyper and its buffers are dropped, and created again when the client sends
//! more. hyper parses, frames, keeps alive, pipelines and answers `Expect: 100-continue`. It answers malformed heads itself (400, 414, 431); a head
//! that stays incomplete is answered here (408).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use http::{Request, StatusCode};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluice_http::request_body::Incoming;
use sluice_http::tasks::yield_now;
use sluice_settings::limits::Limits;

use crate::close_reason::CloseReason;
use crate::connection::Connection;
use crate::fairness::ExchangeTurn;
use crate::half_close::{HalfClose, Step};
use crate::http_connection::HttpConnection;
use crate::monitor::{Action, ConnectionMonitor};
use crate::service::{HeadRefusal, Service};
use crate::stream::{ClientSide, SharedStream};
use crate::tunnel::{self, Answering};

/// Bytes that hyper reads ahead, and collects for one write.
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// The number of fields in a head that hyper accepts by default (`Builder::max_headers`).
const HYPER_HEAD_FIELDS: usize = 100;

/// Runs exchange after exchange until the connection is to be closed. Returns the refusal of the last head, if any.
pub(crate) async fn run_http1<S: Service>(http: &HttpConnection<S>) -> Option<HeadRefusal> {
    loop {
        // Boxed, so that its memory is freed while the connection is idle.
        match Box::pin(run_until_idle(http)).await {
            Ok(Outcome::Idle) if wait_for_more(http).await => {}
            Ok(Outcome::HeadTimedOut) if http.slot.exchanges.has_part_of_head() => {
                http.slot.close_because(CloseReason::HeadTimedOut);
                return Some(HeadRefusal {
                    status: StatusCode::REQUEST_TIMEOUT,
                    reason: "incomplete after the time limit".to_owned(),
                    is_answered: false,
                });
            }
            Ok(outcome) => {
                http.slot.close_because(reason_of_end(http, outcome));
                return None;
            }
            Err(error) => {
                let refusal = refusal_of(&error);
                if refusal.is_some() {
                    http.slot.close_because(CloseReason::HeadRefused);
                } else {
                    // The client left, or a response was aborted: its exchange has logged that.
                    tracing::debug!("connection from {}: {error}", http.slot.peer.endpoints().client);
                    http.slot.close_because(match error.is_user() {
                        true => CloseReason::Aborted,
                        false => http.reason_of_error(&error),
                    });
                }
                return refusal;
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Closed,
    /// Idle between two exchanges: continues when the client sends more.
    Idle,
    HeadTimedOut,
    /// The exchange had become a tunnel, which is over.
    Switched,
}

async fn run_until_idle<S: Service>(http: &HttpConnection<S>) -> Result<Outcome, hyper::Error> {
    let (net, service, stream) = (&http.net, &http.service, &http.stream);
    let connection: &Rc<Connection> = &http.slot;
    let limits = service.limits();
    let tunnel = RefCell::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        let answer = service.serve(connection, request);
        Answering::new(answer, |begun| drop(tunnel.replace(Some(begun))))
    });
    stream.borrow_mut().begin_http1();
    let io = TokioIo::new(SharedStream { stream: Rc::clone(stream), ends_sending: false });
    let mut exchanges = builder(&limits).serve_connection(io, service);
    let mut monitor = ConnectionMonitor::new(connection, net.tick());
    let (mut turn, mut half_close) = (ExchangeTurn::new(connection), HalfClose::default());
    let outcome = poll_fn(|context| {
        http.join_watches();
        if connection.due_close_request().is_some() {
            return Poll::Ready(Ok(Outcome::Closed));
        }
        if turn.is_over(connection) {
            yield_now(context);
            return Poll::Pending;
        }
        stream.borrow_mut().begin_turn();
        let check = |monitor: &mut ConnectionMonitor| check(http, &limits, monitor, &mut half_close);
        let action = monitor.next_action(net, connection, context, check);
        match action {
            Action::Continue => {}
            // Between two exchanges hyper then ends at once; otherwise it begins no other.
            Action::ShutDown => Pin::new(&mut exchanges).graceful_shutdown(),
            Action::Close(outcome) => return Poll::Ready(Ok(outcome)),
        }
        // Ready when all is flushed. hyper's shutdown at the end does nothing: `serve_connection` decides how to close.
        Pin::new(&mut exchanges).poll(context).map_ok(|()| {
            // No byte was read since the last exchange. (If draining has ended it, `wait_for_more` does not wait.)
            if tunnel.borrow().is_some() {
                Outcome::Switched
            } else if action == Action::ShutDown && connection.exchanges.is_between() {
                Outcome::Idle
            } else {
                Outcome::Closed
            }
        })
    })
    .await?;
    if outcome != Outcome::Closed {
        // Bytes that were read with the last request may belong to the next one, or to the tunnel: hyper's buffers go.
        stream.borrow_mut().unread(exchanges.into_parts().read_buf);
    }
    if let (Outcome::Switched, Some(tunnel)) = (outcome, tunnel.take()) {
        // Boxed, so that no other connection has the memory for it.
        Box::pin(tunnel::run_on_connection(http, tunnel)).await;
    }
    Ok(outcome)
}

fn reason_of_end<S>(http: &HttpConnection<S>, outcome: Outcome) -> CloseReason {
    match http.stream.borrow().client {
        ClientSide::Closed => CloseReason::ClientClosed,
        ClientSide::Reset => CloseReason::ClientReset,
        ClientSide::Open if http.net.is_draining() => CloseReason::Draining,
        ClientSide::Open if outcome != Outcome::Closed => CloseReason::Idle,
        ClientSide::Open if http.slot.exchanges.expects_no_more.get() => CloseReason::LastRequest,
        ClientSide::Open => CloseReason::LastResponse,
    }
}

fn check<S: Service>(
    http: &HttpConnection<S>,
    limits: &Limits,
    monitor: &mut ConnectionMonitor,
    half_close: &mut HalfClose,
) -> Action<Outcome> {
    let (connection, mut stream) = (&http.slot, http.stream.borrow_mut());
    let wait = stream.client_wait(monitor.now());
    if !monitor.is_fast_enough(connection, wait, limits) {
        http.end_slow();
        return Action::Close(Outcome::Closed);
    }
    // hyper does not read while it waits for a response.
    if connection.exchanges.is_busy()
        && stream.check_client(half_close, limits.half_close_timeout, monitor.now()) == Step::Leave
    {
        connection.close_because(CloseReason::ClientLeft);
        return Action::Close(Outcome::Closed);
    }
    if stream.is_sending() {
        monitor.restart_idle_time(connection);
        return Action::Continue;
    }
    match monitor.idle_time(connection) {
        Some(idle) if idle >= limits.head_timeout => Action::Close(Outcome::HeadTimedOut),
        Some(_) if connection.exchanges.is_between() && !monitor.is_shutting_down() => Action::ShutDown,
        _ => Action::Continue,
    }
}

/// Waits with nothing but the socket until the client sends more. False if it does not in time, or at a drain.
fn wait_for_more<S: Service>(http: &HttpConnection<S>) -> impl Future<Output = bool> {
    let seconds = http.service.limits().head_timeout.as_secs() + 1;
    let until = http
        .net
        .tick()
        .saturating_add(u32::try_from(seconds).unwrap_or(u32::MAX));
    poll_fn(move |context| {
        http.join_watches();
        if http.net.is_draining() || http.net.tick() >= until || http.slot.due_close_request().is_some() {
            return Poll::Ready(false);
        }
        http.slot.wake_at(until, context.waker());
        http.stream.borrow_mut().poll_readable(context).map(|()| true)
    })
}

/// hyper's message for a target of more than 64 KiB, which it answers with 414, and a large head with 431. For the log only this text tells them apart.
const TARGET_TOO_LONG: &str = "URI too long";

/// The refusal of a head. `None` if the error is not about a head.
fn refusal_of(error: &hyper::Error) -> Option<HeadRefusal> {
    if error.is_parse_version_h2() {
        return Some(HeadRefusal {
            status: StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            reason: "the major version of HTTP is not 1".to_owned(),
            is_answered: false,
        });
    }
    let status = if error.is_parse_too_large() && error.to_string() == TARGET_TOO_LONG {
        StatusCode::URI_TOO_LONG
    } else if error.is_parse_too_large() {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    } else if error.is_parse() {
        StatusCode::BAD_REQUEST
    } else {
        return None;
    };
    Some(HeadRefusal {
        status,
        reason: error.to_string(),
        is_answered: true,
    })
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        // `check` enforces the time limit of a head, once a second and without a timer for each head.
        .header_read_timeout(None)
        // Otherwise the end of the client's sending side would end the exchange.
        .half_close(true)
        .max_header_size(limits.head_bytes_max)
        .max_buf_size(BUFFER_BYTES_MAX.max(limits.head_bytes_max))
        .writev(true);
    // hyper keeps the fields of its default number on the stack; for any other it allocates with every head.
    if limits.head_fields_max != HYPER_HEAD_FIELDS {
        builder.max_headers(limits.head_fields_max);
    }
    builder
}
