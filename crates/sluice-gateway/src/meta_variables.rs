//! The meta-variables of a request: those of RFC 3875 §4.1, Apache's common additions, and WASD's.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, COOKIE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::names::{becomes_variable, folded, host_name, is_of_rfc, is_reserved};
use crate::query;
use crate::sentinel::Sentinels;
use crate::variables::{LENGTH_BYTES, Variables};

/// Expected number of variables, those from header fields not counted.
const VARIABLES: usize = 48;

/// A request for a script, with everything that its variables are made from.
#[derive(Clone, Copy, Debug)]
pub struct CgiRequest<'a> {
    /// The request's method.
    pub method: &'a str,
    /// The request target as received.
    pub request_uri: &'a str,
    /// The path that the client asked for, decoded, if the server has replaced it by that of the script (a fallback).
    pub redirect_url: Option<&'a [u8]>,
    /// The part of the path that identifies the script, decoded.
    pub script_name: &'a [u8],
    /// The script's file.
    pub script_filename: &'a [u8],
    /// The rest of the path, decoded.
    pub path_info: Option<&'a [u8]>,
    /// The file that `path_info` maps to.
    pub path_translated: Option<&'a [u8]>,
    /// The query as received, without `?`.
    pub query: Option<&'a str>,
    /// The protocol version: `HTTP/1.1`, `HTTP/2.0`.
    pub protocol: &'a str,
    /// The scheme: `http` or `https`.
    pub scheme: &'a str,
    /// Variables about the TLS connection, with Apache's names (`SSL_PROTOCOL`).
    pub tls: &'a [(&'static str, String)],
    /// The directory of the site's files.
    pub document_root: &'a [u8],
    /// The host that the client requested, with or without port. An invalid one is replaced by the server's address.
    pub server_name: &'a str,
    /// The server's address on this connection.
    pub server_addr: IpAddr,
    /// The server's port.
    pub server_port: u16,
    /// The client's address.
    pub remote_addr: IpAddr,
    /// The client's host name from reverse DNS; `None` if unknown.
    pub remote_host: Option<&'a str>,
    /// The client's port.
    pub remote_port: u16,
    /// The authentication scheme, if the client was authenticated.
    pub auth_type: Option<&'a str>,
    /// The authenticated user.
    pub remote_user: Option<&'a str>,
    /// Bytes in the request body, if there is one and its length is known.
    pub content_length: Option<u64>,
    /// The identifier of this request in the log.
    pub unique_id: &'a str,
    /// Name and version of the server.
    pub server_software: &'a str,
    /// The request's header fields.
    pub headers: &'a HeaderMap,
    /// Bytes in the largest record that the mailbox accepts.
    pub record_bytes_max: usize,
    /// The sentinels of the process that will answer, for `WWW_GATEWAY_EOF` and the like. `None` for a persistent process, which
    /// has them in its environment: a page that shows a request's variables then shows no sentinel.
    pub sentinels: Option<&'a Sentinels>,
    /// The prefix of the names of RFC 3875 and of Apache: empty or `WWW_`.
    pub prefix: &'a str,
    /// The route's environment; these names get no prefix.
    pub environment: &'a [(String, String)],
    /// The time at which the request arrived.
    pub request_time: SystemTime,
    /// The engine that runs the script (RTE mode).
    pub script_rte: Option<&'a str>,
    /// Whether PHP runs the script.
    pub is_php: bool,
}

impl Variables {
    /// Builds the variables of a request.
    ///
    /// It runs for each request, so it allocates one buffer of about the right size, and nothing per variable.
    /// Variables that a script could not read are dropped (see [`Variables::dropped`]).
    #[must_use]
    pub fn build(request: &CgiRequest<'_>) -> Variables {
        Variables::default().build_again(request)
    }

