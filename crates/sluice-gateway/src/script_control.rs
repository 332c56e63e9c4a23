//! `Script-Control`: what a script asks of the server besides its reply, as directives of WASD, in the field of that name or in the callout.
//!
//! Here: their syntax, `name`, `name=value` or `name="value"`, separated by `;`. WASD's manual names the directives; a few are accepted
//! without effect, because Sluice frames every response as its protocol requires.

use std::time::Duration;

use http::StatusCode;

use crate::reply::status_code;
use crate::time_span::time_span;

/// Ignored directives that are remembered of one field or callout, for the log.
const IGNORED_MAX: usize = 8;

const IGNORED_CHARACTERS_MAX: usize = 60;

/// The directives of one reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptControl {
    /// The treatment of records; `None`: the content type decides.
    pub body_mode: Option<BodyMode>,
    /// Whether output is collected and sent in blocks (`X-buffer-records`).
    pub buffers_records: Option<bool>,
    /// The status if there is no `Status` field (`X-http-status`).
    pub http_status: Option<StatusCode>,
    /// Whether the body is compressed for clients that accept it (`X-content-encoding-gzip`).
    pub compresses: Option<bool>,
    /// How long the process may be idle; `Some(None)`: without limit (`X-lifetime`).
    pub lifetime: Option<Option<Duration>>,
    /// How long the rest of the exchange may take (`X-timeout-output`).
    pub output_limit: Option<Option<Duration>>,
    /// How long the script may be silent (`X-timeout-noprogress`, `no-abort`).
    pub silence_limit: Option<Option<Duration>>,
    /// An error page is wanted instead of a body.
    pub error: Option<Box<ErrorRequest>>,
    /// Directives that have no effect, because they are unknown or their values are invalid; at most eight.
    pub ignored: Vec<Box<str>>,
}

/// The treatment of the records of a record mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMode {
    /// Records are bytes of a stream, sent unchanged (`X-stream-mode`).
    Stream,
    /// Records are lines and get a missing newline (`X-record-mode`, `X-record0-mode`, `X-lf-mode`).
    Record,
    /// Records are lines that end with CR and LF (`X-crlf-mode`).
    Crlf,
}

/// A request for the server's error page (`X-error-…`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorRequest {
    /// A text for the visitor (`X-error-text`).
    pub text: Option<Box<str>>,
    /// The part of the script that found the error (`X-error-module`).
    pub module: Option<Box<str>>,
    /// The line of that part (`X-error-line`).
    pub line: Option<u32>,
    /// An OpenVMS status (`X-error-vms-status`).
    pub vms_status: Option<u32>,
    /// The subject of the status, such as a file (`X-error-vms-text`).
    pub vms_text: Option<Box<str>>,
}

impl ScriptControl {
    /// Parses directives separated by `;`. The unknown and invalid ones are in `ignored`.
    pub fn parse(directives: &str) -> ScriptControl {
        let mut control = ScriptControl::default();
        for directive in split(directives) {
            let directive = directive.trim();
            if !directive.is_empty() && control.set(directive).is_none() {
                control.ignore(directive);
            }
        }
        control
    }

    /// Sets what one directive says. `None` if it is unknown or its value invalid.
    fn set(&mut self, directive: &str) -> Option<()> {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let value = unquoted(value.trim());
        match name.trim().to_ascii_lowercase().as_str() {
            "x-stream-mode" => self.body_mode = Some(BodyMode::Stream),
            "x-record-mode" | "x-record0-mode" | "x-lf-mode" => self.body_mode = Some(BodyMode::Record),
            "x-crlf-mode" => self.body_mode = Some(BodyMode::Crlf),
            "x-buffer-records" => self.buffers_records = Some(flag(&value)?),
            "x-http-status" => self.http_status = Some(status_code(value.as_bytes())?),
            "x-content-encoding-gzip" => self.compresses = Some(flag(&value)?),
            "x-lifetime" => self.lifetime = Some(time_span(&value)?),
            "x-timeout-output" => self.output_limit = Some(time_span(&value)?),
            "x-timeout-noprogress" => self.silence_limit = Some(time_span(&value)?),
            "no-abort" | "x-no-abort" => self.silence_limit = Some(None),
            // The server frames the body; there is nothing to choose.
            "x-transfer-encoding-chunked" => {
                flag(&value)?;
            }
            "x-error-text" => self.error().text = Some(value.into()),
            "x-error-module" => self.error().module = Some(value.into()),
            "x-error-line" => self.error().line = Some(value.parse().ok()?),
            "x-error-vms-status" => self.error().vms_status = Some(vms_status(&value)?),
            "x-error-vms-text" => self.error().vms_text = Some(value.into()),
            _ => return None,
        }
        Some(())
    }

