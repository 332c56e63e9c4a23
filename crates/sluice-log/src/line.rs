//! A line of the access log, written item by item as the format says.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderValue, Uri, Version};
use sluice_http::endpoints::Endpoints;
use sluice_settings::log_format::{Item, LineFormat, LogFormat, TimeFormat, TimePoint, TimeUnit};

use crate::clock::{self, Zone};
use crate::fields::{RequestFields, ResponseFields};
use crate::json;

/// The status logged for a client that left before there was a response: not from RFC 9110, but known from nginx.
pub const STATUS_CLIENT_LEFT: u16 = 499;

/// The values of one exchange from which its line is written.
pub struct Line<'a> {
    /// The exchange's UNIQUE_ID.
    pub id: &'a [u8],
    /// The two ends of the exchange.
    pub endpoints: Endpoints,
    /// The address that is connected: the client, or a proxy that forwarded the request.
    pub peer: IpAddr,
    /// The client's name, if it is known.
    pub client_name: Option<&'a str>,
    /// The user, if the route has asked for one.
    pub user: Option<&'a str>,
    /// The request.
    pub request: LoggedRequest<'a>,
    /// The response.
    pub response: LoggedResponse<'a>,
    /// When the exchange began, and how long it took.
    pub timing: Timing,
    /// The handler that answered: `file`, `script`, and so on; `-` if none did.
    pub handler: &'static str,
    /// The path of the file or script that answered.
    pub file: Option<&'a Path>,
}

/// The request of a line.
pub struct LoggedRequest<'a> {
    /// The method; `-` if the head could not be parsed.
    pub method: &'a str,
    /// The target.
    pub uri: &'a Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The fields that the format names.
    pub fields: &'a RequestFields,
}

/// The response of a line.
pub struct LoggedResponse<'a> {
    /// The status, or `STATUS_CLIENT_LEFT`.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub body_bytes: u64,
    /// Whether the response ended before it was complete.
    pub is_truncated: bool,
    /// Whether the connection is closed after it.
    pub is_last: bool,
    /// The fields that the format names.
    pub fields: &'a ResponseFields,
}

/// The times of a line.
pub struct Timing {
    /// When the head was complete.
    pub arrived: SystemTime,
    /// The same moment, by the monotonic clock.
    pub started: Instant,
    /// The duration, read from the clock by the first item that needs it.
    pub duration: OnceCell<Duration>,
}

/// Appends a line with its newline. `site` is the name of the exchange's site.
pub(crate) fn write(out: &mut Vec<u8>, format: &LogFormat, site: &str, line: &Line<'_>) {
    match &format.line {
        LineFormat::Json => json::write(out, line),
        LineFormat::Items(items) => {
            let mut text = Text(out);
            for item in items {
                text.item(item, site, line);
            }
        }
    }
    out.push(b'\n');
}

impl Line<'_> {
    pub(crate) fn duration(&self) -> Duration {
        *self.timing.duration.get_or_init(|| self.timing.started.elapsed())
    }

    /// A moment of the exchange, as the time since 1970.
    pub(crate) fn time_at(&self, point: TimePoint) -> Duration {
        let begin = self.timing.arrived.duration_since(UNIX_EPOCH).unwrap_or_default();
        match point {
            TimePoint::Begin => begin,
            TimePoint::End => begin.saturating_add(self.duration()),
        }
    }

    pub(crate) fn target(&self) -> &str {
        self.request.uri.path_and_query().map_or("-", |target| target.as_str())
    }

    fn path(&self) -> &str {
        self.request.uri.path_and_query().map_or("-", |target| target.path())
    }

    /// `X`: the response was aborted; `-`: the connection is closed after it; `+`: the connection stays open.
    fn connection_state(&self) -> &'static [u8] {
        let response = &self.response;
        if response.is_truncated || response.status == STATUS_CLIENT_LEFT {
            b"X"
        } else if response.is_last {
            b"-"
        } else {
            b"+"
        }
    }
}

pub(crate) fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_11 => "HTTP/1.1",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "-",
    }
}

/// The value of a Host field without its port.
fn without_port(host: &[u8]) -> &[u8] {
    let end = match host {
        [b'[', ..] => host.iter().position(|byte| *byte == b']').map(|at| at + 1),
        _ => host.iter().position(|byte| *byte == b':'),
    };
    &host[..end.unwrap_or(host.len())]
}

