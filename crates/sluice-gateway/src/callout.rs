//! Callouts: requests that a script makes to the server in the middle of its response, and the answer line.
//!
//! `scanner` finds the lines; the server acts on them. The keywords are WASD's, except FAILED; BUFFER-BEGIN also offers a ring besides WASD's plain buffer.

use std::borrow::Cow;
use std::time::Duration;

use crate::agent::AgentLine;
use crate::output::{CALLOUT_BYTES_MAX, CALLOUT_LINE_BYTES_MAX, Output, OutputFault};
use crate::request_record::{RequestEncoding, RequestWish};
use crate::script_control::ScriptControl;
use crate::time_span::{decimal, time_span};

/// Bytes in a memory buffer when the script names no size: one mebibyte, WASD's unit.
pub const BUFFER_BYTES_DEFAULT: u64 = 1 << 20;

const UNKNOWN: &str = "unknown callout";
const WISHES: &str = "CGIPLUS wants struct or record, socket, or both, separated by a blank";

/// One parsed callout line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalloutRequest {
    /// Whether the script will read an answer; it will not when its line begins with `!` or `#`.
    pub wants_answer: bool,
    /// The request itself.
    pub request: Callout,
}

/// A callout's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callout {
    /// Does nothing; the server answers 200 (`NOOP`).
    Noop,
    /// Asks for the file that this URL path maps to (`MAP-PATH`). Begins with `/`.
    MapPath(String),
    /// Asks for the URL path that maps to this file (`MAP-FILE`).
    MapFile(String),
    /// Sets how long this process may be idle before the server retires it; `None`: without limit (`LIFETIME`).
    Lifetime(Option<Duration>),
    /// Says how requests come, from the next one on (`CGIPLUS`).
    Cgiplus(RequestWish),
    /// Writes a line to the server's log; free of control characters (`NOTICED`, `OPCOM`).
    Noticed(String),
    /// Writes a line to the trace of this request; free of control characters (`WATCH`).
    Watch(String),
    /// Says that the script has failed: its reply must not be taken for a complete one (`FAILED`). The text is the reason, free of control characters.
    Failed(String),
    /// Asks for the status of the response so far (`HTTP-STATUS`).
    HttpStatus,
    /// Sets what the reply's `Script-Control` field can set, at any time (`SCRIPT-CONTROL`).
    ScriptControl(ScriptControl),
    /// Opens a memory buffer (`BUFFER-BEGIN`).
    BufferBegin {
        /// Bytes requested; `None`: [`BUFFER_BYTES_DEFAULT`].
        bytes: Option<u64>,
        /// How script and server share the buffer.
        kind: BufferKind,
    },
    /// Sends a part of a plain memory buffer (`BUFFER-WRITE`).
    BufferWrite(BufferPart),
    /// Ends the memory buffer; the server answers when all of it has been sent (`BUFFER-END`).
    BufferEnd,
    /// Inserts bytes from the region that the request announced into the output, at this place (`BUFFER-REGION`). `None` if they are
    /// not named by decimal numbers: then it is not known which bytes are missing in the reply, so it fails as with numbers that no region has.
    BufferRegion(Option<BufferPart>),
    /// Asks for an answer when these bytes of the region were sent, and may be filled again (`BUFFER-FREE`).
    BufferFree(BufferPart),
    /// The answer of an authentication agent; for other scripts it is an unknown callout.
    Agent(AgentLine),
    /// The line is not a valid callout: the script's fault. The server answers 400 and `reason`; the response goes on.
    Invalid {
        /// The mistake, and what to write instead.
        reason: String,
    },
}

impl Callout {
    /// Whether it is about the memory buffer.
    pub fn is_of_buffer(&self) -> bool {
        matches!(
            self,
            Callout::BufferBegin { .. } | Callout::BufferWrite(_) | Callout::BufferEnd
        )
    }
}

/// Bytes of a plain memory buffer, or of the output region that the request announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPart {
    /// How many.
    pub bytes: u64,
    /// The first, bytes from the start.
    pub offset: u64,
}

/// How script and server share a memory buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// By turns: the script fills a part, BUFFER-WRITE sends it.
    Plain,
    /// At the same time: a ring with a control page. Writing needs no callout.
    Ring,
}

