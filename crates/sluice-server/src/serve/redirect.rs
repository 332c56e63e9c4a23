//! Redirects: by a route, to a directory's path with a slash, and to https.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode, Uri, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, ServerFault};
use sluice_http::target::{Target, encode};
use sluice_settings::rule::Replacement;

use crate::serve::client::HTTPS_PORT;

pub(crate) struct Redirect {
    pub status: StatusCode,
    pub location: HeaderValue,
}

impl Redirect {
    fn new(location: &str, status: StatusCode) -> Result<Redirect, Fault> {
        let location = HeaderValue::from_str(location).map_err(|_| ServerFault::BadLocation(location.into()))?;
        Ok(Redirect { status, location })
    }

    pub(crate) fn respond(self) -> Response<ResponseBody> {
        // An empty body, not `ResponseBody::Empty`, so that HEAD and GET have the same Content-Length: 0 (RFC 9110 §9.3.2).
        let mut response = Response::new(ResponseBody::Whole(Bytes::new().into()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::LOCATION, self.location);
        response
    }
}

/// Redirects to `to`, expanded with the captures of the path. The query is appended if `to` has none of its own.
pub(crate) fn by_route(
    to: &Replacement,
    status: StatusCode,
    captures: &[&str],
    target: &Target,
) -> Result<Redirect, Fault> {
    let mut location = to.expand(captures, target.query.as_deref());
    // The query stands before the fragment (RFC 3986 §3).
    let end = location.find('#').unwrap_or(location.len());
    if let Some(query) = &target.query
        && !location[..end].contains('?')
    {
        location.insert_str(end, &format!("?{query}"));
    }
    Redirect::new(&location, status)
}

/// Redirects to the requested path with a slash at its end, which relative links in a directory need; the query is kept.
pub(crate) fn to_directory(requested: &Target) -> Result<Redirect, Fault> {
    let mut location = encode(&requested.path);
    location.push('/');
    if let Some(query) = &requested.query {
        location.push('?');
        location.push_str(query);
    }
    Redirect::new(&location, StatusCode::MOVED_PERMANENTLY)
}

/// Redirects to the same URL with https; the client repeats method and body (RFC 9110 §15.4.9).
pub(crate) fn to_https(host: &str, port: u16, uri: &Uri) -> Result<Redirect, Fault> {
    if host.is_empty() {
        return Err(ClientFault::NoHostForHttps.into());
    }
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    // The target of `OPTIONS *` is no path.
    let path = if path == "*" { "/" } else { path };
    let location = match port {
        HTTPS_PORT => format!("https://{host}{path}"),
        port => format!("https://{host}:{port}{path}"),
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
    fn capture_and_query_are_in_the_location() {
        assert_eq!(
            location("https://example.org/*", "/old/*", "/old/a%20b?q=1"),
            "https://example.org/a%20b?q=1"
        );
        assert_eq!(location("/new?x=1", "/old", "/old?q=1"), "/new?x=1");
        assert_eq!(location("/new#part?", "/old", "/old?q=1"), "/new?q=1#part?");
    }

    #[test]
    fn a_newline_in_the_path_stays_encoded() {
        assert_eq!(location("/n/*", "/*", "/a%0DSet-Cookie:%20x"), "/n/a%0DSet-Cookie:%20x");
    }

    #[test]
    fn the_slash_of_a_directory_stands_before_the_query() {
        let redirect = to_directory(&Target::parse("/d%20x?q").unwrap()).unwrap();
        assert_eq!(redirect.location, "/d%20x/?q");
    }
}