    fn error(&mut self) -> &mut ErrorRequest {
        self.error.get_or_insert_default()
    }

    fn ignore(&mut self, directive: &str) {
        if self.ignored.len() < IGNORED_MAX {
            let short: String = directive.chars().take(IGNORED_CHARACTERS_MAX).collect();
            self.ignored.push(short.into());
        }
    }

    /// The directives of both; `later` takes precedence.
    #[must_use]
    pub fn overridden_by(self, later: ScriptControl) -> ScriptControl {
        let mut ignored = self.ignored;
        ignored.extend(later.ignored);
        ignored.truncate(IGNORED_MAX);
        ScriptControl {
            body_mode: later.body_mode.or(self.body_mode),
            buffers_records: later.buffers_records.or(self.buffers_records),
            http_status: later.http_status.or(self.http_status),
            compresses: later.compresses.or(self.compresses),
            lifetime: later.lifetime.or(self.lifetime),
            output_limit: later.output_limit.or(self.output_limit),
            silence_limit: later.silence_limit.or(self.silence_limit),
            error: later.error.or(self.error),
            ignored,
        }
    }

    /// Whether no directive has an effect.
    pub fn is_empty(&self) -> bool {
        // Not a comparison with the default, which each reply would pay for.
        let ScriptControl {
            body_mode,
            buffers_records,
            http_status,
            compresses,
            lifetime,
            output_limit,
            silence_limit,
            error,
            ignored: _,
        } = self;
        body_mode.is_none()
            && buffers_records.is_none()
            && http_status.is_none()
            && compresses.is_none()
            && lifetime.is_none()
            && output_limit.is_none()
            && silence_limit.is_none()
            && error.is_none()
    }
}

impl ErrorRequest {
    /// The status of the page if the script names none: by the OpenVMS status, otherwise 500.
    pub fn default_status(&self) -> StatusCode {
        /// SS$_NOSUCHFILE, RMS$_FNF, RMS$_DNF, without their severity.
        const NOT_FOUND: [u32; 3] = [0x910, 0x18290, 0x1C048];
        /// SS$_NOPRIV, RMS$_PRV, without their severity.
        const FORBIDDEN: [u32; 2] = [0x20, 0x18298];
        match self.vms_status.map(|status| status & !7) {
            Some(status) if NOT_FOUND.contains(&status) => StatusCode::NOT_FOUND,
            Some(status) if FORBIDDEN.contains(&status) => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Where the script met the error and what the system said, for the log: `module UPLOAD line 12, %X00000024 a.txt`.
    pub fn origin(&self) -> String {
        let place = match (&self.module, self.line) {
            (Some(module), Some(line)) => Some(format!("module {module} line {line}")),
            (Some(module), None) => Some(format!("module {module}")),
            (None, line) => line.map(|line| format!("line {line}")),
        };
        let system = match (self.vms_status, &self.vms_text) {
            (Some(status), Some(text)) => Some(format!("%X{status:08X} {text}")),
            (Some(status), None) => Some(format!("%X{status:08X}")),
            (None, text) => text.as_deref().map(str::to_owned),
        };
        let parts: Vec<String> = place.into_iter().chain(system).collect();
        parts.join(", ")
    }
}

/// The directives between the semicolons that are not in quotes.
fn split(directives: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    directives.split(move |character: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match character {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            ';' => return !is_quoted,
            _ => {}
        }
        false
    })
}

/// The text of a value; in quotes, `\` precedes a quote or itself.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else {
        return value.to_owned();
    };
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            _ => text.push(character),
        }
    }
    text
}

