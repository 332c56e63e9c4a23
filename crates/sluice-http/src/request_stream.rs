//! The request body as the protocol of a connection delivers it.
//!
//! One type for the bodies of all protocols, so that nobody above `sluice-net` names the library behind one.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A request body on its way from the client.
pub enum Incoming {
    /// The body of a request of HTTP/1.1 or HTTP/2, from hyper.
    Hyper(hyper::body::Incoming),
}

impl From<hyper::body::Incoming> for Incoming {
    fn from(body: hyper::body::Incoming) -> Incoming {
        Incoming::Hyper(body)
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Box<dyn Error + Send + Sync>>>> {
        match self.get_mut() {
            Incoming::Hyper(body) => Pin::new(body)
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(Into::into))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Incoming::Hyper(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Incoming::Hyper(body) => body.size_hint(),
        }
    }
}
