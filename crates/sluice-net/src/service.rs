//! The service above the connections: what answers their requests.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use sluice_http::endpoints::Endpoints;
use sluice_settings::limits::Limits;

use crate::connection::Connection;
use crate::http1::Refusal;

/// What answers the requests of a connection; chosen when the program is compiled, so a call costs nothing.
pub trait Service: 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + 'static;
    /// The response to one request.
    type Answer: Future<Output = Result<Response<Self::Body>, Infallible>> + 'static;

    /// The bounds on connections and heads, as configured now.
    fn limits(&self) -> Limits;

    /// Answers one request.
    fn serve(&self, connection: &Rc<Connection>, request: Request<Incoming>) -> Self::Answer;

    /// Logs a head that could not be parsed as an exchange, and returns the whole response for it, unless the client has one
    /// already.
    fn refuse(&self, endpoints: Endpoints, refusal: &Refusal) -> Option<Vec<u8>>;
}
