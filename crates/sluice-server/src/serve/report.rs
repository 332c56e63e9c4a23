//! Reports about the server as an answer: who asks, and whether they may without a password.
//!
//! A client that is let in by its address alone could be made to ask by a page of another site, whose host suddenly has the address of
//! this machine (DNS rebinding); or it could be a proxy of this machine, and so everybody. Such requests are refused here. Not here: the
//! reports (`reports`).

use http::{HeaderMap, Response, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, Forbidden};
use sluice_http::request_body::RequestBody;

use crate::operator::reports;
use crate::operator::reports::ask::Ask;
use crate::operator::reports::visitor::Visitor;
use crate::serve::decide::ReportAnswer;
use crate::serve::error_detail::is_unproxied;
use crate::serve::exchange::Exchange;
use crate::serve::request::Request;

/// The response with a report, or that of an action.
///
/// # Errors
/// The client's: there is no such report (404), the method is not served (405), the action is refused (403); or the server's.
pub(crate) async fn respond(
    exchange: &Exchange,
    request: &mut Request,
    answer: ReportAnswer,
) -> Result<Response<ResponseBody>, Fault> {
    let visitor = match &request.granted {
        Some(granted) => Visitor::User(granted.user.name.as_ref().into()),
        None => {
            check_address(exchange, request)?;
            Visitor::Client(exchange.client.endpoints.client.ip())
        }
    };
    let host = request.fields.get(header::HOST).and_then(|host| host.to_str().ok());
    let ask = Ask {
        name: answer.name,
        query: answer.query.unwrap_or_default(),
        method: request.method.clone(),
        origin: format!("{}://{}", exchange.client.scheme(), host.unwrap_or_default()),
        fields: HeaderMap::clone(&request.fields),
        client: exchange.client.endpoints.client.ip(),
        visitor,
        server: request.host.to_string(),
        body: request.body.take().unwrap_or_else(RequestBody::none),
        config: std::rc::Rc::clone(&request.config),
        context: std::rc::Rc::clone(&exchange.context),
    };
    reports::respond(ask).await
}

/// Checks a request without a user.
fn check_address(exchange: &Exchange, request: &Request) -> Result<(), Fault> {
    let client = &exchange.client;
    let refuse = |forbidden| Err(ClientFault::Forbidden(forbidden).into());
    let is_own = || {
        let server = client.endpoints.server.ip();
        request.config.is_own_name(request.site(), &request.host, server)
    };
    // The certificate of this server is not one of the other host.
    if !client.is_https && !is_own() {
        return refuse(Forbidden::ReportUnderOtherName((&*request.host).into()));
    }
    if client.endpoints.known_client().is_none() {
        return refuse(Forbidden::ReportThroughProxy);
    }
    if client.is_of_this_machine() && !is_unproxied(exchange.line.version, &request.fields) {
        return refuse(Forbidden::ReportThroughProxy);
    }
    Ok(())
}