/// Parses one callout line, without its newline; an invalid one becomes [`Callout::Invalid`].
pub fn parse_callout(line: &[u8]) -> CalloutRequest {
    let (is_unwanted, line) = without_mark(line.trim_ascii());
    let wants_answer = !is_unwanted;
    let request = match AgentLine::parse(line) {
        Some(line) => Callout::Agent(line),
        None => parse_request(line).unwrap_or_else(|reason| Callout::Invalid { reason }),
    };
    CalloutRequest { wants_answer, request }
}

pub(crate) fn is_known(line: &[u8]) -> bool {
    let line = without_mark(line.trim_ascii()).1;
    (is_failed(line) || str::from_utf8(line).is_ok())
        && !matches!(parse_request(line), Err(reason) if reason == UNKNOWN)
}

/// Whether a line says that its answer is not wanted, and the line without that mark.
pub(crate) fn without_mark(line: &[u8]) -> (bool, &[u8]) {
    match line {
        [b'!' | b'#', rest @ ..] => (true, rest),
        _ => (false, line),
    }
}

fn parse_request(line: &[u8]) -> Result<Callout, String> {
    let line = match str::from_utf8(line) {
        Ok(line) => Cow::Borrowed(line),
        // A failure counts whatever its text.
        Err(_) if is_failed(line) => String::from_utf8_lossy(line),
        Err(_) => return Err("a callout is written in UTF-8".to_string()),
    };
    let line = line.as_ref();
    let (keyword, parameters) = line.split_once(':').unwrap_or((line, ""));
    let parameters = parameters.trim();
    match keyword.trim().to_ascii_uppercase().as_str() {
        "NOOP" => Ok(Callout::Noop),
        "MAP-PATH" if parameters.starts_with('/') => Ok(Callout::MapPath(parameters.to_string())),
        "MAP-PATH" => Err("MAP-PATH wants a path that begins with /".to_string()),
        "MAP-FILE" if parameters.is_empty() => Err("MAP-FILE wants a file".to_string()),
        "MAP-FILE" => Ok(Callout::MapFile(parameters.to_string())),
        "LIFETIME" => match time_span(parameters) {
            Some(time) => Ok(Callout::Lifetime(time)),
            None => Err("LIFETIME wants minutes, 10s, 5m, 2h, hh:mm:ss or none".to_string()),
        },
        "CGIPLUS" => request_wish(parameters).map(Callout::Cgiplus),
        "NOTICED" | "OPCOM" => Ok(Callout::Noticed(without_controls(parameters))),
        "WATCH" => Ok(Callout::Watch(without_controls(parameters))),
        "FAILED" => Ok(Callout::Failed(without_controls(parameters))),
        "HTTP-STATUS" => Ok(Callout::HttpStatus),
        "SCRIPT-CONTROL" => script_control(parameters).map(Callout::ScriptControl),
        "BUFFER-BEGIN" => buffer_begin(parameters),
        "BUFFER-WRITE" => wanted_part("BUFFER-WRITE", parameters).map(Callout::BufferWrite),
        "BUFFER-END" => Ok(Callout::BufferEnd),
        "BUFFER-REGION" => Ok(Callout::BufferRegion(part(parameters))),
        "BUFFER-FREE" => wanted_part("BUFFER-FREE", parameters).map(Callout::BufferFree),
        _ => Err(UNKNOWN.to_string()),
    }
}

fn is_failed(line: &[u8]) -> bool {
    let keyword = line.split(|byte| *byte == b':').next().unwrap_or(line);
    keyword.trim_ascii().eq_ignore_ascii_case(b"FAILED")
}

fn request_wish(text: &str) -> Result<RequestWish, String> {
    let mut wish = RequestWish::default();
    for word in text.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "struct" if wish.encoding.is_none() => wish.encoding = Some(RequestEncoding::Struct),
            "record" if wish.encoding.is_none() => wish.encoding = Some(RequestEncoding::Record),
            "socket" if !wish.by_socket => wish.by_socket = true,
            _ => return Err(WISHES.to_string()),
        }
    }
    match wish == RequestWish::default() {
        true => Err(WISHES.to_string()),
        false => Ok(wish),
    }
}

/// Unknown directives are in [`ScriptControl::ignored`].
fn script_control(text: &str) -> Result<ScriptControl, String> {
    if text.trim_matches([';', ' ']).is_empty() {
        return Err("SCRIPT-CONTROL wants directives such as X-record-mode or X-lifetime=10".to_string());
    }
    Ok(ScriptControl::parse(text))
}