    /// Builds as [`Variables::build`] does, in the memory of another request's variables ([`Variables::recycled`]).
    #[must_use]
    pub fn build_again(self, request: &CgiRequest<'_>) -> Variables {
        let mut variables = self;
        let count = VARIABLES + request.headers.keys_len() + request.environment.len();
        variables.begin_again(count, bytes_expected(request));
        // WASD's library checks the first name for the prefix, so the first variable must be one that can have it.
        variables.add_server(request);
        variables.add_request(request);
        variables.add_fields(request);
        variables.add_additions(request);
        variables.add_query(request.query.unwrap_or_default());
        for (name, value) in request.environment {
            variables.add_environment_entry(request.prefix, name, value);
        }
        variables
    }

    /// The server and the connection (RFC 3875 §4.1).
    fn add_server(&mut self, request: &CgiRequest<'_>) {
        let prefix = request.prefix;
        self.add(prefix, "SERVER_SOFTWARE", request.server_software);
        self.add_valid(prefix, "GATEWAY_INTERFACE", "CGI/1.1");
        self.add(prefix, "SERVER_PROTOCOL", request.protocol);
        let address = request.server_addr.to_canonical();
        match (host_name(request.server_name), address) {
            (Some(name), _) => self.add_valid(prefix, "SERVER_NAME", name),
            (None, IpAddr::V4(_)) => self.add_address(prefix, "SERVER_NAME", address),
            (None, IpAddr::V6(address)) => self.add_display(prefix, "SERVER_NAME", format_args!("[{address}]")),
        }
        self.add_address(prefix, "SERVER_ADDR", address);
        self.add_number(prefix, "SERVER_PORT", request.server_port);
        let client = request.remote_addr.to_canonical();
        self.add_address(prefix, "REMOTE_ADDR", client);
        match request.remote_host {
            Some(name) => self.add(prefix, "REMOTE_HOST", name),
            // Without a name it is the address (§4.1.9).
            None => self.add_address(prefix, "REMOTE_HOST", client),
        }
        self.add_number(prefix, "REMOTE_PORT", request.remote_port);
    }

    /// The request and the resource that it identifies (RFC 3875 §4.1).
    fn add_request(&mut self, request: &CgiRequest<'_>) {
        let prefix = request.prefix;
        self.add(prefix, "REQUEST_METHOD", request.method);
        self.add(prefix, "SCRIPT_NAME", request.script_name);
        self.add_some(prefix, "PATH_INFO", request.path_info);
        self.add_some(prefix, "PATH_TRANSLATED", request.path_translated);
        // Set even without a query (§4.1.7).
        self.add(prefix, "QUERY_STRING", request.query.unwrap_or_default());
        self.add_some(prefix, "AUTH_TYPE", request.auth_type);
        self.add_some(prefix, "REMOTE_USER", request.remote_user);
        self.add_some(prefix, "CONTENT_TYPE", request.headers.get(CONTENT_TYPE));
        if let Some(length) = request.content_length {
            self.add_number(prefix, "CONTENT_LENGTH", length);
        }
    }

    /// The request's header fields (RFC 3875 §4.1.18).
    fn add_fields(&mut self, request: &CgiRequest<'_>) {
        let headers = request.headers;
        if headers.keys_len() == headers.len() {
            for (name, value) in headers {
                self.add_field(request.prefix, name, std::iter::once(value));
            }
        } else {
            for name in headers.keys() {
                self.add_field(request.prefix, name, headers.get_all(name).iter());
            }
        }
        // HTTP/2 sends the host in `:authority`; a script gets it as HTTP_HOST all the same (RFC 9113 §8.3.1).
        if !headers.contains_key(HOST)
            && !request.protocol.starts_with("HTTP/1")
            && host_name(request.server_name).is_some()
        {
            self.add(request.prefix, "HTTP_HOST", request.server_name);
        }
    }

