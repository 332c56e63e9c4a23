//! The server's side of `sluice watch`: the events of a watch, written to the connection that asked for them.
//!
//! The connection carries an answer, then lines: events, and notices, which begin with `-- `, or JSON objects. It ends when the watch
//! ends, when the watcher leaves, or when it has read nothing for a time. Reading slowly loses events (`sluice_watch`) and delays nobody.

use std::fmt::Write;
use std::future::poll_fn;
use std::io;
use std::time::Duration;

use sluice_server::watch_log::WatchLog;
use sluice_tools::control::watching::WatchFormat;
use sluice_watch::{End, Event, Line, Notice, Record, Taken, Watch};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a watcher may take nothing.
pub(super) const STALL: Duration = Duration::from_secs(60);

const CHUNK_BYTES: usize = 64 << 10;

pub(super) struct Stream {
    pub(super) watch: Watch,
    pub(super) format: WatchFormat,
    pub(super) stall: Duration,
    pub(super) log: WatchLog,
}

impl Stream {
    /// Writes events until there is a reason to end, which is logged. Then the watch has ended, too.
    pub(super) async fn run(mut self, reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin) -> &'static str {
        let reason = match self.carry(reader, writer).await {
            Ok(end) => end.reason(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => "it has read nothing for a minute",
            Err(_) => WatchLog::LEFT,
        };
        self.log.end(reason);
        reason
    }

    async fn carry(
        &mut self,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
    ) -> io::Result<End> {
        let begin = Notice::Watching(self.watch.spec().to_string());
        self.write(&mut writer, &self.format.line(&begin)).await?;
        loop {
            let taken = tokio::select! {
                taken = poll_fn(|context| self.watch.poll_take(context)) => taken,
                error = peer_left(&mut reader) => return Err(error),
            };
            let is_ended = taken.is_ended;
            self.write_events(&mut writer, taken).await?;
            if is_ended {
                let end = End::of(self.watch.spec(), self.log.has_shown());
                self.write(&mut writer, &self.format.line(&Notice::Ended(end))).await?;
                return Ok(end);
            }
        }
    }

    async fn write_events(&mut self, writer: &mut (impl AsyncWrite + Unpin), taken: Taken) -> io::Result<()> {
        self.log.count(&taken);
        let mut text = String::new();
        for event in &taken.events {
            add_event(&mut text, event, self.format);
            if text.len() >= CHUNK_BYTES {
                self.write(writer, &text).await?;
                text.clear();
            }
        }
        // The queue was full after these.
        if taken.lost > 0 {
            text.push_str(&self.format.line(&Notice::Lost(taken.lost)));
        }
        self.write(writer, &text).await
    }

    /// Writes a text. The time in which some of it must be taken begins again with each byte that is.
    async fn write(&self, writer: &mut (impl AsyncWrite + Unpin), text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let written = timeout(self.stall, writer.write(rest)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        Ok(())
    }
}

fn add_event(text: &mut String, event: &Event, format: WatchFormat) {
    // Writing to a string cannot fail, and no field of a record can.
    let _ = match format {
        WatchFormat::Text => write!(text, "{}", Line(event)),
        WatchFormat::Json => writeln!(
            text,
            "{}",
            serde_json::to_string(&Record::new(event)).unwrap_or_default()
        ),
    };
}

/// Waits until the watcher has closed its end. It has nothing to say.
async fn peer_left(reader: &mut (impl AsyncRead + Unpin)) -> io::Error {
    let mut ignored = [0; 64];
    loop {
        match reader.read(&mut ignored).await {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_watch::{Hub, Item, Spec, TracedAttributes, Tracer, WorkerHub};

    use super::*;

    fn once() -> Spec {
        Spec { once: true, ..Spec::default() }
    }

    fn stream(hub: &Arc<Hub>, spec: Spec, format: WatchFormat) -> Stream {
        let watch = hub.watch(spec).unwrap();
        Stream {
            log: WatchLog::begin("the test".to_owned(), watch.spec()),
            watch,
            format,
            stall: STALL,
        }
    }

    fn note(hub: &Arc<Hub>, text: &str) {
        let tracer = WorkerHub::new(hub).exchange(&Tracer::NONE, TracedAttributes::default);
        tracer.note(Item::Mapping, "test", || text.to_owned());
        tracer.end();
    }

    #[tokio::test]
    async fn the_events_of_one_request_are_written_with_a_begin_and_an_end() {
        for (format, begin, end) in [
            (
                WatchFormat::Text,
                "-- watching usual items of all requests; the first request only\n",
                "-- end: the request has ended\n",
            ),
            (WatchFormat::Json, "{\"watching\":", "{\"ended\":\"once\"}\n"),
        ] {
            let hub = Hub::new();
            let stream = stream(&hub, once(), format);
            note(&hub, "route 1");
            let (near, mut far) = tokio::io::duplex(4096);
            let (reader, writer) = tokio::io::split(near);
            assert_eq!(stream.run(reader, writer).await, "the request has ended");
            let mut text = String::new();
            far.read_to_string(&mut text).await.unwrap();
            assert!(
                text.starts_with(begin) && text.ends_with(end) && text.contains("route 1"),
                "{text}"
            );
            assert!(!hub.is_on());
        }
    }

    #[tokio::test]
    async fn a_watcher_that_reads_nothing_is_ended_and_one_that_leaves_is_forgotten() {
        let hub = Hub::new();
        let mut stream = stream(&hub, Spec::default(), WatchFormat::Text);
        stream.stall = Duration::from_millis(20);
        for _ in 0..100 {
            note(&hub, "route 1");
        }
        let (near, far) = tokio::io::duplex(256);
        let (reader, writer) = tokio::io::split(near);
        assert_eq!(stream.run(reader, writer).await, "it has read nothing for a minute");
        drop(far);
        let stream = self::stream(&hub, Spec::default(), WatchFormat::Text);
        let (near, far) = tokio::io::duplex(256);
        let (reader, writer) = tokio::io::split(near);
        drop(far);
        assert_eq!(stream.run(reader, writer).await, WatchLog::LEFT);
        assert!(!hub.is_on());
    }
}
