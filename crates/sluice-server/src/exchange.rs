//! An exchange: one request and its response, from the parsed head to the line in the access log.
//!
//! Here: what every stage may want to know of it, and the promise that it is logged exactly once, whatever happens: the
//! line is written when the value is dropped. Not here: what a line looks like (`write::log`).

use std::fmt;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

use http::request::{self, Request};
use http::{HeaderValue, Method, StatusCode, Uri, Version, header};

use crate::connection::{Ends, Security};
use crate::worker::Worker;
use crate::write::log::{self, Line};

/// Names an exchange in the log, in the script's variables (UNIQUE_ID) and in the script's errors.
///
/// Unique over restarts and workers: eight characters drawn when the server starts, the worker, a count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct UniqueId([u8; UniqueId::BYTES]);

impl UniqueId {
    const BYTES: usize = 18;

    pub(crate) fn new(boot: [u8; 8], worker: u8, count: u32) -> UniqueId {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; Self::BYTES];
        text[..8].copy_from_slice(&boot);
        let number = (u64::from(worker) << 32) | u64::from(count);
        for (index, digit) in text[8..].iter_mut().enumerate() {
            let shift = 4 * (9 - index);
            *digit = HEX[(number >> shift & 0xf) as usize];
        }
        UniqueId(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("-")
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// One request and its response.
pub(crate) struct Exchange {
    pub id: UniqueId,
    pub ends: Ends,
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
    pub arrived: SystemTime,
    /// None in clear text.
    pub security: Option<Rc<Security>>,
    /// The site's Strict-Transport-Security, where it is to be told.
    pub hsts: Option<HeaderValue>,
    started: Instant,
    host: Option<HeaderValue>,
    referer: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    /// What the client was told; none while no head has been made, which is logged as 499 (nginx's word for a client
    /// that left before the answer).
    status: Option<StatusCode>,
    body_bytes: u64,
    is_cut: bool,
    worker: Rc<Worker>,
}

impl Exchange {
    pub(crate) fn open(worker: &Rc<Worker>, ends: Ends, head: &request::Parts) -> Exchange {
        let field = |name| head.headers.get(name).cloned();
        Exchange {
            id: worker.next_id(),
            ends,
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            arrived: SystemTime::now(),
            security: None,
            hsts: None,
            started: Instant::now(),
            host: field(header::HOST),
            referer: field(header::REFERER),
            agent: field(header::USER_AGENT),
            status: None,
            body_bytes: 0,
            is_cut: false,
            worker: Rc::clone(worker),
        }
    }

    /// An exchange whose request has no usable head.
    pub(crate) fn without_head(worker: &Rc<Worker>, ends: Ends) -> Exchange {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::from_bytes(b"-").unwrap_or_default();
        Exchange::open(worker, ends, &head)
    }

    /// The head is made; hyper sends it next.
    pub(crate) fn answer(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// Bytes of the body were handed to the connection.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.body_bytes += bytes as u64;
    }

    /// The response ends before it is complete.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let line = Line {
            id: self.id.as_str(),
            client: self.ends.client,
            method: self.method.as_str(),
            uri: &self.uri,
            version: self.version,
            host: self.host.as_ref(),
            referer: self.referer.as_ref(),
            agent: self.agent.as_ref(),
            arrived: self.arrived,
            duration: self.started.elapsed(),
            status: self.status.map_or(log::STATUS_CLIENT_LEFT, |status| status.as_u16()),
            body_bytes: self.body_bytes,
            is_cut: self.is_cut,
        };
        self.worker.log().write(self.worker.index, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_ids_count_in_hex_after_boot_and_worker() {
        assert_eq!(UniqueId::new(*b"k3x9m2p7", 3, 255).as_str(), "k3x9m2p703000000ff");
    }
}