    /// Adds `HTTP_<NAME>`, its values joined in the order in which they arrived.
    fn add_field<'a>(&mut self, prefix: &str, name: &HeaderName, values: impl Iterator<Item = &'a HeaderValue>) {
        if !becomes_variable(name) {
            return;
        }
        let start = self.begin_text();
        self.buffer.extend_from_slice(prefix.as_bytes());
        self.buffer.extend_from_slice(b"HTTP_");
        self.buffer.extend(name.as_str().bytes().map(folded));
        let name_length = self.buffer.len() - start;
        self.buffer.push(b'=');
        // Cookies are separated by semicolons (RFC 6265 §5.4, RFC 9113 §8.2.3), all other values by commas.
        let separator = if *name == COOKIE { "; " } else { ", " };
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.buffer.extend_from_slice(separator.as_bytes());
            }
            self.buffer.extend_from_slice(value.as_bytes());
        }
        self.complete(start, name_length);
    }

    fn add_additions(&mut self, request: &CgiRequest<'_>) {
        let prefix = request.prefix;
        self.add(prefix, "DOCUMENT_ROOT", request.document_root);
        self.add(prefix, "SCRIPT_FILENAME", request.script_filename);
        self.add(prefix, "REQUEST_URI", request.request_uri);
        self.add_some(prefix, "REDIRECT_URL", request.redirect_url);
        self.add(prefix, "REQUEST_SCHEME", request.scheme);
        if request.scheme == "https" {
            self.add(prefix, "HTTPS", "on");
        }
        for (name, value) in request.tls {
            self.add(prefix, name, value.as_str());
        }
        self.add(prefix, "UNIQUE_ID", request.unique_id);
        if request.is_php {
            // php-cgi refuses to run without it: PHP takes it as the proof that a server started it, not a visitor.
            self.add(prefix, "REDIRECT_STATUS", "200");
        }
        self.add_some(prefix, "SCRIPT_RTE", request.script_rte);
        self.add_valid(
            prefix,
            "SECURITY_STATUS",
            if request.scheme == "https" { "SSL" } else { "NONE" },
        );
        if has_http_date(request.request_time) {
            self.add_display(
                prefix,
                "REQUEST_TIME_GMT",
                httpdate::HttpDate::from(request.request_time),
            );
        }
        self.add_number("WWW_", "GATEWAY_MRS", request.record_bytes_max as u64);
        if let Some(sentinels) = request.sentinels {
            self.add("WWW_", "GATEWAY_EOF", sentinels.end());
            self.add("WWW_", "GATEWAY_ESC", sentinels.escape());
            self.add("WWW_", "GATEWAY_EOT", sentinels.close());
        }
    }

    /// WASD's variables for the parts of a query: `WWW_KEY_n` and `WWW_KEY_COUNT`, `WWW_FORM_<NAME>`.
    fn add_query(&mut self, query: &str) {
        let before = self.len();
        let dropped_before = self.dropped();
        for (index, word) in query::keywords(query).enumerate() {
            let number = index + 1;
            let start = self.begin_text();
            let _ = write!(self.buffer, "WWW_KEY_{number}=");
            let name_length = self.buffer.len() - 1 - start;
            self.buffer.extend(percent_decode_str(word));
            self.complete(start, name_length);
        }
        // Keywords are numbered without gaps, so if one is dropped, all are.
        if self.dropped() > dropped_before {
            self.truncate(before);
        }
        self.add_number("WWW_", "KEY_COUNT", (self.len() - before) as u64);
        self.add_form(query);
    }

    fn add_form(&mut self, query: &str) {
        let first = self.len();
        for (name, value) in query::form_fields(query) {
            if name.is_empty() {
                continue;
            }
            let start = self.begin_form_field(name);
            // Of several fields that fold to one name, the later ones are numbered.
            let repeats = self.count_form_fields(first, start);
            self.add_form_text(start, repeats, "", form_text(value));
            // A control character may be encoded: a newline or a NUL among them.
            if value.contains("%0") {
                let start = self.begin_form_field(name);
                self.add_form_text(start, repeats, "__ENCODED", value.bytes());
            }
        }
    }

    /// Writes the name of a field's variable to the end of the buffer; returns where it begins.
    fn begin_form_field(&mut self, name: &str) -> usize {
        let start = self.begin_text();
        self.buffer.extend_from_slice(b"WWW_FORM_");
        for byte in query::form_decoded(name) {
            if byte.is_ascii() {
                self.buffer.push(folded(byte));
            } else {
                // Otherwise different names of other scripts than the Latin one would be the same.
                let _ = write!(self.buffer, "_{byte:02X}");
            }
        }
        start
    }

    /// The fields, from variable `first` on, whose variable has the name at the end of the buffer, with or without a number.
    fn count_form_fields(&self, first: usize, start: usize) -> usize {
        let name = &self.buffer[start..];
        let is_same = |index: &usize| {
            let rest = self.name(*index).strip_prefix(name);
            rest.is_some_and(|rest| match rest {
                [] => true,
                [b'_', b'_', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
                _ => false,
            })
        };
        (first..self.len()).filter(is_same).count()
    }

    fn add_form_text(&mut self, start: usize, repeats: usize, suffix: &str, text: impl Iterator<Item = u8>) {
        if repeats > 0 {
            let _ = write!(self.buffer, "__{}", repeats + 1);
        }
        self.buffer.extend_from_slice(suffix.as_bytes());
        let name_length = self.buffer.len() - start;
        self.buffer.push(b'=');
        self.buffer.extend(text);
        self.complete(start, name_length);
    }

    /// Adds a variable of the route's environment. It replaces a variable of the same name, unless RFC 3875 defines that one.
    fn add_environment_entry(&mut self, prefix: &str, name: &str, value: &str) {
        if is_reserved(name) {
            return;
        }
        let is_set = self.position(name).is_some();
        if !(is_set && is_of_rfc(name.strip_prefix(prefix).unwrap_or(name))) {
            self.set(name, value.as_bytes());
        }
    }
}

