//! Faults as responses: logged, and answered with the error page that the site wants.

use std::fmt::Display;

use http::{HeaderMap, HeaderValue, Response, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_http::host::host;
use sluice_net::connection::Connection;
use sluice_settings::ErrorSettings;

use crate::serve::error_detail::PageDetail;
use crate::serve::error_page::{self, PageSubject};
use crate::serve::exchange::Exchange;
use crate::serve::request::Request;
use crate::serve::route_of_fault::RouteOfFault;
use crate::traffic_counts::AnsweredBy;

/// The response to a request whose head has a fault, as the site wants it if the head names one.
pub(crate) fn head(
    exchange: &mut Exchange,
    connection: &Connection,
    fault: &Fault,
    fields: &mut HeaderMap,
) -> Response<ResponseBody> {
    let config = exchange.context.config();
    let host = host(exchange.line.version, &exchange.line.uri, fields).ok();
    let listener = connection.peer.listener();
    let site = host
        .as_deref()
        .and_then(|host| config.site_of_request(host, listener).ok());
    let usual = ErrorSettings::default();
    let errors = site.map_or(&usual, |(site, _)| &config.site(site).errors);
    let mut response = refuse(exchange, fault, None, errors, &host.unwrap_or_default(), fields);
    // In HTTP/2, which ends bodies by frames, there is no such fault.
    if fault.ends_connection() {
        exchange.entry.is_last = true;
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// The response to a request that was refused, or could not be served, as its site wants it.
pub(crate) fn request(exchange: &mut Exchange, request: &Request, fault: &Fault) -> Response<ResponseBody> {
    exchange.entry.answered = AnsweredBy::Error;
    let route = RouteOfFault::of(exchange, request, fault);
    let errors = &request.site().errors;
    refuse(exchange, fault, route.as_ref(), errors, &request.host, &request.fields)
}

fn refuse(
    exchange: &mut Exchange,
    fault: &Fault,
    route: Option<&RouteOfFault>,
    settings: &ErrorSettings,
    host: &str,
    fields: &HeaderMap,
) -> Response<ResponseBody> {
    if fault.is_departure() {
        exchange.entry.has_left = true;
    }
    exchange.report(fault, route.map(|route| route as &dyn Display));
    let detail = PageDetail::of(settings.detail, exchange, host, fields);
    let subject = PageSubject {
        id: exchange.id,
        path: exchange.line.uri.path(),
        fields,
    };
    error_page::response(fault, settings, detail, &subject)
}
