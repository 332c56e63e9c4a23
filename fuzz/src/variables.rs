//! The variables of a request: target, query and header fields of a client in, names and values for a script out.
//!
//! Properties: no name occurs twice, none holds more than letters, digits and `_`; a client chooses neither the variables that
//! only the server sets, nor those that programs would misunderstand (HTTP_PROXY); what a script gets, by environment or by record,
//! is what was built.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::record::decode_request;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_gateway::{CgiRequest, RequestEncoding, Sentinels, Variables, encode_request, isindex_arguments};

use crate::input::Input;

/// Values that no request can change.
const FIXED: [(&str, &str); 5] = [
    ("SERVER_SOFTWARE", "Sluice"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("REMOTE_ADDR", "192.0.2.7"),
    ("REDIRECT_STATUS", "200"),
    ("UNIQUE_ID", "id"),
];

/// Input: a byte (1: names with the prefix `WWW_`), a line with the path after the script, one with the query, then a line for
/// each header field: name, colon, value.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let prefix = if input.byte() & 1 == 0 { "" } else { "WWW_" };
    let path_info = String::from_utf8_lossy(input.line()).into_owned();
    let query = String::from_utf8_lossy(input.line()).into_owned();
    let mut headers = HeaderMap::new();
    while !input.is_empty() {
        if let Some((name, value)) = field(input.line()) {
            headers.append(name, value);
        }
    }
    let sentinels = Sentinels::from_random([0x5a; 12]);
    let variables = Variables::build(&request(prefix, &path_info, &query, &headers, &sentinels));
    check_names(&variables, prefix);
    for (name, value) in FIXED {
        assert_eq!(
            variables.value(&format!("{prefix}{name}")),
            Some(value.as_bytes()),
            "{name}"
        );
    }
    assert_eq!(variables.value("WWW_GATEWAY_EOF"), Some(sentinels.end().as_bytes()));
    if !query.contains('\0') {
        assert_eq!(
            variables.value(&format!("{prefix}QUERY_STRING")),
            Some(query.as_bytes())
        );
    }
    check_transport(&variables);
    for argument in isindex_arguments(&query) {
        assert!(!argument.starts_with(b"-") && !argument.contains(&0), "{argument:?}");
    }
}

fn field(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    Some((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
}

fn request<'a>(
    prefix: &'a str,
    path_info: &'a str,
    query: &'a str,
    headers: &'a HeaderMap,
    sentinels: &'a Sentinels,
) -> CgiRequest<'a> {
    CgiRequest {
        method: "GET",
        request_uri: "/cgi-bin/x",
        redirect_url: None,
        script_name: b"/cgi-bin/x",
        script_filename: b"/srv/cgi-bin/x",
        path_info: Some(path_info.as_bytes()),
        path_translated: Some(path_info.as_bytes()),
        query: Some(query),
        protocol: "HTTP/2.0",
        scheme: "https",
        tls: &[],
        document_root: b"/srv",
        server_name: headers
            .get("host")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default(),
        server_addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
        server_port: 443,
        remote_addr: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
        remote_host: None,
        remote_port: 4711,
        auth_type: None,
        remote_user: None,
        content_length: None,
        unique_id: "id",
        server_software: "Sluice",
        headers,
        record_bytes_max: 4096,
        sentinels: Some(sentinels),
        prefix,
        environment: &[],
        request_time: SystemTime::UNIX_EPOCH,
        script_rte: None,
        is_php: true,
    }
}

fn check_names(variables: &Variables, prefix: &str) {
    let mut names = BTreeSet::new();
    for (name, _) in variables.iter() {
        let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        assert!(name.iter().all(is_part), "{:?}", String::from_utf8_lossy(name));
        assert!(names.insert(name), "{:?} stands twice", String::from_utf8_lossy(name));
        assert!(name.starts_with(prefix.as_bytes()) || name.starts_with(b"WWW_"));
    }
    for name in [
        "HTTP_PROXY",
        "HTTP_AUTHORIZATION",
        "HTTP_PROXY_AUTHORIZATION",
        "HTTP_CONTENT_LENGTH",
    ] {
        assert_eq!(variables.value(&format!("{prefix}{name}")), None);
    }
}

/// The environment and both encodings of the record carry the same names and values.
fn check_transport(variables: &Variables) {
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = variables
        .iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    for encoding in [RequestEncoding::Record, RequestEncoding::Struct] {
        let mut record = Vec::new();
        encode_request(variables, encoding, &mut record);
        let decoded = decode_request(&record).expect("a record").expect("a whole record");
        assert_eq!((decoded.variables, decoded.consumed), (pairs.clone(), record.len()));
    }
    let environment = variables.cgi_environment(&[("PATH", "/bin"), ("HTTP_PROXY", "http://example.org/")]);
    for (name, value) in &pairs {
        let name = str::from_utf8(name).expect("ASCII");
        assert_eq!(environment.value(name), Some(&value[..]));
    }
    assert_eq!(environment.value("PATH"), Some(&b"/bin"[..]));
    assert_eq!(environment.value("HTTP_PROXY"), None);
}
