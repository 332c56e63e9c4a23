//! The service above the connections: it answers their requests.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::rc::Rc;

use http::{Request, Response, StatusCode};
use http_body::Body;
use sluice_http::endpoints::Endpoints;
use sluice_http::request_body::Incoming;
use sluice_settings::limits::Limits;

use crate::chunk::Chunk;
use crate::connection::Connection;
use crate::tunnel::Tunnel;

/// Answers the requests of a connection. Statically dispatched, so a call costs nothing extra.
pub trait Service: 'static {
    /// The body of a response.
    type Body: Body<Data = Chunk, Error: Into<Box<dyn Error + Send + Sync>>> + 'static;
    /// The answer to one request: a response and, perhaps, a tunnel.
    type Answer: Future<Output: Into<Answered<Self::Body>>> + Unpin + 'static;

    /// The limits on connections and heads, as currently configured.
    fn limits(&self) -> Limits;

    /// Whether the other end is a proxy that may name its clients: its connections are those of many clients.
    fn is_trusted_proxy(&self, endpoints: &Endpoints) -> bool;

    /// Whether it may answer with tunnels. HTTP/2 announces that (RFC 8441 §3).
    fn has_tunnels(&self) -> bool {
        false
    }

    /// Answers one request.
    fn serve(&self, connection: &Rc<Connection>, request: Request<Incoming>) -> Self::Answer;

    /// Logs a refused head as an exchange. Returns the whole response for it; `None` if hyper has already sent one.
    fn refuse(&self, endpoints: Endpoints, refusal: &HeadRefusal) -> Option<Vec<u8>>;
}

/// The answer to a request.
pub struct Answered<B> {
    /// The response. With a tunnel it has no body; its status is 101 in HTTP/1.1, 200 in HTTP/2.
    pub response: Response<B>,
    /// The protocol to which the connection switches with the response, or the stream in HTTP/2.
    pub tunnel: Option<Box<dyn Tunnel>>,
}

impl<B> From<Result<Response<B>, Infallible>> for Answered<B> {
    fn from(response: Result<Response<B>, Infallible>) -> Answered<B> {
        let Ok(response) = response;
        let tunnel = None;
        Answered { response, tunnel }
    }
}

/// The refusal of a head that could not be parsed or did not arrive in time: the client's fault.
pub struct HeadRefusal {
    /// The status of the response.
    pub status: StatusCode,
    /// The fault of the head, for the log.
    pub reason: String,
    /// Whether hyper has already sent a response.
    pub is_answered: bool,
}
