//! A line of the access log as one JSON object (RFC 8259), written by `serde_json` straight into the log's buffer.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http::HeaderValue;
use serde::{Serialize, Serializer};
use serde_json::ser::CharEscape;
use sluice_http::escape::is_deceptive;
use sluice_settings::log_format::TimePoint;

use crate::clock::{self, Zone};
use crate::line::{Line, protocol, seconds};

/// The members; their names and order are part of the documented format.
#[derive(Serialize)]
struct Object<'a> {
    time: Time,
    id: &'a str,
    client: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_name: Option<&'a str>,
    host: Option<Cow<'a, str>>,
    method: &'a str,
    target: &'a str,
    protocol: &'static str,
    status: u16,
    body_bytes: u64,
    cut: bool,
    duration_us: u128,
    referer: Option<Cow<'a, str>>,
    agent: Option<Cow<'a, str>>,
}

/// Appends a line without its newline.
pub(crate) fn write<'a>(out: &mut Vec<u8>, line: &'a Line<'_>) {
    // Bytes that are not UTF-8 are replaced by U+FFFD.
    let text = |value: &'a HeaderValue| String::from_utf8_lossy(value.as_bytes());
    let field = |number| line.request.fields.value(number).map(text);
    let object = Object {
        time: Time(line.time_at(TimePoint::Begin)),
        id: std::str::from_utf8(line.id).unwrap_or("-"),
        client: line.endpoints.client.ip(),
        client_name: line.client_name,
        host: field(0),
        method: line.request.method,
        target: line.target(),
        protocol: protocol(line.request.version),
        status: line.response.status,
        body_bytes: line.response.body_bytes,
        cut: line.response.is_truncated,
        duration_us: line.duration().as_micros(),
        referer: field(1),
        agent: field(2),
    };
    let mut serializer = serde_json::Serializer::with_formatter(out, DeceptiveEscaped);
    // Cannot fail: writing to a vector succeeds, and no member fails to serialize.
    let _ = object.serialize(&mut serializer);
}

/// Appends a text as a JSON string in which every deceptive character is escaped.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    let mut serializer = serde_json::Serializer::with_formatter(out, DeceptiveEscaped);
    // Cannot fail: writing to a vector succeeds, and so does the serialization of a string.
    let _ = text.serialize(&mut serializer);
}

/// A time since 1970, written in UTC with milliseconds (RFC 3339).
struct Time(Duration);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut written = Ok(());
        clock::with_text("%Y-%m-%dT%H:%M:%S", Zone::Utc, seconds(self.0), |text| {
            written = f.write_str(text);
        });
        written?;
        write!(f, ".{:03}Z", self.0.subsec_millis())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Escapes every deceptive character as `\uxxxx`. By default `serde_json` does not escape DEL, the C1 controls (U+0080 to
/// U+009F) and characters that reverse text, because JSON allows them; a terminal that shows the log would interpret them.
struct DeceptiveEscaped;

impl serde_json::ser::Formatter for DeceptiveEscaped {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.is_ascii() && memchr::memchr(0x7f, fragment.as_bytes()).is_none() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| is_deceptive(*letter)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            // JSON writes characters beyond U+FFFF as two units of UTF-16 (RFC 8259 §7).
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + letter.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        let control = match escape {
            CharEscape::Quote => return writer.write_all(b"\\\""),
            CharEscape::ReverseSolidus => return writer.write_all(b"\\\\"),
            CharEscape::Solidus => return writer.write_all(b"\\/"),
            CharEscape::Backspace => 0x08,
            CharEscape::Tab => b'\t',
            CharEscape::LineFeed => b'\n',
            CharEscape::FormFeed => 0x0c,
            CharEscape::CarriageReturn => b'\r',
            CharEscape::AsciiControl(control) => control,
        };
        write!(writer, "\\u{control:04x}")
    }
}