fn flag(value: &str) -> Option<bool> {
    match value {
        "" | "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// A number, or hexadecimal digits after `%X`.
fn vms_status(value: &str) -> Option<u32> {
    match value.get(..2) {
        Some("%X" | "%x" | "0x" | "0X") => u32::from_str_radix(&value[2..], 16).ok(),
        _ => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_counts() {
        assert!(ScriptControl::default().is_empty() && ScriptControl::parse("unknown").is_empty());
        for text in [
            "x-stream-mode",
            "x-buffer-records=1",
            "x-http-status=404",
            "x-content-encoding-gzip=0",
            "x-lifetime=10",
            "x-timeout-output=10",
            "x-timeout-noprogress=10",
            "x-error-text=a",
        ] {
            assert!(!ScriptControl::parse(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn directives_are_separated_by_semicolons_and_case_insensitive() {
        let control = ScriptControl::parse("no-abort; X-Stream-Mode ;X-http-status=418;; x-buffer-records=0");
        assert_eq!(control.body_mode, Some(BodyMode::Stream));
        assert_eq!(control.http_status.unwrap().as_u16(), 418);
        assert_eq!(
            (control.silence_limit, control.buffers_records),
            (Some(None), Some(false))
        );
        assert!(control.ignored.is_empty());
        assert!(ScriptControl::parse(" ; ").is_empty());
    }

    #[test]
    fn times_are_minutes_unless_a_unit_says_otherwise() {
        let control = ScriptControl::parse("X-lifetime=5; X-timeout-output=30s; X-timeout-noprogress=none");
        assert_eq!(control.lifetime, Some(Some(Duration::from_secs(300))));
        assert_eq!(control.output_limit, Some(Some(Duration::from_secs(30))));
        assert_eq!(control.silence_limit, Some(None));
    }

    #[test]
    fn an_error_has_a_text_in_quotes_and_an_origin() {
        let control = ScriptControl::parse(
            r#"X-error-text="No; \"such\" file"; X-error-module=UPLOAD; X-error-line=12; X-error-vms-status=%X00000910; X-error-vms-text=a.txt"#,
        );
        let error = control.error.unwrap();
        assert_eq!(error.text.as_deref(), Some("No; \"such\" file"));
        assert_eq!(error.default_status(), StatusCode::NOT_FOUND);
        assert_eq!(error.origin(), "module UPLOAD line 12, %X00000910 a.txt");
        assert_eq!(ErrorRequest::default().origin(), "");
    }

    #[test]
    fn unknown_and_invalid_directives_are_named() {
        let control = ScriptControl::parse(
            "X-foo=1; X-lifetime=soon; X-http-status=20; X-content-handler=SSI; x-buffer-records=maybe",
        );
        let expected = [
            "X-foo=1",
            "X-lifetime=soon",
            "X-http-status=20",
            "X-content-handler=SSI",
            "x-buffer-records=maybe",
        ];
        assert_eq!(control.ignored.iter().map(|name| &**name).collect::<Vec<_>>(), expected);
        assert!(control.is_empty());
        let many = ScriptControl::parse(&"x;".repeat(100));
        assert_eq!(many.ignored.len(), IGNORED_MAX);
    }

    #[test]
    fn the_later_of_two_directives_counts() {
        let earlier = ScriptControl::parse("X-record-mode; X-lifetime=1");
        let both = earlier.overridden_by(ScriptControl::parse("X-stream-mode; X-http-status=404"));
        assert_eq!(both.body_mode, Some(BodyMode::Stream));
        assert_eq!(both.http_status.unwrap().as_u16(), 404);
        assert_eq!(both.lifetime, Some(Some(Duration::from_secs(60))));
    }
}
