//! The end of an exchange: the response as hyper waits for it, and its body as hyper polls it.
//!
//! `Finish` counts the bytes sent. When the body has ended or the client has left, it drops the exchange, which then writes
//! its line to the access log. If the body fails, `Finish` returns the fault and hyper aborts the response, so that the client can detect the truncation.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Fault, ServerFault};
use sluice_http::protocol::Protocol;
use sluice_http::watch_pause::WatchPause;
use sluice_net::active_exchange::ActiveExchange;
use sluice_net::chunk::{Chunk, ChunkMemory, ChunkPosition};
use sluice_watch::mask::BodyMask;
use sluice_watch::{Scanned, Stage};

use crate::serve::exchange::Exchange;
use crate::serve::watched;

/// The response to one request: now (files, redirects, refusals), or later, from a script or a thread. Only the latter need a future, which is large.
pub(crate) enum PendingResponse {
    Now(Option<Response<Finish>>),
    Later(Pin<Box<dyn Future<Output = Response<Finish>>>>),
}

impl Future for PendingResponse {
    type Output = Result<Response<Finish>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            PendingResponse::Now(response) => response
                .take()
                .map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            PendingResponse::Later(answer) => answer.as_mut().poll(context).map(Ok),
        }
    }
}

pub(crate) struct Finish {
    body: ResponseBody,
    /// `None` after the end of the body.
    exchange: Option<Box<Exchange>>,
    under_way: ActiveExchange,
    memory: ChunkMemory,
    /// `None` if nobody watches.
    watched: Option<Box<WatchedResponse>>,
    /// Whether the client can detect a truncated body, by Content-Length, the last chunk, or the end of an HTTP/2 stream.
    is_delimited: bool,
}

#[derive(Default)]
struct WatchedResponse {
    /// `None` if nobody is shown the body, or once it has missed bytes of it.
    mask: Option<BodyMask>,
    /// While the worker has scanned enough bytes.
    pause: WatchPause,
}

impl Finish {
    pub(crate) fn new(
        mut body: ResponseBody,
        exchange: Box<Exchange>,
        mut under_way: ActiveExchange,
        mask: Option<BodyMask>,
    ) -> Finish {
        under_way.wait_on_client();
        if under_way.peer.tls_info().is_some() {
            body.prefer_small_chunks();
        }
        let mut memory = ChunkMemory::Own;
        if let Some(sealed) = body.sealed() {
            under_way.send_from(sealed);
            memory = ChunkMemory::Shared;
        }
        Finish {
            is_delimited: body.length().is_some() || exchange.line.version.keeps_connection(),
            body,
            exchange: Some(exchange),
            under_way,
            memory,
            watched: mask.map(|mask| Box::new(WatchedResponse { mask: Some(mask), pause: WatchPause::default() })),
        }
    }

    fn note_end(&self) {
        if let Some(exchange) = &self.exchange {
            exchange.tracer.stage(Stage::Sent);
        }
    }

    /// Logs the fault, and has a body that is delimited by the end of the connection end with a reset.
    fn abort(&mut self, fault: &Fault) {
        if !self.is_delimited {
            self.under_way.abort();
        }
        if let Some(mut exchange) = self.exchange.take() {
            exchange.note_truncated();
            exchange.report_abort(fault);
        }
    }
}

impl Body for Finish {
    type Data = Chunk;
    type Error = Fault;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Chunk>, Fault>>> {
        let this = self.get_mut();
        if let Some(exchange) = &this.exchange
            && exchange.progress.is_ended()
        {
            let fault = Fault::from(ServerFault::Ended);
            this.abort(&fault);
            return Poll::Ready(Some(Err(fault)));
        }
        let mut chunk_bytes_max = ready!(this.under_way.poll_room(context));
        if let Some(exchange) = this.exchange.as_ref().filter(|exchange| !exchange.tracer.is_none()) {
            let pause = &mut this.watched.get_or_insert_default().pause;
            ready!(pause.poll(context, || watched::response_wait(exchange)));
            chunk_bytes_max = chunk_bytes_max.min(watched::CHUNK_BYTES_MAX);
        }
        this.body.limit_chunks(chunk_bytes_max);
        let chunk = this.body.poll_chunk(context);
        if chunk.is_pending() {
            this.under_way.wait_on_server();
        } else {
            this.under_way.wait_on_client();
        }
        if let Some(exchange) = &this.exchange {
            exchange.note_chunk(&chunk, context);
        }
        match ready!(chunk) {
            Some(Ok(chunk)) => {
                if let Some(exchange) = &mut this.exchange {
                    exchange.count(chunk.len());
                    if let Some(watched) = &mut this.watched
                        && let Some(mask) = &mut watched.mask
                        && watched::response_body(exchange, mask, &chunk) == Scanned::Part
                    {
                        watched.mask = None;
                    }
                }
                let position = match this.body {
                    ResponseBody::Empty => {
                        this.note_end();
                        ChunkPosition::Last
                    }
                    _ => ChunkPosition::Inner,
                };
                let chunk = this.under_way.hand_out(chunk, this.memory, position);
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            Some(Err(fault)) => {
                this.abort(&fault);
                Poll::Ready(Some(Err(fault)))
            }
            None => {
                this.note_end();
                this.body = ResponseBody::Empty;
                this.exchange = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.body, ResponseBody::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Finish {
    /// If bytes are left, the client has left. The exchange of a complete body may still be here, because in HTTP/1.1 hyper does
    /// not poll a body of known length again after its last byte.
    fn drop(&mut self) {
        if let Some(exchange) = &mut self.exchange
            && self.body.length() != Some(0)
        {
            exchange.note_truncated();
            // Before the body is dropped, which may have that of the request.
            exchange.progress.is_given_up.set(true);
            watched::left(exchange, self.body.length());
        }
    }
}
