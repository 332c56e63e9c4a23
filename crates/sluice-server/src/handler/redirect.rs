//! Redirects: a route that sends the client elsewhere.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode, Uri, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::fault::Fault;
use crate::target::Target;
use crate::write::body::ResponseBody;

/// What may not stand bare in a path (RFC 3986 §3.3), and `%`, which would begin an escape.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Sends the client to `to`, its star replaced by what the route's star stands for; a query goes along.
pub(crate) fn redirect(
    to: &str,
    status: StatusCode,
    star: &str,
    target: &Target,
) -> Result<Response<ResponseBody>, Fault> {
    let mut location = to.replacen('*', &encode(star), 1);
    if let Some(query) = &target.query
        && !location.contains('?')
    {
        location.push('?');
        location.push_str(query);
    }
    to_location(&location, status)
}

/// Sends the client to the same folder with the slash that relative links in it need.
pub(crate) fn to_folder(target: &Target) -> Result<Response<ResponseBody>, Fault> {
    let mut location = encode(&target.path);
    location.push('/');
    if let Some(query) = &target.query {
        location.push('?');
        location.push_str(query);
    }
    to_location(&location, StatusCode::MOVED_PERMANENTLY)
}

/// Sends the client to the same place by https, with the same method and body (RFC 9110 §15.4.9).
pub(crate) fn to_https(host: &str, port: u16, uri: &Uri) -> Result<Response<ResponseBody>, Fault> {
    const HTTPS_PORT: u16 = 443;
    if host.is_empty() {
        let text = "names no host, which the redirect to https needs";
        return Err(Fault::client(StatusCode::BAD_REQUEST, text));
    }
    let place = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let place = if place == "*" { "/" } else { place };
    let location = match port {
        HTTPS_PORT => format!("https://{host}{place}"),
        port => format!("https://{host}:{port}{place}"),
    };
    to_location(&location, StatusCode::PERMANENT_REDIRECT)
}

fn to_location(location: &str, status: StatusCode) -> Result<Response<ResponseBody>, Fault> {
    let location = HeaderValue::from_str(location)
        .map_err(|_| Fault::server(format!("redirect to {location:?}: not a field value")))?;
    // A body that is there and has no bytes: so HEAD announces its length as GET does (RFC 9110 §9.3.2).
    let mut response = Response::new(ResponseBody::Whole(Bytes::new().into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// A decoded path as it must be written in a URL.
pub(crate) fn encode(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(to: &str, star: &str, target: &str) -> String {
        let target = Target::parse(target).unwrap();
        let response = redirect(to, StatusCode::FOUND, star, &target).unwrap();
        response.headers()[header::LOCATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn star_and_query_go_along() {
        assert_eq!(
            location("https://example.org/*", "a b", "/old/a%20b?q=1"),
            "https://example.org/a%20b?q=1"
        );
        assert_eq!(location("/new?x=1", "", "/old?q=1"), "/new?x=1");
    }

    #[test]
    fn a_path_cannot_smuggle_a_line_into_the_head() {
        assert_eq!(location("/n/*", "a\r\nSet-Cookie: x", "/"), "/n/a%0D%0ASet-Cookie:%20x");
    }

    #[test]
    fn folder_gets_its_slash_before_the_query() {
        let response = to_folder(&Target::parse("/d%20x?q").unwrap()).unwrap();
        assert_eq!(response.headers()[header::LOCATION], "/d%20x/?q");
    }
}
