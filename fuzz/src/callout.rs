//! Callouts: one line of a script in, what it asks for out.
//!
//! Properties: what was understood, written canonically, is understood the same; case, blanks around the line and the mark for
//! "no answer" change nothing else; text for a log and every answer is free of control characters.

use sluice_gateway::{
    Answer, BodyMode, BufferKind, BufferPart, Callout, RequestEncoding, ScriptControl, parse_callout,
};

/// Input: the line.
pub fn check(line: &[u8]) {
    let request = parse_callout(line);
    let marked = matches!(line.trim_ascii().first(), Some(b'!' | b'#'));
    assert_eq!(request.wants_answer, !marked);
    check_meaning(&request.request);
    if !marked {
        let silent = parse_callout(&[b"  !", line, b" \r\n"].concat());
        assert!(!silent.wants_answer);
        assert_eq!(silent.request, request.request, "the mark and blanks change nothing");
    }
    let keyword = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    // The lines of agents have texts, not parameters.
    let changes: &[fn(&mut [u8])] = match request.request {
        Callout::Agent(_) => &[],
        _ => &[<[u8]>::make_ascii_lowercase, <[u8]>::make_ascii_uppercase],
    };
    for change in changes {
        let mut line = line.to_vec();
        change(&mut line[..keyword]);
        assert_eq!(parse_callout(&line), request, "keywords are the same in any case");
    }
    if let Some(canonical) = render(&request.request) {
        assert_eq!(
            parse_callout(canonical.as_bytes()).request,
            request.request,
            "{canonical:?}"
        );
    }
}

fn check_meaning(callout: &Callout) {
    match callout {
        Callout::MapPath(path) => assert!(path.starts_with('/')),
        Callout::MapFile(file) => assert!(!file.is_empty()),
        Callout::Noticed(text) | Callout::Watch(text) | Callout::Failed(text) => {
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
        Callout::BufferBegin { bytes, .. } => assert_ne!(*bytes, Some(0)),
        Callout::Invalid { reason } => check_answer(400, reason),
        _ => {}
    }
}

/// An answer is one line: three digits, a blank, a text.
fn check_answer(code: u16, text: &str) {
    let answer = Answer::new(code, text).encode();
    let (last, line) = answer.split_last().expect("an answer is not empty");
    assert_eq!(*last, b'\n');
    assert!(line[..3].iter().all(u8::is_ascii_digit) && line[3] == b' ' && line.len() > 4);
    let line = str::from_utf8(line).expect("an answer is UTF-8");
    assert!(!line.chars().any(char::is_control), "{line:?}");
}

/// The line by which a script asks for this; `None` if no line does.
fn render(callout: &Callout) -> Option<String> {
    Some(match callout {
        Callout::Noop => "NOOP:".to_owned(),
        Callout::MapPath(path) => format!("MAP-PATH: {path}"),
        Callout::MapFile(file) => format!("MAP-FILE: {file}"),
        Callout::Lifetime(None) => "LIFETIME: none".to_owned(),
        Callout::Lifetime(Some(time)) => format!("LIFETIME: {}s", time.as_secs()),
        Callout::Cgiplus(wish) => {
            let encoding = match wish.encoding {
                None => "",
                Some(RequestEncoding::Record) => "record ",
                Some(RequestEncoding::Struct) => "struct ",
            };
            let socket = if wish.by_socket { "socket" } else { "" };
            format!("CGIPLUS: {encoding}{socket}")
        }
        // A control character at an end of the text became a blank, which would be trimmed now.
        Callout::Noticed(text) | Callout::Watch(text) | Callout::Failed(text) if text.trim() != text => return None,
        Callout::Failed(text) => format!("FAILED: {text}"),
        Callout::Noticed(text) => format!("NOTICED: {text}"),
        Callout::Watch(text) => format!("WATCH: {text}"),
        // Texts of agents are not kept as they were written.
        Callout::Agent(_) => return None,
        Callout::HttpStatus => "HTTP-STATUS:".to_owned(),
        // Ignored directives and times of fractions of an hour cannot be written.
        Callout::ScriptControl(control) if !control.ignored.is_empty() || control.is_empty() => return None,
        Callout::ScriptControl(control) => format!("SCRIPT-CONTROL: {}", directives(control)),
        Callout::BufferBegin { bytes, kind } => {
            // Only sizes with a unit can be written, and every size that was read had one.
            let size = bytes.map_or_else(String::new, |bytes| format!("{}k ", bytes >> 10));
            let ring = if *kind == BufferKind::Ring { "ring" } else { "" };
            format!("BUFFER-BEGIN: {size}{ring}")
        }
        Callout::BufferWrite(BufferPart { bytes, offset }) => format!("BUFFER-WRITE: {bytes} {offset}"),
        Callout::BufferEnd => "BUFFER-END:".to_owned(),
        Callout::BufferRegion(Some(BufferPart { bytes, offset })) => format!("BUFFER-REGION: {bytes} {offset}"),
        Callout::BufferRegion(None) => "BUFFER-REGION:".to_string(),
        Callout::BufferFree(BufferPart { bytes, offset }) => format!("BUFFER-FREE: {bytes} {offset}"),
        Callout::Invalid { .. } => return None,
    })
}

/// The value of `Script-Control` that means this, without ignored directives.
pub(crate) fn directives(control: &ScriptControl) -> String {
    let mut all = Vec::new();
    all.extend(control.body_mode.map(|mode| {
        let name = match mode {
            BodyMode::Stream => "X-stream-mode",
            BodyMode::Record => "X-record-mode",
            BodyMode::Crlf => "X-crlf-mode",
        };
        name.to_owned()
    }));
    let flag = |name: &str, is_on: Option<bool>| is_on.map(|is_on| format!("{name}={}", u8::from(is_on)));
    all.extend(flag("X-buffer-records", control.buffers_records));
    all.extend(flag("X-content-encoding-gzip", control.compresses));
    all.extend(
        control
            .http_status
            .map(|status| format!("X-http-status={}", status.as_u16())),
    );
    for (name, time) in [
        ("X-lifetime", control.lifetime),
        ("X-timeout-output", control.output_limit),
        ("X-timeout-noprogress", control.silence_limit),
    ] {
        all.extend(time.map(|time| match time {
            None => format!("{name}=none"),
            Some(time) => format!("{name}={}s", time.as_secs()),
        }));
    }
    if let Some(error) = &control.error {
        let text = |name: &str, value: &Option<Box<str>>| {
            let value = value.as_ref()?;
            Some(format!(
                "{name}=\"{}\"",
                value.replace('\\', "\\\\").replace('"', "\\\"")
            ))
        };
        all.extend(text("X-error-text", &error.text));
        all.extend(text("X-error-module", &error.module));
        all.extend(error.line.map(|line| format!("X-error-line={line}")));
        all.extend(error.vms_status.map(|status| format!("X-error-vms-status={status}")));
        all.extend(text("X-error-vms-text", &error.vms_text));
    }
    all.join(";")
}
