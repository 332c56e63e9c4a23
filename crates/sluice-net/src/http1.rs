//! HTTP/1.1: hyper's, its bounds, and what is said to a client that does not keep to it.
//!
//! Here: exchange after exchange on one connection. While it rests between exchanges it costs little more than its
//! socket: hyper and its buffers go, and come anew when the client speaks again. hyper parses, frames, keeps alive,
//! pipelines and answers `Expect: 100-continue`. It answers malformed heads itself (400, 414, 431); a head that never
//! becomes complete is answered here (408). Not here: what a request means (`serve`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluice_settings::limits::Limits;

use crate::connection::Connection;
use crate::monitor::{Action, ConnectionMonitor};
use crate::protocol::Client;
use crate::service::Service;
use crate::stream::Shared;

/// What hyper gathers for one write, and reads ahead, bytes.
const BUFFER_BYTES_MAX: usize = 512 << 10;

/// Fields of a head that hyper takes unless it is told otherwise (`http1::Builder::max_headers`).
const HYPER_HEAD_FIELDS: usize = 100;

/// Exchange after exchange to the end; the refusal of a head that could not be taken.
pub(crate) async fn run<S: Service>(client: &Client<S>) -> Option<Refusal> {
    loop {
        // Boxed: a connection at rest is not to pay for it.
        match Box::pin(run_until_idle(client)).await {
            Ok(Turn::Idle) if wait_for_more(client).await => {}
            Ok(Turn::Late) if client.slot.has_part_of_head() => return Some(Refusal::late()),
            Ok(_) => return None,
            Err(error) => {
                let refusal = Refusal::of(&error);
                if refusal.is_none() {
                    // The client left, or a response was cut: its exchange has said so.
                    tracing::debug!("connection from {}: {error}", client.slot.endpoints().client);
                }
                return refusal;
            }
        }
    }
}

/// Why a conversation has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// One side has closed it, or will have it closed.
    Over,
    /// Nothing was said for a while between two exchanges: it goes on when the client speaks again.
    Idle,
    /// The head of a request has not come in time.
    Late,
}

/// Exchange after exchange, until the connection ends or rests.
async fn run_until_idle<S: Service>(client: &Client<S>) -> Result<Turn, hyper::Error> {
    let Client {
        front,
        service,
        slot,
        stream,
    } = client;
    let connection: &Rc<Connection> = slot;
    let limits = service.limits();
    let service = service_fn(|request| service.serve(connection, request));
    let io = TokioIo::new(Shared(Rc::clone(stream)));
    let mut http = http1(&limits).serve_connection(io, service);
    let mut monitor = ConnectionMonitor::new(connection, front.tick());
    let turn = poll_fn(|context| {
        let verdict = monitor.ask(client, context, |monitor| check(client, &limits, monitor));
        match verdict {
            Action::GoOn => {}
            // Between two exchanges hyper then ends at once; otherwise it will not begin another.
            Action::End => Pin::new(&mut http).graceful_shutdown(),
            Action::Over(turn) => return Poll::Ready(Ok(turn)),
        }
        // Ready once all is flushed. hyper's shutdown at the end does nothing: `protocol` decides how the socket is closed.
        Pin::new(&mut http).poll(context).map_ok(|()| {
            // Not a byte was read since the last exchange. (Where it was the server's draining that has ended it,
            // `wait_for_more` does not wait.)
            if verdict == Action::End && connection.is_between_exchanges() {
                Turn::Idle
            } else {
                Turn::Over
            }
        })
    })
    .await?;
    if let Turn::Idle = turn {
        // What came with the last request, and was read with it, may be a part of the next: it must not go with hyper's buffers.
        stream.borrow_mut().give_back(http.into_parts().read_buf);
    }
    Ok(turn)
}

/// What becomes of a conversation, once a second.
fn check<S>(client: &Client<S>, limits: &Limits, monitor: &mut ConnectionMonitor) -> Action<Turn> {
    let (connection, stream) = (&client.slot, client.stream.borrow());
    // hyper sees by itself, at once, that the client has left, as long as it reads; it does not while another request
    // waits in its buffer, or while nobody takes the request's body.
    if connection.is_busy() && stream.has_left() {
        return Action::Over(Turn::Over);
    }
    match monitor.quiet(connection, connection.is_busy() || stream.is_sending()) {
        Some(quiet) if quiet >= limits.head_timeout => Action::Over(Turn::Late),
        // It rests.
        Some(_) if connection.is_between_exchanges() && !monitor.is_ending() => Action::End,
        _ => Action::GoOn,
    }
}

/// Keeps nothing but the socket until the client speaks again; false when it does not in time, or the server drains.
fn wait_for_more<S: Service>(client: &Client<S>) -> impl Future<Output = bool> {
    let patience = client.service.limits().head_timeout.as_secs() + 1;
    let until = client
        .front
        .tick()
        .saturating_add(u32::try_from(patience).unwrap_or(u32::MAX));
    poll_fn(move |context| {
        if client.front.is_draining() || client.front.tick() >= until {
            return Poll::Ready(false);
        }
        client.slot.call_at(until, context.waker());
        client.stream.borrow_mut().poll_readable(context).map(|()| true)
    })
}

/// What hyper calls a target of more than 64 KiB. It answers that with 414 and a large head with 431, and tells the two apart to us in
/// words alone; without this the log would have 431 for both.
const TARGET_TOO_LONG: &str = "URI too long";

/// A head that could not be taken.
pub struct Refusal {
    pub status: StatusCode,
    /// What is wrong with it, for the log.
    pub reason: String,
    /// hyper has answered the client.
    pub is_answered: bool,
}

impl Refusal {
    fn late() -> Refusal {
        Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            reason: "incomplete when its time was over".to_owned(),
            is_answered: false,
        }
    }

    /// None when it is not about a head.
    fn of(error: &hyper::Error) -> Option<Refusal> {
        let (status, is_answered) = if error.is_parse_version_h2() {
            (StatusCode::HTTP_VERSION_NOT_SUPPORTED, false)
        } else if error.is_parse_too_large() && error.to_string() == TARGET_TOO_LONG {
            (StatusCode::URI_TOO_LONG, true)
        } else if error.is_parse_too_large() {
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, true)
        } else if error.is_parse() {
            (StatusCode::BAD_REQUEST, true)
        } else {
            return None;
        };
        Some(Refusal {
            status,
            reason: error.to_string(),
            is_answered,
        })
    }
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut http1 = http1::Builder::new();
    http1
        // How long a head may take is seen to here, once a second and without a timer for each (`run_until_idle`).
        .header_read_timeout(None)
        .max_header_size(limits.head_bytes_max)
        .max_buf_size(BUFFER_BYTES_MAX.max(limits.head_bytes_max))
        .writev(true);
    // hyper keeps room for its own default on the stack, and fills room of any other size for every head.
    if limits.head_fields_max != HYPER_HEAD_FIELDS {
        http1.max_headers(limits.head_fields_max);
    }
    http1
}