/// `[<size>] [ring]`.
fn buffer_begin(text: &str) -> Result<Callout, String> {
    let mut bytes = None;
    let mut kind = BufferKind::Plain;
    for (position, word) in text.split_ascii_whitespace().enumerate() {
        if word.eq_ignore_ascii_case("ring") && kind == BufferKind::Plain {
            kind = BufferKind::Ring;
        } else if position == 0 {
            bytes =
                Some(size(word).ok_or_else(|| format!("{} is no size: write 4 (MiB), 512k, 4M or 1G", quote(word)))?);
        } else {
            return Err(format!(
                "{} is not understood: BUFFER-BEGIN wants [size] [ring]",
                quote(word)
            ));
        }
    }
    Ok(Callout::BufferBegin { bytes: bytes.filter(|bytes| *bytes > 0), kind })
}

fn wanted_part(keyword: &str, text: &str) -> Result<BufferPart, String> {
    part(text).ok_or_else(|| format!("{keyword} wants decimal numbers: bytes [offset]"))
}

/// `<bytes> [<offset>]`.
fn part(text: &str) -> Option<BufferPart> {
    let mut words = text.split_ascii_whitespace();
    let bytes = words.next().and_then(decimal)?;
    let offset = words.next().map_or(Some(0), decimal)?;
    words.next().is_none().then_some(BufferPart { bytes, offset })
}

/// Parses a size in mebibytes, or in the unit that follows (`k`, `M`, `G`, also `KiB`, `MB` …; powers of 1024), to bytes.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit_bytes: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 1 << 10,
        "" | "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    decimal(digits)?.checked_mul(unit_bytes)
}

fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A word that the script wrote, shortened for an answer.
fn quote(word: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    let mut short: String = word.chars().take(CHARACTERS_MAX).collect();
    if short.len() < word.len() {
        short.push('…');
    }
    short
}

/// The answer to a callout: three digits, a space, a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200: success, the text is the result. 4xx: the script's fault. 5xx: the server's fault.
    pub code: u16,
    /// The result, or the reason of the failure.
    pub text: String,
}

impl Answer {
    /// An answer with this code, 0 to 999.
    pub fn new(code: u16, text: impl Into<String>) -> Answer {
        Answer { code, text: text.into() }
    }

    /// A successful answer: 200 and the result.
    pub fn ok(text: impl Into<String>) -> Answer {
        Answer::new(200, text)
    }

    /// The line for CGIPLUSIN, newline included. Control characters in the text become spaces, so it is always one line.
    pub fn encode(&self) -> Vec<u8> {
        format!("{:03} {}\n", self.code, without_controls(&self.text)).into_bytes()
    }
}

/// The lines of an open callout, assembled from chunks and limited in length.
#[derive(Debug, Default)]
pub(crate) struct CalloutLines {
    /// The current line as far as it has arrived.
    line: Vec<u8>,
    /// The line before it.
    last: Vec<u8>,
    /// Bytes in the lines before it, newlines included.
    complete_bytes: usize,
}

impl CalloutLines {
    pub(crate) fn extend(&mut self, text: &[u8]) {
        self.line.extend_from_slice(text);
    }

    pub(crate) fn is_at_line_start(&self) -> bool {
        self.line.is_empty()
    }

    /// Ends the current line and parses it; `None` if it is blank.
    pub(crate) fn complete(&mut self) -> Option<Output> {
        self.complete_bytes += self.line.len() + 1;
        let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let output = (!text.trim_ascii().is_empty()).then(|| Output::Callout(parse_callout(text)));
        std::mem::swap(&mut self.line, &mut self.last);
        self.line.clear();
        output
    }

