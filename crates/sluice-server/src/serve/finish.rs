//! The end of an exchange: the body that hyper gets, which counts what is sent.
//!
//! When the body has ended, or the client has left, `Finish` drops the exchange, which writes its line in the access log. A
//! body that fails returns its fault, and hyper then aborts the response: a client never takes half of it for all of it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_net::connection::UnderWay;

use crate::serve::exchange::Exchange;
use crate::serve::fault_log::log_fault;

/// The body that hyper gets: counts, logs the end, and makes a cut visible.
pub(crate) struct Finish {
    body: ResponseBody,
    exchange: Option<Box<Exchange>>,
    under_way: UnderWay,
    /// The client can see by itself whether something is missing: by Content-Length, or by the last chunk.
    is_delimited: bool,
}

impl Finish {
    pub(crate) fn new(body: ResponseBody, exchange: Box<Exchange>, mut under_way: UnderWay) -> Finish {
        under_way.wait_on_client();
        if let Some(sealed) = body.sealed() {
            under_way.send_from(sealed);
        }
        Finish {
            is_delimited: body.length().is_some() || exchange.line.version >= Version::HTTP_11,
            body,
            exchange: Some(exchange),
            under_way,
        }
    }

    fn cut(&mut self, fault: &Fault) {
        if !self.is_delimited {
            self.under_way.abort();
        }
        if let Some(mut exchange) = self.exchange.take() {
            exchange.note_truncated();
            log_fault(fault, exchange.id, None, format_args!("response cut: {fault}"));
        }
    }
}

impl Body for Finish {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let this = self.get_mut();
        let chunk = this.body.poll_chunk(context);
        if chunk.is_pending() {
            this.under_way.wait_on_server();
        } else {
            this.under_way.wait_on_client();
        }
        match ready!(chunk) {
            Some(Ok(chunk)) => {
                this.under_way.count_chunk();
                if let Some(exchange) = &mut this.exchange {
                    exchange.count(chunk.len());
                }
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            Some(Err(fault)) => {
                this.cut(&fault);
                Poll::Ready(Some(Err(fault)))
            }
            None => {
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
    /// Dropped with bytes left: the client has left. By HTTP/1.1 a body of a known length is not asked for more after its last
    /// byte.
    fn drop(&mut self) {
        if let Some(exchange) = &mut self.exchange
            && self.body.length() != Some(0)
        {
            exchange.note_truncated();
        }
    }
}
