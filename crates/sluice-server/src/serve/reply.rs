//! The answer to one request as hyper waits for it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use crate::serve::finish::Finish;

/// The answer to one request: now (files, redirects, refusals), or later, from a script or a thread. Only those that are waited
/// for need a future, which is large.
pub(crate) enum Reply {
    Now(Option<Response<Finish>>),
    Later(Pin<Box<dyn Future<Output = Response<Finish>>>>),
}

impl Reply {
    /// A response that is ready.
    pub(crate) fn now(response: Response<Finish>) -> Reply {
        Reply::Now(Some(response))
    }
}

impl Future for Reply {
    type Output = Result<Response<Finish>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Reply::Now(response) => response
                .take()
                .map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Reply::Later(answer) => answer.as_mut().poll(context).map(Ok),
        }
    }
}
