//! Lookups that an event loop has left to another thread, because their file system may not answer (`sluice_files::foreign`).
//!
//! The thread makes the same decision, with a copy of the question and without the file cache, so it looks up at least what the event loop will ask for.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Method};
use sluice_files::foreign::{self, Answers};
use sluice_http::fault::Fault;
use sluice_settings::rule::{ClientCertificate, RequestAttributes, Scheme};
use sluice_watch::Tracer;

use crate::serve::decide::{AskedFor, RouteQuestion, Variants, decide};
use crate::serve::exchange::Exchange;
use crate::serve::request::Request;
use crate::serve::waiting::{LeftLookup, Lookup};

/// The answers of the file systems, and the use that they are for. Errors: 503: there was none in time.
pub(crate) async fn answers(
    left: LeftLookup,
    exchange: &Exchange,
    request: &Request,
) -> Result<(Lookup, Answers), Fault> {
    let LeftLookup { share, lookup } = left;
    let make = || -> Box<dyn FnOnce() + Send> {
        let site = Arc::clone(request.site());
        let question = OwnedQuestion::of(exchange, request);
        match &lookup {
            Lookup::Decision => Box::new(move || drop(decide(&site, &question.question(), &mut ()))),
            Lookup::Held(file) => {
                let file = file.clone();
                Box::new(move || drop(file.look_up(&site, &question.question())))
            }
            Lookup::SendFile(file) => Box::new(file.lookup()),
        }
    };
    let noted = foreign::noted(share, request.path(), make).await?;
    Ok((lookup, noted))
}

/// The question to the routes, for another thread.
pub(super) struct OwnedQuestion {
    asked_for: AskedFor,
    method: Method,
    host: String,
    client: IpAddr,
    known_client: Option<IpAddr>,
    scheme: Scheme,
    certificate: ClientCertificate,
    fields: HeaderMap,
}

impl OwnedQuestion {
    pub(super) fn of(exchange: &Exchange, request: &Request) -> OwnedQuestion {
        let RouteQuestion { attributes, .. } = request.question(exchange);
        OwnedQuestion {
            asked_for: request.asked_for.clone(),
            method: attributes.method.clone(),
            host: attributes.host.to_owned(),
            client: attributes.client,
            known_client: attributes.known_client,
            scheme: attributes.scheme,
            certificate: attributes.certificate,
            fields: attributes.fields.clone(),
        }
    }

    pub(super) fn question(&self) -> RouteQuestion<'_> {
        RouteQuestion {
            asked_for: &self.asked_for,
            attributes: RequestAttributes {
                method: &self.method,
                host: &self.host,
                client: self.client,
                known_client: self.known_client,
                scheme: self.scheme,
                certificate: self.certificate,
                fields: &self.fields,
            },
            cache: None,
            variants: Variants::Offered,
            tracer: &Tracer::NONE,
        }
    }
}
