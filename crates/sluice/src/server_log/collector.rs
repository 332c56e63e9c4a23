//! From an event to the body of a line: the message, then its fields as `key=value` or as members of a JSON object.
//!
//! Every deceptive character is escaped: a line is one line, and further lines of a record begin with `CONTINUATION`, whatever a client, a script or a file name contributed to it. The
//! module that logs is shown at level debug only. Lines that a script or its author caused begin with the category `script` or
//! `watch`, so that no script can imitate a message of the server.

use std::cell::Cell;
use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use sluice_http::escape::Escaping;
use sluice_log::write_json_text;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::queue::{Body, Line, Queue};
use super::style::Style;

const MESSAGE: &str = "message";

/// The field of tracing that holds further lines of a message, separated by newlines. No text of a script or client is its name.
const CONTINUED: &str = "continued";

/// The beginning of a line that continues a record: no record begins like it, so that no script can imitate one.
const CONTINUATION: &str = "\n    | ";

thread_local! {
    /// Whether this is the log's own thread. Its events are failures of the log's file, which cannot hold them.
    static IS_WRITER: Cell<bool> = const { Cell::new(false) };
}

pub(super) struct Collector {
    pub(super) queue: Arc<Queue>,
    pub(super) is_json: Arc<AtomicBool>,
}

impl<S: Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = Line {
            time: SystemTime::now(),
            level: *event.metadata().level(),
            body: match self.is_json.load(Ordering::Relaxed) {
                true => Body::Json(json(event)),
                false => Body::Text(text(event)),
            },
        };
        match IS_WRITER.get() {
            true => write_to_stderr(&line),
            false => self.queue.add(line),
        }
    }
}

pub(super) fn mark_writer() {
    IS_WRITER.set(true);
}

fn write_to_stderr(line: &Line) {
    let mut out = Vec::new();
    Style::of_stderr().write(&mut out, line);
    // There is no other place to report a failure.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), &out);
}

/// The prefix of a message: the category of lines of scripts; at level debug the module.
fn prefix(metadata: &'static Metadata<'static>) -> Option<&'static str> {
    match metadata.target() {
        category @ ("script" | "watch") => Some(category),
        _ if *metadata.level() >= Level::DEBUG => metadata.module_path(),
        _ => None,
    }
}

fn text(event: &Event<'_>) -> String {
    let mut fields = TextFields::default();
    event.record(&mut fields);
    let mut text = String::new();
    if let Some(prefix) = prefix(event.metadata()) {
        text = format!("{prefix}: ");
    }
    text + &fields.message + &fields.others + &fields.continued
}

/// The message and the fields of an event, escaped.
#[derive(Default)]
struct TextFields {
    message: String,
    others: String,
    continued: String,
}

impl TextFields {
    fn add(&mut self, field: &Field, value: &str) {
        let (name, has_gap) = (field.name(), |value: &str| value.contains([' ', '"', '=']));
        // Writing to a string succeeds.
        let _ = match name {
            MESSAGE => Escaping::new(&mut self.message).write_str(value),
            CONTINUED => value.split('\n').try_for_each(|line| {
                self.continued.push_str(CONTINUATION);
                Escaping::new(&mut self.continued).write_str(line)
            }),
            _ if value.is_empty() || has_gap(value) => write!(Escaping::new(&mut self.others), " {name}={value:?}"),
            _ => write!(Escaping::new(&mut self.others), " {name}={value}"),
        };
    }
}

impl Visit for TextFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE | CONTINUED => self.add(field, value),
            name => {
                let _ = write!(Escaping::new(&mut self.others), " {name}={value:?}");
            }
        }
    }
}

fn json(event: &Event<'_>) -> Vec<u8> {
    let mut fields = JsonFields::default();
    event.record(&mut fields);
    if let Some(continued) = &fields.continued {
        fields.message.extend(["\n", continued]);
    }
    let mut members = message_member(&fields.message);
    if let Some(prefix) = prefix(event.metadata()) {
        members.extend_from_slice(b",\"source\":");
        write_json_text(&mut members, prefix);
    }
    members.extend(fields.others);
    members
}

/// A message as the first member of a JSON object.
pub(super) fn message_member(message: &str) -> Vec<u8> {
    let mut members = b"\"message\":".to_vec();
    write_json_text(&mut members, message);
    members
}

/// The message of an event, and its fields as members, each with a comma before it.
#[derive(Default)]
struct JsonFields {
    message: String,
    continued: Option<String>,
    others: Vec<u8>,
}

