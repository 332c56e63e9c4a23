//! The variables of requests, case by case, and a property test that no request can set another variable.

use super::*;
use proptest::prelude::*;

/// A plain request, for tests to change.
fn request<'a>(headers: &'a HeaderMap, sentinels: &'a Sentinels) -> CgiRequest<'a> {
    CgiRequest {
        method: "GET",
        request_uri: "/cgi-bin/demo/a%20b?one+two",
        redirect_url: None,
        script_name: b"/cgi-bin/demo",
        script_filename: b"/srv/cgi-bin/demo",
        path_info: Some(b"/a b"),
        path_translated: Some(b"/srv/htdocs/a b"),
        query: Some("one+two"),
        protocol: "HTTP/1.1",
        scheme: "http",
        tls: &[],
        document_root: b"/srv/htdocs",
        server_name: "example.org:8080",
        server_addr: [192, 0, 2, 1].into(),
        server_port: 8080,
        remote_addr: [198, 51, 100, 7].into(),
        remote_host: None,
        remote_port: 40000,
        auth_type: None,
        remote_user: None,
        content_length: None,
        unique_id: "abc123",
        server_software: "Sluice/0.1",
        headers,
        record_bytes_max: 65536,
        sentinels: Some(sentinels),
        prefix: "",
        environment: &[],
        request_time: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
        script_rte: None,
        is_php: true,
    }
}

fn sentinels() -> Sentinels {
    Sentinels::from_random([0; 12])
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::from_static(name), value.parse().unwrap());
    }
    headers
}