    /// The last complete line, as the script has written it.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// The error when the line or the callout is too long.
    pub(crate) fn excess(&self) -> Option<OutputFault> {
        if self.line.len() > CALLOUT_LINE_BYTES_MAX {
            return Some(OutputFault::CalloutLineTooLong);
        }
        (self.complete_bytes + self.line.len() > CALLOUT_BYTES_MAX).then_some(OutputFault::CalloutTooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_control::BodyMode;
    use proptest::prelude::*;

    fn request(line: &str) -> Callout {
        parse_callout(line.as_bytes()).request
    }

    fn reason(line: &str) -> String {
        match request(line) {
            Callout::Invalid { reason } => reason,
            other => panic!("{line} was accepted: {other:?}"),
        }
    }

    #[test]
    fn keywords_are_case_insensitive() {
        assert_eq!(request("noop:"), Callout::Noop);
        assert_eq!(request("Noop"), Callout::Noop);
        assert_eq!(request("map-PATH: /a b:c "), Callout::MapPath("/a b:c".to_string()));
        assert_eq!(request("MAP-FILE:/srv/x"), Callout::MapFile("/srv/x".to_string()));
        assert_eq!(request("HTTP-STATUS:"), Callout::HttpStatus);
        assert_eq!(request("BUFFER-END:"), Callout::BufferEnd);
    }

    #[test]
    fn a_failure_counts_whatever_its_text() {
        assert_eq!(request("!FAILED: a: b\tc "), Callout::Failed("a: b c".to_string()));
        assert_eq!(request("failed"), Callout::Failed(String::new()));
        let latin = parse_callout(b"!FAILED: caf\xe9").request;
        assert_eq!(latin, Callout::Failed("caf\u{fffd}".to_string()));
        assert!(is_known(b"!FAILED: caf\xe9"));
    }

    #[test]
    fn exclamation_mark_and_hash_suppress_the_answer() {
        assert!(parse_callout(b"NOOP:").wants_answer);
        for line in ["!CGIPLUS: struct", "#CGIPLUS: struct"] {
            let parsed = parse_callout(line.as_bytes());
            assert!(!parsed.wants_answer);
            let encoding = Some(RequestEncoding::Struct);
            let by_socket = false;
            assert_eq!(parsed.request, Callout::Cgiplus(RequestWish { encoding, by_socket }));
        }
    }

    #[test]
    fn an_unknown_callout_is_answered_400() {
        assert_eq!(reason("FROBNICATE: 1"), "unknown callout");
        assert_eq!(reason(""), "unknown callout");
        assert!(reason("MAP-PATH: relative").contains("begins with /"));
        assert!(matches!(
            parse_callout(b"NOTICED: \xff").request,
            Callout::Invalid { .. }
        ));
    }

    #[test]
    fn lifetimes_are_minutes_unless_a_unit_says_otherwise() {
        let idle = |seconds| Callout::Lifetime(Some(Duration::from_secs(seconds)));
        assert_eq!(request("LIFETIME: 5"), idle(300));
        assert_eq!(request("LIFETIME: 10s"), idle(10));
        assert_eq!(request("LIFETIME: 5m"), idle(300));
        assert_eq!(request("LIFETIME: 2h"), idle(7200));
        assert_eq!(request("LIFETIME: 01:02:03"), idle(3723));
        assert_eq!(request("LIFETIME: 01:30"), idle(5400));
        assert_eq!(request("LIFETIME: None"), Callout::Lifetime(None));
        for bad in [
            "",
            "-1",
            "1d",
            "s",
            "1:60:00",
            "1:2:3:4",
            "99999999999999999999",
            "99999999999999999h",
        ] {
            assert!(reason(&format!("LIFETIME: {bad}")).contains("hh:mm:ss"), "{bad}");
        }
    }

    #[test]
    fn buffer_sizes_are_mebibytes_unless_a_unit_says_otherwise() {
        let begin = |bytes, kind| Callout::BufferBegin { bytes, kind };
        let plain = |bytes| begin(Some(bytes), BufferKind::Plain);
        assert_eq!(request("BUFFER-BEGIN:"), begin(None, BufferKind::Plain));
        assert_eq!(request("BUFFER-BEGIN: 0"), begin(None, BufferKind::Plain));
        assert_eq!(request("BUFFER-BEGIN: 4"), plain(4 << 20));
        assert_eq!(request("BUFFER-BEGIN: 512k"), plain(512 << 10));
        assert_eq!(request("BUFFER-BEGIN: 512KiB"), plain(512 << 10));
        assert_eq!(request("BUFFER-BEGIN: 1G"), plain(1 << 30));
        assert_eq!(request("BUFFER-BEGIN: 4M ring"), begin(Some(4 << 20), BufferKind::Ring));
        assert_eq!(request("BUFFER-BEGIN: ring"), begin(None, BufferKind::Ring));
        for bad in [
            "-1",
            "+1",
            "4 4",
            "4 ring ring",
            "ring 4",
            "1T",
            "k",
            "18446744073709551615G",
            "1é",
        ] {
            reason(&format!("BUFFER-BEGIN: {bad}"));
        }
    }

    #[test]
    fn parts_have_bytes_and_an_offset() {
        let part = |bytes, offset| BufferPart { bytes, offset };
        assert_eq!(request("BUFFER-WRITE: 100"), Callout::BufferWrite(part(100, 0)));
        assert_eq!(request("BUFFER-WRITE: 100 4096"), Callout::BufferWrite(part(100, 4096)));
        assert_eq!(request("BUFFER-REGION: 100"), Callout::BufferRegion(Some(part(100, 0))));
        assert_eq!(
            request("BUFFER-REGION: 100 4096"),
            Callout::BufferRegion(Some(part(100, 4096)))
        );
        assert_eq!(request("BUFFER-FREE: 100 4096"), Callout::BufferFree(part(100, 4096)));
        for bad in ["", "x", "1 x", "1 2 3", "-1", "0x10"] {
            assert_eq!(request(&format!("BUFFER-REGION: {bad}")), Callout::BufferRegion(None));
            for keyword in ["BUFFER-WRITE", "BUFFER-FREE"] {
                assert!(reason(&format!("{keyword}: {bad}")).starts_with(keyword));
            }
        }
    }

    #[test]
    fn script_control_has_directives() {
        let Callout::ScriptControl(control) = request("SCRIPT-CONTROL: X-stream-mode; X-nonsense") else {
            panic!("not understood")
        };
        assert_eq!(control.body_mode, Some(BodyMode::Stream));
        assert_eq!(control.ignored, ["X-nonsense".into()]);
        for none in ["SCRIPT-CONTROL:", "SCRIPT-CONTROL: ;"] {
            assert!(reason(none).contains("X-record-mode"));
        }
    }

    #[test]
    fn texts_for_the_log_have_no_control_characters() {
        assert_eq!(
            request("NOTICED: a\x1b[31mb\tc"),
            Callout::Noticed("a [31mb c".to_string())
        );
        assert_eq!(request("OPCOM: x"), Callout::Noticed("x".to_string()));
        assert_eq!(request("WATCH: [M:0001] x"), Callout::Watch("[M:0001] x".to_string()));
    }

    #[test]
    fn an_answer_is_one_line() {
        assert_eq!(Answer::ok("/srv/a\nb\r").encode(), b"200 /srv/a b \n");
        assert_eq!(Answer::new(0, "").encode(), b"000 \n");
    }

    #[test]
    fn a_line_comes_out_without_its_carriage_return() {
        let mut lines = CalloutLines::default();
        lines.extend(b"NO");
        lines.extend(b"OP:\r");
        assert_eq!(lines.complete(), Some(Output::Callout(parse_callout(b"NOOP:"))));
        assert!(lines.is_at_line_start());
        assert_eq!(lines.last(), b"NOOP:\r");
    }

    #[test]
    fn blank_lines_are_ignored_but_counted() {
        let mut lines = CalloutLines::default();
        for _ in 0..CALLOUT_BYTES_MAX {
            assert_eq!(lines.complete(), None);
            assert_eq!(lines.excess(), None);
        }
        assert_eq!(lines.complete(), None);
        assert_eq!(lines.excess(), Some(OutputFault::CalloutTooLong));
    }

    proptest! {
        #[test]
        fn any_line_is_answered_with_one_line(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Callout::Invalid { reason } = parse_callout(&line).request {
                let answer = Answer::new(400, reason).encode();
                prop_assert_eq!(answer.iter().filter(|byte| **byte == b'\n').count(), 1);
            }
        }

        #[test]
        fn any_parameters_are_parsed_without_panic(
            keyword in prop::sample::select(vec!["LIFETIME", "BUFFER-BEGIN", "BUFFER-WRITE", "SCRIPT-CONTROL", "NOTICED"]),
            parameters in "\\PC{0,40}",
        ) {
            let request = parse_callout(format!("{keyword}: {parameters}").as_bytes()).request;
            if let Callout::Noticed(text) = request {
                prop_assert!(!text.chars().any(char::is_control));
            }
        }
    }
}
