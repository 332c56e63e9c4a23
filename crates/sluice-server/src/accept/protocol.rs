//! The protocol of a connection: hyper's HTTP/1.1, its bounds, and what is said to a client that does not keep to it.
//!
//! Here: one connection from its first byte to its close. hyper parses, frames, keeps alive, pipelines and answers
//! `Expect: 100-continue`. It answers malformed heads itself (400, 414, 431); a head that never becomes complete is
//! answered here (408). Not here: what a request means (`serve`).

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::accept::listener::Place;
use crate::accept::serve::{self, Asked};
use crate::accept::stream::{ClientStream, Shared};
use crate::connection::{Connection, Ends};
use crate::exchange::Exchange;
use crate::limits::Limits;
use crate::worker::Worker;
use crate::write::error_page;

/// What hyper gathers for one write, and reads ahead, bytes.
const BUFFER_BYTES_MAX: usize = 512 << 10;

/// How often it is looked whether a client is still there that hyper does not read from.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long a client that is refused may take to read why.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one connection to its end; the place is free again after that.
pub(crate) async fn serve(worker: Rc<Worker>, socket: TcpStream, ends: Ends, place: Place) {
    let connection = Rc::new(Connection::new(ends));
    let limits = worker.config().limits.clone();
    let stream = ClientStream::new(socket, Rc::clone(&connection), limits.send_timeout);
    let stream = Rc::new(RefCell::new(stream));
    let service = service_fn(|request| {
        let asked = Asked::new(&worker, &connection, request);
        // Pinned: hyper gives the socket back only if it could move the future.
        Box::pin(async move { Ok::<_, Infallible>(serve::serve(asked).await) })
    });
    let mut http = http1(&limits).serve_connection(TokioIo::new(Shared(Rc::clone(&stream))), service);
    let mut is_draining = false;
    let result = loop {
        tokio::select! {
            // Whether the socket is closed or reset is decided below, so hyper must not shut it down.
            result = poll_fn(|context| http.poll_without_shutdown(context)) => break result,
            () = left(&connection, &stream) => break Ok(()),
            () = worker.draining(), if !is_draining => {
                is_draining = true;
                std::pin::Pin::new(&mut http).graceful_shutdown();
            }
        }
    };
    // Ends the exchange, too, if one is under way.
    drop(http);
    let Ok(stream) = Rc::try_unwrap(stream) else {
        return tracing::error!("connection from {}: its socket is still in use", ends.client);
    };
    let mut stream = stream.into_inner();
    if let Err(error) = result {
        refuse(&worker, &connection, &mut stream, &error).await;
    }
    stream.close().await;
    drop(place);
}

/// Ready when the client has left in the middle of an exchange. hyper sees that by itself, at once, as long as it reads; it
/// does not while another request waits in its buffer, or while nobody takes the request's body.
async fn left(connection: &Connection, stream: &RefCell<ClientStream>) {
    loop {
        tokio::time::sleep(LOOK_AFTER).await;
        if connection.is_busy() && stream.borrow().has_left() {
            return;
        }
    }
}

/// The connection ended by an error. A head that hyper could not take is an exchange too: it is answered and logged.
async fn refuse(worker: &Rc<Worker>, connection: &Connection, stream: &mut ClientStream, error: &hyper::Error) {
    let (status, is_answered) = if error.is_timeout() && connection.has_part_of_head() {
        (StatusCode::REQUEST_TIMEOUT, false)
    } else if error.is_parse_version_h2() {
        (StatusCode::HTTP_VERSION_NOT_SUPPORTED, false)
    } else if error.is_parse_too_large() {
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, true)
    } else if error.is_parse() {
        (StatusCode::BAD_REQUEST, true)
    } else {
        // The client left, or a response was cut: its exchange has said so.
        return tracing::debug!("connection from {}: {error}", connection.ends.client);
    };
    let mut exchange = Exchange::without_head(worker, connection.ends);
    exchange.answer(status);
    tracing::info!(id = %exchange.id, "request head from {}: {error}", connection.ends.client);
    if !is_answered {
        let page = error_page::raw(status, exchange.id);
        let _ = tokio::time::timeout(PAGE_TIMEOUT, stream.send(&page)).await;
    }
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut http1 = http1::Builder::new();
    http1
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_header_size(limits.head_bytes_max)
        .max_headers(limits.head_fields_max)
        .max_buf_size(BUFFER_BYTES_MAX.max(limits.head_bytes_max))
        .writev(true);
    http1
}
