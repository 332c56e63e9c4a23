//! The access log: lines formed by the workers, written by a thread of its own.
//!
//! Here: the line's forms and the hand-over. A worker appends to memory under a lock held for a copy and never waits for
//! a file; the thread takes all there is at once and, while traffic goes on, looks again by itself, so that a busy server
//! makes no wake-up per line. Not here: diagnostics (`tracing`), and what counts as the end of an exchange (`exchange`).

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, Uri, Version};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::settings::{AccessLog, LogFormat, LogTarget};

/// Logged for a client that left before any answer was made; not a status of RFC 9110, but nginx's known word for it.
pub(crate) const STATUS_CLIENT_LEFT: u16 = 499;

/// Memory for lines that the thread has not written yet (a slow or full disk); further lines are counted, not kept.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// How long the thread waits after a write before it looks for the lines that came meanwhile.
const GATHER: Duration = Duration::from_millis(10);

/// What a line says of an exchange.
pub(crate) struct Line<'a> {
    pub id: &'a str,
    pub client: SocketAddr,
    pub method: &'a str,
    pub uri: &'a Uri,
    pub version: Version,
    pub host: Option<&'a HeaderValue>,
    pub referer: Option<&'a HeaderValue>,
    pub agent: Option<&'a HeaderValue>,
    pub arrived: SystemTime,
    pub duration: Duration,
    pub status: u16,
    pub body_bytes: u64,
    pub is_cut: bool,
}

/// The server's access log; cheap to share, one for all workers.
pub(crate) struct Log {
    shared: Option<Arc<Shared>>,
    format: LogFormat,
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    pending: Mutex<Pending>,
    wake: Condvar,
}

#[derive(Default)]
struct Pending {
    lines: Vec<u8>,
    lost: u64,
    is_asleep: bool,
    reopen: bool,
    end: bool,
}

impl Log {
    /// Opens the target and starts the thread. An error is the administrator's: the file cannot be opened.
    pub(crate) fn open(settings: &AccessLog) -> io::Result<Log> {
        let sink = match &settings.target {
            LogTarget::Off => None,
            LogTarget::Stdout => Some(Sink::Stdout),
            LogTarget::File(path) => Some(Sink::File(open_append(path)?, path.as_path().into())),
        };
        let Some(sink) = sink else {
            return Ok(Log {
                shared: None,
                format: settings.format,
                writer: Mutex::new(None),
            });
        };
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            wake: Condvar::new(),
        });
        let writer = std::thread::Builder::new().name("access-log".into()).spawn({
            let shared = Arc::clone(&shared);
            move || run(&shared, sink)
        })?;
        Ok(Log {
            shared: Some(shared),
            format: settings.format,
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Adds a line; never blocks on a file.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let Some(shared) = &self.shared else { return };
        let mut pending = shared.lock();
        if pending.lines.len() > PENDING_BYTES_MAX {
            pending.lost += 1;
            return;
        }
        match self.format {
            LogFormat::Combined => combined(&mut pending.lines, line),
            LogFormat::Json => json(&mut pending.lines, line),
        }
        if pending.is_asleep {
            pending.is_asleep = false;
            shared.wake.notify_one();
        }
    }

    /// Closes and opens the file under its name again, for rotation (SIGUSR1).
    pub(crate) fn reopen(&self) {
        self.order(|pending| pending.reopen = true);
    }

    /// Writes what is left and ends the thread.
    pub(crate) fn close(&self) {
        self.order(|pending| pending.end = true);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }

    fn order(&self, change: impl FnOnce(&mut Pending)) {
        let Some(shared) = &self.shared else { return };
        change(&mut shared.lock());
        shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Sink {
    Stdout,
    File(File, Box<Path>),
}

impl Sink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Sink::File(file, _) => file.write_all(lines),
        }
    }

    fn reopen(&mut self) {
        if let Sink::File(file, path) = self {
            match open_append(path) {
                Ok(fresh) => *file = fresh,
                Err(error) => tracing::error!(
                    "access log {}: {error}; the file opened before stays in use",
                    path.display()
                ),
            }
        }
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// The thread: take all, write, look again; sleep only when nothing came for a while.
fn run(shared: &Shared, mut sink: Sink) {
    let mut lines = Vec::new();
    let mut is_failing = false;
    loop {
        let (reopen, lost, end) = {
            let mut pending = shared.lock();
            if pending.lines.is_empty() && !pending.end && !pending.reopen {
                pending = wait(shared, pending);
            }
            std::mem::swap(&mut lines, &mut pending.lines);
            let reopen = std::mem::take(&mut pending.reopen);
            (reopen, std::mem::take(&mut pending.lost), pending.end)
        };
        if reopen {
            sink.reopen();
        }
        if !lines.is_empty() {
            match sink.write(&lines) {
                Ok(()) => is_failing = false,
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::error!("access log: {error}; lines are lost until it can be written again");
                }
                Err(_) => {}
            }
            lines.clear();
        }
        if lost > 0 {
            tracing::error!("access log: {lost} lines lost, the log could not keep up");
        }
        if end && shared.lock().lines.is_empty() {
            return;
        }
    }
}

