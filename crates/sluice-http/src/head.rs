//! The head of a response: the fields of every response, and the rules for responses without a body.
//!
//! The last step before hyper, which adds Date, Content-Length or Transfer-Encoding, and Connection.

use http::{HeaderValue, Method, Response, StatusCode, header};

use crate::body::ResponseBody;

/// The server's name and version: the variable SERVER_SOFTWARE (RFC 3875 §4.1.17).
pub const SERVER_SOFTWARE: &str = concat!("Sluice/", env!("CARGO_PKG_VERSION"));

/// The server's name: the field Server. Without the version, which would tell an attacker which mistakes the server has (RFC 9110 §10.2.4).
pub const SERVER: &str = "Sluice";

/// Completes a response to a request of this method: adds Server, and removes a body that must not be sent.
pub fn complete(method: &Method, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response
        .headers_mut()
        .insert(header::SERVER, HeaderValue::from_static(SERVER));
    if may_have_body(method, response.status()) {
        end_with_head(&mut response);
        return response;
    }
    let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
    // RFC 9110 §15.3.6: 205 has no content, but unlike 204 it says so with a length.
    if response.status() == StatusCode::RESET_CONTENT {
        set_length(&mut response, 0);
    }
    // RFC 9110 §8.6: HEAD announces the length that GET would send; 1xx and 204 must not, 304 may. An empty body either has
    // its Content-Length already, or has an unknown length (a script's reply to HEAD).
    if *method == Method::HEAD
        && !matches!(body, ResponseBody::Empty)
        && may_have_body(&Method::GET, response.status())
        && let Some(bytes) = body.length()
    {
        set_length(&mut response, bytes);
    }
    if let ResponseBody::Source(source) = body {
        source.discard();
    }
    response
}

fn set_length(response: &mut Response<ResponseBody>, bytes: u64) {
    let length = HeaderValue::from(bytes);
    response.headers_mut().insert(header::CONTENT_LENGTH, length);
}

/// Ends a response of no bytes with its head. HTTP/2 would otherwise need a DATA frame to end the stream.
fn end_with_head(response: &mut Response<ResponseBody>) {
    if let ResponseBody::Whole(content) = response.body()
        && content.is_empty()
    {
        *response.body_mut() = ResponseBody::Empty;
        set_length(response, 0);
    }
}

/// The value of Allow: the methods that a resource supports (RFC 9110 §10.2.1).
pub fn allow(methods: &[Method]) -> HeaderValue {
    let names: Vec<_> = methods.iter().map(Method::as_str).collect();
    HeaderValue::try_from(names.join(", ")).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Whether a response with this status to this method may have a body (RFC 9110 §6.4.1).
pub fn may_have_body(method: &Method, status: StatusCode) -> bool {
    *method != Method::HEAD
        && !status.is_informational()
        && !matches!(
            status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
        )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn response(status: StatusCode) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::Whole(Bytes::from("hello").into()));
        *response.status_mut() = status;
        response
    }

    #[test]
    fn head_announces_the_length_and_sends_no_body() {
        let response = complete(&Method::HEAD, response(StatusCode::OK));
        assert_eq!(response.headers()[header::CONTENT_LENGTH], "5");
        assert_eq!(response.body().length(), Some(0));
    }

    #[test]
    fn an_empty_body_ends_with_the_head_and_content_length_0() {
        let empty = Response::new(ResponseBody::Whole(Bytes::new().into()));
        let response = complete(&Method::GET, empty);
        assert_eq!(response.headers()[header::CONTENT_LENGTH], "0");
        assert!(matches!(response.body(), ResponseBody::Empty));
    }

    #[test]
    fn reset_content_has_length_0() {
        for method in [Method::GET, Method::HEAD] {
            let response = complete(&method, response(StatusCode::RESET_CONTENT));
            assert_eq!(response.headers()[header::CONTENT_LENGTH], "0");
            assert_eq!(response.body().length(), Some(0));
        }
    }

    #[test]
    fn no_content_has_neither_length_nor_body() {
        let response = complete(&Method::GET, response(StatusCode::NO_CONTENT));
        assert!(!response.headers().contains_key(header::CONTENT_LENGTH));
        assert_eq!(response.body().length(), Some(0));
    }
}