/// The text of a form's value with a blank for each newline, because a variable is one line.
fn form_text(value: &str) -> impl Iterator<Item = u8> {
    let mut bytes = query::form_decoded(value).peekable();
    std::iter::from_fn(move || match (bytes.next()?, bytes.peek()) {
        (b'\r', Some(b'\n')) => {
            bytes.next();
            Some(b' ')
        }
        (b'\n', _) => Some(b' '),
        (byte, _) => Some(byte),
    })
}

/// An estimate of the bytes that the variables of a request need, usually a little too high.
fn bytes_expected(request: &CgiRequest<'_>) -> usize {
    // Names, sentinels, numbers, addresses.
    const FIXED_BYTES: usize = 1280;
    let fields = request.headers.iter();
    let fields: usize = fields
        .map(|(name, value)| name.as_str().len() + value.len() + 8 + request.prefix.len())
        .sum();
    let environment = request.environment.iter();
    let environment: usize = environment.map(|(name, value)| name.len() + value.len() + 2).sum();
    let files = request.script_filename.len() + request.document_root.len() + request.script_name.len();
    let optional = [request.path_translated, request.path_info, request.redirect_url];
    let paths = request.request_uri.len() + optional.into_iter().flatten().map(<[u8]>::len).sum::<usize>();
    // Once raw, once in parts, each of which gets a name.
    let query = request.query.map_or(0, |query| 3 * query.len());
    let tls = request.tls.iter();
    let tls: usize = tls.map(|(name, value)| name.len() + value.len() + 2).sum();
    let lengths = LENGTH_BYTES * (VARIABLES + request.headers.len());
    FIXED_BYTES + lengths + VARIABLES * request.prefix.len() + fields + tls + environment + files + paths + query
}

/// Whether a time is in the years 1970 to 9999, which HTTP-date can represent (RFC 9110 §5.6.7).
fn has_http_date(time: SystemTime) -> bool {
    const END_OF_9999: Duration = Duration::from_secs(253_402_300_800);
    time.duration_since(SystemTime::UNIX_EPOCH)
        .is_ok_and(|since| since < END_OF_9999)
}

#[cfg(test)]
mod tests;