fn wait<'a>(shared: &'a Shared, pending: MutexGuard<'a, Pending>) -> MutexGuard<'a, Pending> {
    let (mut pending, _) = shared
        .wake
        .wait_timeout(pending, GATHER)
        .unwrap_or_else(PoisonError::into_inner);
    while pending.lines.is_empty() && !pending.end && !pending.reopen {
        pending.is_asleep = true;
        pending = shared.wake.wait(pending).unwrap_or_else(PoisonError::into_inner);
    }
    pending.is_asleep = false;
    pending
}

/// Apache's combined format, then the id of the exchange.
fn combined(out: &mut Vec<u8>, line: &Line<'_>) {
    let mut text = Text(out);
    let _ = write!(text, "{} - - [{}] \"", line.client.ip(), clf_time(line.arrived));
    text.quoted(line.method.as_bytes());
    text.push(b" ");
    text.quoted(target(line.uri).as_bytes());
    let _ = write!(text, " {:?}\" {} {} \"", line.version, line.status, line.body_bytes);
    text.quoted(line.referer.map_or(b"-", HeaderValue::as_bytes));
    text.push(b"\" \"");
    text.quoted(line.agent.map_or(b"-", HeaderValue::as_bytes));
    text.push(b"\" ");
    text.push(line.id.as_bytes());
    text.push(b"\n");
}

fn json(out: &mut Vec<u8>, line: &Line<'_>) {
    let mut text = Text(out);
    let time = Timestamp::try_from(line.arrived).unwrap_or_default();
    let _ = write!(
        text,
        "{{\"time\":\"{time:.3}\",\"id\":\"{}\",\"client\":\"{}\",\"host\":",
        line.id,
        line.client.ip()
    );
    text.json_string(line.host.map(HeaderValue::as_bytes));
    text.push(b",\"method\":");
    text.json_string(Some(line.method.as_bytes()));
    text.push(b",\"target\":");
    text.json_string(Some(target(line.uri).as_bytes()));
    let _ = write!(
        text,
        ",\"protocol\":\"{:?}\",\"status\":{},\"body_bytes\":{},\"cut\":{},\"duration_us\":{},\"referer\":",
        line.version,
        line.status,
        line.body_bytes,
        line.is_cut,
        line.duration.as_micros()
    );
    text.json_string(line.referer.map(HeaderValue::as_bytes));
    text.push(b",\"agent\":");
    text.json_string(line.agent.map(HeaderValue::as_bytes));
    text.push(b"}\n");
}

fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("-", |target| target.as_str())
}

/// `20/Nov/2026:23:54:38 +0000`, in the server's time zone as Apache writes it; formatted once a second and thread.
fn clf_time(time: SystemTime) -> String {
    thread_local! {
        static LAST: std::cell::RefCell<(i64, String)> = const { std::cell::RefCell::new((i64::MIN, String::new())) };
        static ZONE: TimeZone = TimeZone::system();
    }
    let time = Timestamp::try_from(time).unwrap_or_default();
    LAST.with_borrow_mut(|(second, text)| {
        if *second != time.as_second() {
            let zoned = time.to_zoned(ZONE.with(TimeZone::clone));
            *text = zoned.strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
            *second = time.as_second();
        }
        text.clone()
    })
}