/// The variables of a plain request with these header fields after `change`.
fn built(pairs: &[(&'static str, &str)], change: impl for<'a> FnOnce(&mut CgiRequest<'a>)) -> Variables {
    let (headers, sentinels) = (headers(pairs), sentinels());
    let mut request = request(&headers, &sentinels);
    change(&mut request);
    Variables::build(&request)
}

#[track_caller]
fn assert_value(variables: &Variables, name: &str, value: &str) {
    let found = variables
        .value(name)
        .map(|found| String::from_utf8_lossy(found).into_owned());
    assert_eq!(found.as_deref(), Some(value), "{name}");
}

#[test]
fn a_plain_request_has_the_variables_of_the_rfc() {
    let variables = built(&[], |_| {});
    for (name, value) in [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("PATH_INFO", "/a b"),
        ("PATH_TRANSLATED", "/srv/htdocs/a b"),
        ("QUERY_STRING", "one+two"),
        ("REMOTE_ADDR", "198.51.100.7"),
        ("REMOTE_HOST", "198.51.100.7"),
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", "/cgi-bin/demo"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PORT", "8080"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_SOFTWARE", "Sluice/0.1"),
    ] {
        assert_value(&variables, name, value);
    }
    for name in [
        "AUTH_TYPE",
        "REMOTE_USER",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "HTTPS",
        "SCRIPT_RTE",
    ] {
        assert_eq!(variables.value(name), None, "{name}");
    }
}

#[test]
fn the_memory_of_other_variables_makes_no_difference() {
    let (headers, sentinels) = (headers(&[("x-a", "1"), ("x-b", "a\tb")]), sentinels());
    let request = request(&headers, &sentinels);
    let fresh = Variables::build(&request);
    let large = "x".repeat(40_000);
    for other in [&[][..], &[("cookie", "a=b"), ("x-c", "2")], &[("x-c", &large)]] {
        let used = built(other, |request| request.query = Some("a=b%0a&c=d"));
        for again in [used.clone().recycled(), used] {
            let again = again.build_again(&request);
            assert_eq!(again.bytes(), fresh.bytes());
            assert_eq!((again.len(), again.dropped()), (fresh.len(), fresh.dropped()));
            assert!(again.iter().eq(fresh.iter()));
        }
    }
}

#[test]
fn a_plain_request_has_the_variables_of_apache_and_wasd() {
    let variables = built(&[], |_| {});
    for (name, value) in [
        ("DOCUMENT_ROOT", "/srv/htdocs"),
        ("SCRIPT_FILENAME", "/srv/cgi-bin/demo"),
        ("REQUEST_URI", "/cgi-bin/demo/a%20b?one+two"),
        ("REQUEST_SCHEME", "http"),
        ("REMOTE_PORT", "40000"),
        ("SERVER_ADDR", "192.0.2.1"),
        ("UNIQUE_ID", "abc123"),
        ("REDIRECT_STATUS", "200"),
        ("REQUEST_TIME_GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("SECURITY_STATUS", "NONE"),
        ("WWW_GATEWAY_MRS", "65536"),
        ("WWW_GATEWAY_EOF", sentinels().end()),
        ("WWW_GATEWAY_ESC", sentinels().escape()),
        ("WWW_GATEWAY_EOT", sentinels().close()),
    ] {
        assert_value(&variables, name, value);
    }
}

#[test]
fn optional_values_become_variables() {
    let variables = built(&[("content-type", "text/plain")], |request| {
        request.query = None;
        request.scheme = "https";
        request.content_length = Some(12);
        request.auth_type = Some("Basic");
        request.remote_user = Some("ann");
        request.remote_host = Some("client.example.org");
        request.script_rte = Some("python");
    });
    for (name, value) in [
        ("QUERY_STRING", ""),
        ("HTTPS", "on"),
        ("SECURITY_STATUS", "SSL"),
        ("CONTENT_TYPE", "text/plain"),
        ("CONTENT_LENGTH", "12"),
        ("AUTH_TYPE", "Basic"),
        ("REMOTE_USER", "ann"),
        ("REMOTE_HOST", "client.example.org"),
        ("SCRIPT_RTE", "python"),
        ("WWW_KEY_COUNT", "0"),
    ] {
        assert_value(&variables, name, value);
    }
    assert_eq!(variables.value("HTTP_CONTENT_TYPE"), None);
}

#[test]
fn the_prefix_precedes_all_names_but_wasds_own() {
    let variables = built(&[("host", "example.org")], |request| request.prefix = "WWW_");
    for (name, _) in variables.iter() {
        assert!(
            name.starts_with(b"WWW_") && !name.starts_with(b"WWW_WWW_"),
            "{}",
            name.escape_ascii()
        );
    }
    assert_value(&variables, "WWW_REQUEST_METHOD", "GET");
    assert_value(&variables, "WWW_HTTP_HOST", "example.org");
}

#[test]
fn fields_become_variables_except_withheld_ones() {
    let variables = built(
        &[
            ("accept", "text/html"),
            ("x-a", "1"),
            ("accept", "text/plain"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
            ("proxy", "evil"),
            ("authorization", "Basic xxx"),
            ("x_a", "2"),
        ],
        |_| {},
    );
    assert_value(&variables, "HTTP_ACCEPT", "text/html, text/plain");
    assert_value(&variables, "HTTP_COOKIE", "a=1; b=2");
    assert_value(&variables, "HTTP_X_A", "1");
    for name in ["HTTP_PROXY", "HTTP_AUTHORIZATION"] {
        assert_eq!(variables.value(name), None, "{name}");
    }
}

#[test]
fn http_2_has_a_host_like_http_1() {
    assert_value(
        &built(&[], |request| request.protocol = "HTTP/2.0"),
        "HTTP_HOST",
        "example.org:8080",
    );
    assert_eq!(built(&[], |_| {}).value("HTTP_HOST"), None);
}

#[test]
fn an_invalid_host_is_replaced_by_the_servers_address() {
    let name = |host: &'static str| built(&[], |request| request.server_name = host);
    assert_value(&name("<script>"), "SERVER_NAME", "192.0.2.1");
    let on_ipv6 = built(&[], |request| {
        request.server_name = "";
        request.server_addr = "2001:db8::1".parse().unwrap();
    });
    assert_value(&on_ipv6, "SERVER_NAME", "[2001:db8::1]");
    assert_value(&on_ipv6, "SERVER_ADDR", "2001:db8::1");
}

#[test]
fn an_ipv4_client_of_an_ipv6_socket_is_an_ipv4_client() {
    let variables = built(&[], |request| {
        request.remote_addr = "::ffff:198.51.100.7".parse().unwrap();
    });
    assert_value(&variables, "REMOTE_ADDR", "198.51.100.7");
    assert_value(&variables, "REMOTE_HOST", "198.51.100.7");
}

#[test]
fn keywords_are_numbered() {
    let variables = built(&[], |request| request.query = Some("one+t%20wo"));
    assert_value(&variables, "WWW_KEY_COUNT", "2");
    assert_value(&variables, "WWW_KEY_1", "one");
    assert_value(&variables, "WWW_KEY_2", "t wo");
    let broken = built(&[], |request| request.query = Some("one+t%0Awo"));
    assert_value(&broken, "WWW_KEY_COUNT", "0");
    assert_eq!(broken.value("WWW_KEY_1"), None);
}

/// The variables of a form's query, without their prefix.
fn form(query: &str) -> Vec<(String, String)> {
    let (headers, sentinels) = (headers(&[]), sentinels());
    let mut request = request(&headers, &sentinels);
    request.query = Some(query);
    let variables = Variables::build(&request);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    variables
        .iter()
        .filter_map(|(name, value)| Some((text(name.strip_prefix(b"WWW_FORM_")?), text(value))))
        .collect()
}

#[track_caller]
fn assert_form(query: &str, expected: &[(&str, &str)]) {
    let form = form(query);
    let form: Vec<_> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(form, expected);
}

#[test]
fn form_fields_become_variables_and_repeated_ones_are_numbered() {
    assert_form("na-me=a+b%21&=3&last", &[("NA_ME", "a b!"), ("LAST", "")]);
    assert_form(
        "a=1&b=2&a=3&A=4&a.b=5&a-b=6",
        &[
            ("A", "1"),
            ("B", "2"),
            ("A__2", "3"),
            ("A__3", "4"),
            ("A_B", "5"),
            ("A_B__2", "6"),
        ],
    );
    let query = vec!["x=1"; 200].join("&");
    assert_eq!(form(&query).len(), 128, "the limit on fields");
    assert_eq!(form(&query)[127].0, "X__128");
}

#[test]
fn form_values_with_newlines_are_one_line_and_encoded_as_well() {
    assert_form(
        "text=a%0D%0Ab%0ac%25&x=%0D&text=%00+d",
        &[
            ("TEXT", "a b c%"),
            ("TEXT__ENCODED", "a%0D%0Ab%0ac%25"),
            ("X", "\r"),
            ("X__ENCODED", "%0D"),
            ("TEXT__2__ENCODED", "%00+d"),
        ],
    );
}

#[test]
fn form_names_that_are_not_ascii_are_distinct() {
    assert_form(
        "gr%C3%B6%C3%9Fe=1&%E5%90%8D=2&%E4%BD%8F=3&%ff=4",
        &[
            ("GR_C3_B6_C3_9FE", "1"),
            ("_E5_90_8D", "2"),
            ("_E4_BD_8F", "3"),
            ("_FF", "4"),
        ],
    );
}

#[test]
fn the_routes_environment_replaces_additions_but_no_request_variables() {
    let environment = [
        ("GIT_PROJECT_ROOT", "/srv/git"),
        ("DOCUMENT_ROOT", "/other"),
        ("REQUEST_METHOD", "DELETE"),
        ("HTTP_X_A", "2"),
        ("CGIPLUSEOF", "x"),
        ("WWW_GATEWAY_EOF", "x"),
    ]
    .map(|(name, value)| (name.to_string(), value.to_string()));
    let (headers, sentinels) = (headers(&[("x-a", "1")]), sentinels());
    let variables = Variables::build(&CgiRequest {
        environment: &environment,
        ..request(&headers, &sentinels)
    });
    assert_value(&variables, "GIT_PROJECT_ROOT", "/srv/git");
    assert_value(&variables, "DOCUMENT_ROOT", "/other");
    assert_value(&variables, "REQUEST_METHOD", "GET");
    assert_value(&variables, "HTTP_X_A", "1");
    assert_value(&variables, "WWW_GATEWAY_EOF", sentinels.end());
    assert_eq!(variables.value("CGIPLUSEOF"), None);
}

#[test]
fn times_that_http_cannot_represent_are_omitted() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let after = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
    for time in [before, after] {
        assert_eq!(
            built(&[], |request| request.request_time = time).value("REQUEST_TIME_GMT"),
            None
        );
    }
    let last = after - Duration::from_secs(1);
    let variables = built(&[], |request| request.request_time = last);
    assert_value(&variables, "REQUEST_TIME_GMT", "Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn the_buffer_of_a_browsers_request_is_allocated_once() {
    let long = "x".repeat(300);
    let headers = headers(&[
        ("host", "example.org"),
        ("user-agent", &long),
        ("accept", &long),
        ("cookie", &long),
    ]);
    let sentinels = sentinels();
    for query in [None, Some("a=b&c=d&e=f"), Some("one+two+three")] {
        let ipv6 = "2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap();
        let request = CgiRequest {
            query,
            prefix: "WWW_",
            remote_addr: ipv6,
            server_addr: ipv6,
            ..request(&headers, &sentinels)
        };
        let room = Vec::<u8>::with_capacity(bytes_expected(&request)).capacity();
        assert_eq!(Variables::build(&request).buffer.capacity(), room, "{query:?}");
    }
}

proptest! {
    #[test]
    fn no_request_sets_other_variables(
        fields in prop::collection::vec(("[a-z_.-]{1,4}", "[ -~]{0,8}"), 0..8),
        path in "[\\PC\n\0]{0,8}",
        query in "[a-c=&+%0A\\PC]{0,24}",
        prefix in prop::sample::select(vec!["", "WWW_"]),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in &fields {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
                headers.append(name, value);
            }
        }
        let sentinels = sentinels();
        let variables = Variables::build(&CgiRequest {
            path_info: Some(path.as_bytes()),
            query: Some(&query),
            prefix,
            ..request(&headers, &sentinels)
        });
        let entries = variables.bytes().split_inclusive(|byte| *byte == 0).count();
        prop_assert_eq!(entries, variables.len());
        prop_assert!(!variables.bytes().contains(&b'\n'));
        let mut names: Vec<_> = variables.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), variables.len());
        prop_assert!(names.iter().all(|name| name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')));
    }
}
