//! Redirects: where a client is sent instead of an answer.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode, Uri, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, ServerFault};
use sluice_http::target::{Target, encode};
use sluice_settings::rule::Replacement;

/// A redirect that is decided on.
pub(crate) struct Redirect {
    pub status: StatusCode,
    pub location: HeaderValue,
}

impl Redirect {
    fn new(location: &str, status: StatusCode) -> Result<Redirect, Fault> {
        let location = HeaderValue::from_str(location).map_err(|_| ServerFault::BadLocation(location.into()))?;
        Ok(Redirect { status, location })
    }

    /// The response.
    pub(crate) fn respond(self) -> Response<ResponseBody> {
        // A body that is there and has no bytes: so HEAD announces its length as GET does (RFC 9110 §9.3.2).
        let mut response = Response::new(ResponseBody::Whole(Bytes::new().into()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::LOCATION, self.location);
        response
    }
}

/// Sends the client to `to`, with what the rule has captured of the path put into it; a query goes along.
pub(crate) fn by_route(
    to: &Replacement,
    status: StatusCode,
    captures: &[&str],
    target: &Target,
) -> Result<Redirect, Fault> {
    let mut location = to.expand(captures, target.query.as_deref());
    // Before a fragment, which is for the browser (RFC 3986 §3.5).
    let end = location.find('#').unwrap_or(location.len());
    if let Some(query) = &target.query
        && !location[..end].contains('?')
    {
        location.insert_str(end, &format!("?{query}"));
    }
    Redirect::new(&location, status)
}

/// Sends the client to the same directory, by the path and the query that it knows, with the slash that relative links in it need.
pub(crate) fn to_directory(asked: &Target) -> Result<Redirect, Fault> {
    let mut location = encode(&asked.path);
    location.push('/');
    if let Some(query) = &asked.query {
        location.push('?');
        location.push_str(query);
    }
    Redirect::new(&location, StatusCode::MOVED_PERMANENTLY)
}

/// Sends the client to the same place by https, with the same method and body (RFC 9110 §15.4.9).
pub(crate) fn to_https(host: &str, port: u16, uri: &Uri) -> Result<Redirect, Fault> {
    const HTTPS_PORT: u16 = 443;
    if host.is_empty() {
        return Err(ClientFault::NoHostForHttps.into());
    }
    let place = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let place = if place == "*" { "/" } else { place };
    let location = match port {
        HTTPS_PORT => format!("https://{host}{place}"),
        port => format!("https://{host}:{port}{place}"),
    };
    Redirect::new(&location, StatusCode::PERMANENT_REDIRECT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_settings::rule::Pattern;

    fn location(to: &str, path: &str, target: &str) -> String {
        let pattern = Pattern::from(path);
        let to = Replacement::redirect(to, &pattern).unwrap();
        let target = Target::parse(target).unwrap();
        let captures = pattern.captures(&target.path).unwrap();
        let redirect = by_route(&to, StatusCode::FOUND, &captures, &target).unwrap();
        redirect.location.to_str().unwrap().to_owned()
    }

    #[test]
    fn star_and_query_go_along() {
        assert_eq!(
            location("https://example.org/*", "/old/*", "/old/a%20b?q=1"),
            "https://example.org/a%20b?q=1"
        );
        assert_eq!(location("/new?x=1", "/old", "/old?q=1"), "/new?x=1");
        assert_eq!(location("/new#part?", "/old", "/old?q=1"), "/new?q=1#part?");
    }

    #[test]
    fn a_path_cannot_smuggle_a_line_into_the_head() {
        assert_eq!(location("/n/*", "/*", "/a%0DSet-Cookie:%20x"), "/n/a%0DSet-Cookie:%20x");
    }

    #[test]
    fn directory_gets_its_slash_before_the_query() {
        let redirect = to_directory(&Target::parse("/d%20x?q").unwrap()).unwrap();
        assert_eq!(redirect.location, "/d%20x/?q");
    }
}
