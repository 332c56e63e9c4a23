//! The service above the connections: it answers their requests.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::rc::Rc;

use http::{Request, Response, StatusCode};
use http_body::Body;
use sluice_http::endpoints::Endpoints;
use sluice_http::request_stream::Incoming;
use sluice_settings::limits::Limits;

use crate::chunk::Chunk;
use crate::connection::Connection;

/// Answers the requests of a connection. Statically dispatched, so a call costs nothing extra.
pub trait Service: 'static {
    /// The body of a response.
    type Body: Body<Data = Chunk, Error: Into<Box<dyn Error + Send + Sync>>> + 'static;
    /// The response to one request.
    type Answer: Future<Output = Result<Response<Self::Body>, Infallible>> + 'static;

    /// The limits on connections and heads, as currently configured.
    fn limits(&self) -> Limits;

    /// Whether the other end is a proxy that may name its clients: its connections are those of many clients.
    fn is_trusted_proxy(&self, endpoints: &Endpoints) -> bool;

    /// Answers one request.
    fn serve(&self, connection: &Rc<Connection>, request: Request<Incoming>) -> Self::Answer;

    /// Logs a refused head as an exchange. Returns the whole response for it; `None` if hyper has already sent one.
    fn refuse(&self, endpoints: Endpoints, refusal: &Refusal) -> Option<Vec<u8>>;
}

/// The refusal of a head that could not be parsed or did not arrive in time: the client's fault.
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// What is wrong with the head, for the log.
    pub reason: String,
    /// Whether hyper has already sent a response.
    pub is_answered: bool,
}