/// Bytes that stand between quotes as they are: printable ASCII except `"` and `\\`.
const IS_PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Whether all eight bytes of a word are plain. A byte that is not leaves the high bit of a byte set in one of the four terms.
fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let differs_by = |byte: u8| word ^ (ONES * u64::from(byte));
    let has_less = |word: u64, least: u8| word.wrapping_sub(ONES * u64::from(least)) & !word;
    let above = word.wrapping_add(ONES) | word;
    let found = has_less(word, 0x20) | above | has_less(differs_by(b'"'), 1) | has_less(differs_by(b'\\'), 1);
    found & (ONES << 7) == 0
}

/// The place of the first byte that needs an escape. Most texts have none, so eight bytes are tested at once.
fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks();
    let plain = words
        .iter()
        .take_while(|word| is_plain_word(u64::from_ne_bytes(**word)));
    let begin = plain.count() * size_of::<u64>();
    let at = bytes[begin..].iter().position(|byte| !IS_PLAIN[usize::from(*byte)])?;
    Some(begin + at)
}

/// Appends text, with escapes for newlines and quotes.
pub(crate) struct Text<'a>(pub(crate) &'a mut Vec<u8>);

impl Text<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Text that stands between blanks, so that its own are escaped.
    fn word(&mut self, text: &str) {
        for (number, part) in text.split(' ').enumerate() {
            if number > 0 {
                self.push(b"\\x20");
            }
            self.quoted(part.as_bytes());
        }
    }

    fn item(&mut self, item: &Item, site: &str, line: &Line<'_>) {
        match item {
            Item::Literal(text) => self.push(text.as_bytes()),
            // Always unknown: the server does not ask identd (RFC 1413).
            Item::Unknown => self.push(b"-"),
            Item::User => match line.user {
                Some(user) => self.word(user),
                None => self.push(b"-"),
            },
            Item::Client => self.address(line.endpoints.client.ip()),
            Item::Peer => self.address(line.peer),
            Item::ClientName => match line.client_name {
                Some(name) => self.quoted(name.as_bytes()),
                None => self.address(line.endpoints.client.ip()),
            },
            Item::Server => self.address(line.endpoints.server.ip()),
            Item::ServerPort => self.number(line.endpoints.server.port()),
            Item::ClientPort => self.number(line.endpoints.client.port()),
            Item::ProcessId => self.number(std::process::id()),
            Item::Time(point, format) => self.time(format, line.time_at(*point)),
            Item::RequestLine => {
                self.quoted(line.request.method.as_bytes());
                self.push(b" ");
                self.quoted(line.target().as_bytes());
                self.push(b" ");
                self.push(protocol(line.request.version).as_bytes());
            }
            Item::Method => self.quoted(line.request.method.as_bytes()),
            Item::Path => self.quoted(line.path().as_bytes()),
            Item::Query => {
                if let Some(query) = line.request.uri.query() {
                    self.push(b"?");
                    self.quoted(query.as_bytes());
                }
            }
            Item::Protocol => self.push(protocol(line.request.version).as_bytes()),
            Item::Status => self.number(line.response.status),
            Item::BodyBytesOrDash if line.response.body_bytes == 0 => self.push(b"-"),
            Item::BodyBytes | Item::BodyBytesOrDash => self.number(line.response.body_bytes),
            Item::Duration(unit) => self.count(*unit, line.duration()),
            Item::Site => self.quoted(site.as_bytes()),
            Item::Host(number) => match (line.request.uri.host(), line.request.fields.value(*number)) {
                (Some(host), _) => self.quoted(host.as_bytes()),
                (None, host) => self.quoted(host.map_or(b"-", |host| without_port(host.as_bytes()))),
            },
            Item::RequestField(number) => self.field(line.request.fields.value(*number)),
            Item::ResponseField(number) => self.field(line.response.fields.value(*number)),
            Item::Id => self.push(line.id),
            Item::File => self.quoted(line.file.map_or(b"-", |file| file.as_os_str().as_encoded_bytes())),
            Item::Handler => self.push(line.handler.as_bytes()),
            Item::ConnectionState => self.push(line.connection_state()),
            Item::When(condition, item) => match condition.holds(line.response.status) {
                true => self.item(item, site, line),
                false => self.push(b"-"),
            },
        }
    }

    fn show(&mut self, value: impl std::fmt::Display) {
        let _ = write!(self, "{value}");
    }

    /// Without `std::fmt`, which takes longer than the number itself.
    fn number(&mut self, number: impl itoa::Integer) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }

    fn address(&mut self, address: IpAddr) {
        let IpAddr::V4(address) = address else {
            return self.show(address);
        };
        let mut text = [b'.'; 16];
        let mut end = 0;
        for octet in address.octets() {
            for (least, unit) in [(100, 100), (10, 10), (0, 1)] {
                if octet >= least {
                    text[end] = b'0' + octet / unit % 10;
                    end += 1;
                }
            }
            end += 1;
        }
        self.push(&text[..end - 1]);
    }

    fn field(&mut self, value: Option<&HeaderValue>) {
        match value {
            Some(value) => self.quoted(value.as_bytes()),
            None => self.push(b"-"),
        }
    }

    fn time(&mut self, format: &TimeFormat, moment: Duration) {
        match format {
            TimeFormat::Text(format) => {
                clock::with_text(format, Zone::Local, seconds(moment), |text| self.push(text.as_bytes()));
            }
            TimeFormat::Since(unit) => self.count(*unit, moment),
            TimeFormat::Fraction(TimeUnit::Micros) => self.show(format_args!("{:06}", moment.subsec_micros())),
            TimeFormat::Fraction(_) => self.show(format_args!("{:03}", moment.subsec_millis())),
        }
    }

    fn count(&mut self, unit: TimeUnit, time: Duration) {
        match unit {
            TimeUnit::Seconds => self.number(time.as_secs()),
            TimeUnit::Millis => self.number(time.as_millis()),
            TimeUnit::Micros => self.number(time.as_micros()),
        }
    }

    /// Escapes as Apache's mod_log_config does: `\"`, `\\`, the letters of C, and `\xhh`.
    pub(crate) fn quoted(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = first_to_escape(rest) {
            self.push(&rest[..at]);
            match rest[at] {
                byte @ (b'"' | b'\\') => self.push(&[b'\\', byte]),
                0x08 => self.push(b"\\b"),
                b'\t' => self.push(b"\\t"),
                b'\n' => self.push(b"\\n"),
                0x0b => self.push(b"\\v"),
                b'\r' => self.push(b"\\r"),
                byte => self.show(format_args!("\\x{byte:02x}")),
            }
            rest = &rest[at + 1..];
        }
        self.push(rest);
    }
}

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

