//! Reports about the server as an answer: who asks, and whether they may without a password.
//!
//! A client that is let in by its address alone could be made to ask by a page of another site, whose host suddenly has the address of this machine
//! (DNS rebinding); or it could be a proxy of this machine, and so everybody. Such requests are refused here. A client of this machine may be a
//! script of any site: without a user it gets totals only ([`Extent`]).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use http::{HeaderMap, Response, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, Forbidden};
use sluice_http::request_body::RequestBody;
use sluice_settings::rule::{Access, AccessSettings};

use crate::operator::reports;
use crate::operator::reports::ask::{Ask, Extent};
use crate::operator::reports::visitor::Visitor;
use crate::serve::decide::ReportAnswer;
use crate::serve::error_detail::is_unproxied;
use crate::serve::exchange::Exchange;
use crate::serve::request::Request;

/// The response with a report, or that of an action. Errors of the client: there is no such report (404), the method is not served (405), the action is
/// refused (403); or the server's.
pub(crate) async fn respond(
    exchange: &Exchange,
    request: &mut Request,
    answer: ReportAnswer,
) -> Result<Response<ResponseBody>, Fault> {
    let (visitor, extent) = match &request.granted {
        Some(granted) => (Visitor::User(granted.user.name.as_ref().into()), Extent::Everything),
        None => {
            check_address(exchange, request)?;
            let client = exchange.client.endpoints.client;
            (Visitor::Client(client.ip()), extent(client, &answer.access))
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
        extent,
        server: request.host.to_string(),
        body: request.body.take().unwrap_or_else(RequestBody::none),
        config: std::rc::Rc::clone(&request.config),
        context: std::rc::Rc::clone(&exchange.context),
    };
    reports::respond(ask).await
}

/// The part for a client without a user: totals, if it is of this machine and was let in because of its address, because scripts can connect, too.
/// `allow_write` that names its network gives it everything.
fn extent(client: SocketAddr, access: &Access) -> Extent {
    let ip = client.ip();
    let is_in_network = |access: &&Arc<AccessSettings>| access.read.grants_to(ip);
    let is_trusted = |access: &AccessSettings| access.is_write_named && access.write.grants_to(ip);
    let mut doubtful = access
        .limits()
        .filter(is_in_network)
        .filter(|access| !is_trusted(access));
    match doubtful.next() {
        Some(access) if is_own_address(client) => Extent::Totals(access.origin.as_str().into()),
        _ => Extent::Everything,
    }
}

/// Whether an address belongs to this machine: only then a socket may have it. Every connection within the machine has such an address at both ends,
/// not only loopback addresses. If the system gives no socket, it may be one.
fn is_own_address(mut address: SocketAddr) -> bool {
    address.set_ip(address.ip().to_canonical());
    // Any free port.
    address.set_port(0);
    let bound = UdpSocket::bind(address);
    !bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known() {
        // The last ones are for documentation (RFC 5737, RFC 3849).
        for (ip, is_own) in [
            ("127.0.0.1", true),
            ("127.9.8.7", true),
            ("::ffff:127.0.0.1", true),
            ("192.0.2.7", false),
            ("2001:db8::7", false),
        ] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(is_own_address(SocketAddr::new(ip, 40_000)), is_own, "{ip}");
        }
    }

    #[test]
    fn a_client_of_this_machine_has_totals_unless_its_network_may_write() {
        let own = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let trusted = AccessSettings::of_this_machine("x:1");
        let plain = AccessSettings { is_write_named: false, ..trusted.clone() };
        let of = |settings: &AccessSettings| {
            let access = sluice_settings::rule::AccessUse::Limited(Arc::new(settings.clone()));
            extent(own, &Access::of(access))
        };
        assert!(matches!(of(&trusted), Extent::Everything));
        assert!(matches!(of(&plain), Extent::Totals(origin) if *origin == *"x:1"));
    }
}
