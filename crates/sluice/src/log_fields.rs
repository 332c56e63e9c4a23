//! The fields of a line of the server's log, with every deceptive character escaped: a line is one line, whatever a client, a script
//! or a file name contributed to it.

use std::fmt;

use sluice_http::escape::Escaping;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

/// Formats fields as tracing does by default, without colours.
#[derive(Default)]
pub(crate) struct EscapedFields(DefaultFields);

impl<'w> FormatFields<'w> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut escaping = Escaping::new(&mut writer);
        self.0.format_fields(Writer::new(&mut escaping), fields)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Collects what is written.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no other panic").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn messages_and_fields_are_escaped() {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields::default())
            .without_time()
            .with_ansi(true)
            .with_writer(move || writer.clone())
            .finish();
        let hostile = "a\r\nb\u{202e}c\u{1b}[2J";
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(script = hostile, id = %hostile, "text {hostile}");
        });
        let text = String::from_utf8(sink.0.lock().expect("no other panic").clone()).expect("UTF-8");
        assert_eq!(text.lines().count(), 1, "{text:?}");
        let escaped = r"a\r\nb\u{202e}c";
        assert_eq!(text.matches(escaped).count(), 3, "{text:?}");
        assert!(!text.contains("\u{1b}[2J") && !text.contains('\r'), "{text:?}");
    }
}