pub(crate) fn seconds(moment: Duration) -> i64 {
    i64::try_from(moment.as_secs()).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use http::{HeaderMap, HeaderName, header};
    use proptest::prelude::*;

    use super::*;

    /// A request of 1970 that took a second and a millisecond and a half.
    pub(crate) fn line<'a>(uri: &'a Uri, request: &'a RequestFields, response: &'a ResponseFields) -> Line<'a> {
        Line {
            id: b"k3x9m2p703000000ff",
            endpoints: Endpoints {
                client: "192.0.2.7:1234".parse().unwrap(),
                server: "[2001:db8::1]:80".parse().unwrap(),
                is_unix: false,
                named_by: sluice_http::endpoints::NamedBy::Connection,
            },
            peer: "10.0.0.1".parse().unwrap(),
            client_name: None,
            user: None,
            request: LoggedRequest {
                method: "GET",
                uri,
                version: Version::HTTP_11,
                fields: request,
            },
            response: LoggedResponse {
                status: 200,
                body_bytes: 12,
                is_truncated: false,
                is_last: false,
                fields: response,
            },
            timing: Timing {
                arrived: UNIX_EPOCH + Duration::from_micros(61_002_003),
                started: Instant::now(),
                duration: OnceCell::from(Duration::from_micros(1_001_500)),
            },
            handler: "file",
            file: Some(Path::new("/srv/www/x")),
        }
    }

    fn head(fields: &[(HeaderName, &[u8])]) -> HeaderMap {
        let mut head = HeaderMap::new();
        for (name, value) in fields {
            head.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        head
    }

    /// The line of `GET /x?y=1` in a format, after `change`, without its newline.
    fn written(format: &str, fields: &[(HeaderName, &[u8])], change: impl Fn(&mut Line<'_>)) -> String {
        let format = LogFormat::parse(format).unwrap();
        let head = head(fields);
        let (request, response) = (
            RequestFields::of(&format.request_fields, &head),
            ResponseFields::of(&format.response_fields, &head),
        );
        let uri = Uri::from_static("/x?y=1");
        let mut line = line(&uri, &request, &response);
        change(&mut line);
        let mut out = Vec::new();
        write(&mut out, &format, "one.example", &line);
        assert_eq!(out.pop(), Some(b'\n'));
        String::from_utf8(out).unwrap()
    }

    #[track_caller]
    fn assert_written(format: &str, expected: &str) {
        let fields: [(HeaderName, &[u8]); 5] = [
            (header::HOST, b"one.example:8080"),
            (header::USER_AGENT, b"a\"b\\c\xff\t"),
            (header::ACCEPT, b"text/html"),
            (header::ACCEPT, b"*/*"),
            (header::COOKIE, b"c=1"),
        ];
        assert_eq!(written(format, &fields, |_| {}), expected, "{format}");
    }

    #[test]
    fn a_byte_that_needs_an_escape_is_found_at_every_place() {
        for length in 0..50 {
            let plain = vec![b'~'; length];
            assert_eq!(first_to_escape(&plain), None);
            for at in 0..length {
                for byte in [b'"', b'\\', 0x1f, 0x7f, 0xff] {
                    let mut bytes = plain.clone();
                    bytes[at] = byte;
                    assert_eq!(first_to_escape(&bytes), Some(at), "{byte} of {length}");
                }
            }
        }
    }

    #[test]
    fn every_directive_writes_its_value() {
        for (format, expected) in [
            ("%h %a %{c}a %A", "192.0.2.7 192.0.2.7 10.0.0.1 2001:db8::1"),
            ("%l %u", "- -"),
            ("%r|%m|%U|%q|%H", "GET /x?y=1 HTTP/1.1|GET|/x|?y=1|HTTP/1.1"),
            ("%s %>s %<s", "200 200 200"),
            ("%B %b %O", "12 12 12"),
            ("%D %T %{s}T %{ms}T %{us}T", "1001500 1 1 1001 1001500"),
            (
                "%v %V %p %{local}p %{canonical}p %{remote}p",
                "one.example one.example 80 80 80 1234",
            ),
            ("%{User-Agent}i %{Referer}i", "a\\\"b\\\\c\\xff\\t -"),
            (
                "%{accept}i %{cookie}i %{host}i %{Referer}i",
                "text/html, */* c=1 one.example:8080 -",
            ),
            ("%{Accept}o %{Location}o", "text/html, */* -"),
            ("%L %{UNIQUE_ID}e", "k3x9m2p703000000ff k3x9m2p703000000ff"),
            ("%f %R %X", "/srv/www/x file +"),
            ("%m%%", "GET%"),
            (
                "%200{Cookie}i %404,500{Cookie}i %!200{Cookie}i %!404{Cookie}i",
                "c=1 - - c=1",
            ),
            (
                "%{sec}t %{msec}t %{usec}t %{msec_frac}t %{usec_frac}t",
                "61 61002 61002003 002 002003",
            ),
            (
                "%{end:sec}t %{end:msec}t %{end:msec_frac}t %{begin:sec}t",
                "62 62003 003 61",
            ),
            ("%m\t%{%s}t\\t%{%%}t", "GET\t61\t%"),
        ] {
            assert_written(format, expected);
        }
        assert_eq!(written("%P", &[], |_| {}), std::process::id().to_string());
        let user = written("%u %t", &[], |line| line.user = Some("an \"n"));
        assert!(user.starts_with("an\\x20\\\"n ["), "{user}");
        let named = written("%h %a %{c}a", &[], |line| line.client_name = Some("a.example"));
        assert_eq!(named, "a.example 192.0.2.7 10.0.0.1");
    }

    #[test]
    fn missing_values_are_dashes() {
        let bare = |format| {
            written(format, &[], |line| {
                (line.response.body_bytes, line.file, line.handler) = (0, None, "-");
            })
        };
        assert_eq!(bare("%b %B %f %R %V %{a}i %{a}i"), "- 0 - - - - -");
    }

    #[test]
    fn the_connection_state_is_one_character() {
        let state = |change: fn(&mut Line<'_>)| written("%X", &[], change);
        assert_eq!(state(|line| line.response.is_last = true), "-");
        assert_eq!(state(|line| line.response.is_truncated = true), "X");
        assert_eq!(state(|line| line.response.status = STATUS_CLIENT_LEFT), "X");
    }

    #[test]
    fn the_host_is_written_without_its_port() {
        for (field, host) in [
            ("a:80", "a"),
            ("[::1]:80", "[::1]"),
            ("[::1", "[::1"),
            ("a", "a"),
            (":", ""),
        ] {
            let fields = [(header::HOST, field.as_bytes())];
            assert_eq!(written("%V", &fields, |_| {}), host, "{field}");
        }
    }

    #[test]
    fn built_in_formats_do_not_change() {
        let line = |format| written(format, &[(header::USER_AGENT, b"a\"b")], |_| {});
        let time = line("%t");
        assert!(
            time.starts_with('[') && time.contains("/1970:") && time.ends_with(']'),
            "{time}"
        );
        let front = format!("192.0.2.7 - - {time} \"GET /x?y=1 HTTP/1.1\" 200 12");
        assert_eq!(line("common"), front);
        let combined = format!("{front} \"-\" \"a\\\"b\" k3x9m2p703000000ff");
        assert_eq!(line("combined"), combined);
        assert_eq!(line("vhost-combined"), format!("one.example:80 {combined}"));
    }

    #[test]
    fn a_json_line_is_one_object() {
        let fields: [(HeaderName, &[u8]); 1] = [(header::USER_AGENT, "quote \" tab\té".as_bytes())];
        assert_eq!(
            written("json", &fields, |_| {}),
            concat!(
                r#"{"time":"1970-01-01T00:01:01.002Z","id":"k3x9m2p703000000ff","client":"192.0.2.7","host":null,"#,
                r#""method":"GET","target":"/x?y=1","protocol":"HTTP/1.1","status":200,"body_bytes":12,"cut":false,"#,
                r#""duration_us":1001500,"referer":null,"agent":"quote \" tab\u0009é"}"#
            )
        );
    }

    #[test]
    fn json_strings_are_utf_8_without_control_characters() {
        let fields: [(HeaderName, &[u8]); 2] = [
            (header::HOST, b"a\xc2\x85b\xc2\xa0c\\"),
            (header::REFERER, b"\xff\xc3\xa9\xc2"),
        ];
        let line = written("json", &fields, |line| {
            (line.request.method, line.client_name) = ("\x7f\u{1b}\n", Some("a.example"));
        });
        for part in [
            "\"client\":\"192.0.2.7\",\"client_name\":\"a.example\",\"host\":\"a\\u0085b\u{a0}c\\\\\",",
            "\"method\":\"\\u007f\\u001b\\u000a\",",
            "\"referer\":\"\u{fffd}é\u{fffd}\",",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    proptest! {
        /// Whatever a client or a script sends, a line has one newline and no other control character, and quoted values cannot end their quotes.
        #[test]
        fn input_cannot_break_a_line(
            agent in proptest::collection::vec(any::<u8>(), 0..40),
            raw in proptest::collection::vec(any::<u8>(), 0..40),
            site in ".{0,10}",
            format in prop_oneof![Just("combined"), Just("json"), Just("\"%{User-Agent}i\"%f%v%V%{Host}o%{%n%t}t%m%U%q")],
        ) {
            let agent: Vec<u8> = agent.into_iter().filter(|byte| HeaderValue::from_bytes(&[*byte]).is_ok()).collect();
            let head = head(&[(header::USER_AGENT, &agent), (header::HOST, &agent)]);
            let format = LogFormat::parse(format).unwrap();
            let (request, response) = (
                RequestFields::of(&format.request_fields, &head),
                ResponseFields::of(&format.response_fields, &head),
            );
            let uri = Uri::from_static("/x?y=1");
            let mut line = line(&uri, &request, &response);
            let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&raw[..]);
            line.file = Some(Path::new(path));
            let method = String::from_utf8_lossy(&raw);
            line.request.method = &method;
            let mut out = Vec::new();
            write(&mut out, &format, &site, &line);
            prop_assert_eq!(out.pop(), Some(b'\n'));
            let text = String::from_utf8(out).unwrap();
            prop_assert!(!text.contains(char::is_control), "{:?}", text);
            if let Some(quoted) = text.strip_prefix("\"") {
                let inner = quoted.replace("\\\\", "").replace("\\\"", "");
                prop_assert_eq!(inner.matches('"').count(), 1, "{:?}", text);
            }
        }
    }
}