impl JsonFields {
    fn add(&mut self, field: &Field, write: impl FnOnce(&mut Vec<u8>)) {
        self.others.push(b',');
        write_json_text(&mut self.others, field.name());
        self.others.push(b':');
        write(&mut self.others);
    }

    fn add_text(&mut self, field: &Field, text: &str) {
        match field.name() {
            MESSAGE => text.clone_into(&mut self.message),
            CONTINUED => self.continued = Some(text.to_owned()),
            _ => self.add(field, |out| write_json_text(out, text)),
        }
    }

    fn add_number(&mut self, field: &Field, number: &str) {
        self.add(field, |out| out.extend_from_slice(number.as_bytes()));
    }
}

impl Visit for JsonFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add_text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_number(field, &value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_number(field, &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add_number(field, &value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tracing_subscriber::layer::SubscriberExt;

    use super::super::queue::Item;
    use super::*;

    /// The bodies of the lines that are logged meanwhile.
    fn logged(is_json: bool, log: impl FnOnce()) -> Vec<String> {
        let queue = Arc::new(Queue::default());
        let collector = Collector {
            queue: Arc::clone(&queue),
            is_json: Arc::new(AtomicBool::new(is_json)),
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(collector), log);
        let items: VecDeque<Item> = queue.take(Some(std::time::Duration::ZERO)).items;
        let text = |item| match item {
            Item::Line(Line { body: Body::Text(text), .. }) => text,
            Item::Line(Line { body: Body::Json(members), .. }) => String::from_utf8(members).expect("UTF-8"),
            _ => panic!("not a line of this process"),
        };
        items.into_iter().map(text).collect()
    }

    #[test]
    fn the_message_comes_first_and_modules_are_shown_at_level_debug_only() {
        let lines = logged(false, || {
            tracing::info!(pid = 7, script = "/cgi-bin/a b", id = %"x", detail = %"two words", "started");
            tracing::warn!(target: "script", pid = 7, "its text");
            tracing::debug!("detail");
        });
        assert_eq!(
            lines,
            [
                "started pid=7 script=\"/cgi-bin/a b\" id=x detail=\"two words\"",
                "script: its text pid=7",
                "sluice::server_log::collector::tests: detail",
            ]
        );
    }

    #[test]
    fn messages_and_fields_are_escaped() {
        let hostile = "a\r\nb\u{202e}c\u{1b}[2J\"";
        let log = || tracing::info!(script = hostile, id = %hostile, "text {hostile}");
        let text = logged(false, log);
        assert_eq!(text[0].matches(r"a\r\nb\u{202e}c").count(), 3, "{text:?}");
        let json = logged(true, log);
        assert_eq!(
            json[0].matches(r"a\u000d\u000ab\u202ec\u001b[2J\u0022").count()
                + json[0].matches(r#"a\u000d\u000ab\u202ec\u001b[2J\""#).count(),
            3,
            "{json:?}"
        );
        for line in text.iter().chain(&json) {
            assert!(
                !line.contains(|letter: char| letter.is_control() || letter == '\u{202e}'),
                "{line:?}"
            );
        }
    }

    #[test]
    fn further_lines_of_a_record_follow_the_details_and_imitate_no_record() {
        let log = || {
            let continued = Some("  File \"a\"\n2026-01-01T00:00:00.000Z ERROR forged\r\u{1b}[2J");
            tracing::warn!(target: "script", pid = 7, continued, "Traceback");
            tracing::warn!(target: "script", pid = 7, continued = None::<&str>, "one line");
        };
        let text = logged(false, log);
        assert_eq!(
            text,
            [
                "script: Traceback pid=7\n    |   File \"a\"\n    | 2026-01-01T00:00:00.000Z ERROR forged\\r\\u{1b}[2J",
                "script: one line pid=7",
            ]
        );
        let json = logged(true, log);
        assert!(
            json[0].starts_with(r#""message":"Traceback\u000a  File"#)
                || json[0].starts_with(r#""message":"Traceback\n  File"#),
            "{json:?}"
        );
        assert!(!json[0].contains("continued") && !json[0].contains('\n'), "{json:?}");
    }

    #[test]
    fn json_has_members_of_the_right_types() {
        let lines = logged(
            true,
            || tracing::warn!(target: "script", pid = 7_u32, ready = true, site = "a", "said"),
        );
        assert_eq!(
            lines,
            [r#""message":"said","source":"script","pid":7,"ready":true,"site":"a""#]
        );
    }
}