/// Appends text with the escapes that keep one exchange on one line and a quote inside its quotes.
struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// As Apache's mod_log_config: `\"`, `\\`, and `\xhh` for what does not print.
    fn quoted(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'"' | b'\\' => self.push(&[b'\\', byte]),
                0x20..=0x7e => self.0.push(byte),
                _ => {
                    let _ = write!(self, "\\x{byte:02x}");
                }
            }
        }
    }

    /// A JSON string (RFC 8259 §7), or null; bytes that are not UTF-8 are replaced.
    fn json_string(&mut self, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else {
            return self.push(b"null");
        };
        self.push(b"\"");
        for character in String::from_utf8_lossy(bytes).chars() {
            match character {
                '"' => self.push(b"\\\""),
                '\\' => self.push(b"\\\\"),
                control if control.is_control() => {
                    let _ = write!(self, "\\u{:04x}", u32::from(control));
                }
                other => {
                    let _ = self.write_char(other);
                }
            }
        }
        self.push(b"\"");
    }
}

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line<'a>(uri: &'a Uri, agent: &'a HeaderValue) -> Line<'a> {
        Line {
            id: "k3x9m2p703000000ff",
            client: "192.0.2.7:1234".parse().unwrap(),
            method: "GET",
            uri,
            version: Version::HTTP_11,
            host: None,
            referer: None,
            agent: Some(agent),
            arrived: SystemTime::UNIX_EPOCH,
            duration: Duration::from_micros(1500),
            status: 200,
            body_bytes: 12,
            is_cut: false,
        }
    }

    #[test]
    fn combined_lines_escape_quotes_and_control_bytes() {
        let agent = HeaderValue::from_bytes(b"a\"b\\c\xff").unwrap();
        let uri = Uri::from_static("/x?y=1");
        let mut out = Vec::new();
        combined(&mut out, &line(&uri, &agent));
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("192.0.2.7 - - ["), "{text}");
        assert!(
            text.ends_with("] \"GET /x?y=1 HTTP/1.1\" 200 12 \"-\" \"a\\\"b\\\\c\\xff\" k3x9m2p703000000ff\n"),
            "{text}"
        );
    }

    #[test]
    fn json_lines_are_one_object_each() {
        let agent = HeaderValue::from_static("quote \" tab\t");
        let uri = Uri::from_static("/x");
        let mut out = Vec::new();
        json(&mut out, &line(&uri, &agent));
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("{\"time\":\"1970-01-01T00:00:00.000Z\""), "{text}");
        assert!(text.contains("\"agent\":\"quote \\\" tab\\u0009\"}"), "{text}");
        assert!(text.contains("\"referer\":null"), "{text}");
        assert_eq!(text.matches('\n').count(), 1);
    }

    #[test]
    fn every_line_is_written_before_close_returns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = Log::open(&AccessLog {
            target: LogTarget::File(path.clone()),
            format: LogFormat::Combined,
        })
        .unwrap();
        let (uri, agent) = (Uri::from_static("/"), HeaderValue::from_static("t"));
        for _ in 0..1000 {
            log.write(&line(&uri, &agent));
        }
        log.close();
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1000);
    }

    #[test]
    fn reopen_goes_on_in_a_new_file_under_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        let log = Log::open(&AccessLog {
            target: LogTarget::File(path.clone()),
            format: LogFormat::Combined,
        })
        .unwrap();
        let (uri, agent) = (Uri::from_static("/"), HeaderValue::from_static("t"));
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        // The order is taken before any line that is given after it.
        log.write(&line(&uri, &agent));
        log.close();
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1);
        assert_eq!(std::fs::read_to_string(old).unwrap().lines().count(), 0);
    }
}
