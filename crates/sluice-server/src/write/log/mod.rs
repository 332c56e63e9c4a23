//! The access log: lines formed by the workers, written by a thread of its own.
//!
//! Here: the line's forms and the hand-over. A worker appends to memory of its own, under a lock that only the thread ever
//! contends for, and never waits for a file; the thread takes all there is at once and, while traffic goes on, looks again by itself, so that a busy server
//! makes no wake-up per line. Not here: diagnostics (`tracing`), and what counts as the end of an exchange (`exchange`).

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Lines that wait, by worker: so that workers do not wait for each other.
    shelves: Box<[Shelf]>,
    orders: Mutex<Orders>,
    wake: Condvar,
    /// The thread sleeps until it is woken. Set under the lock of `orders`.
    is_asleep: AtomicBool,
}

/// A worker's lines. Aligned, so that two workers never write to one cache line.
#[derive(Default)]
#[repr(align(128))]
struct Shelf {
    lines: Mutex<Vec<u8>>,
    lost: AtomicU64,
}

#[derive(Default)]
struct Orders {
    reopen: bool,
    end: bool,
}

impl Log {
    /// Opens the target and starts the thread. An error is the administrator's: the file cannot be opened.
    pub(crate) fn open(settings: &AccessLog, workers: usize) -> io::Result<Log> {
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
            shelves: (0..workers.max(1)).map(|_| Shelf::default()).collect(),
            orders: Mutex::default(),
            wake: Condvar::new(),
            is_asleep: AtomicBool::new(false),
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

    /// Adds a line of a worker; never blocks on a file.
    pub(crate) fn write(&self, worker: usize, line: &Line<'_>) {
        let Some(shared) = &self.shared else { return };
        let shelf = &shared.shelves[worker % shared.shelves.len()];
        {
            let mut lines = lock(&shelf.lines);
            if lines.len() > PENDING_BYTES_MAX / shared.shelves.len() {
                // Relaxed: a count that the thread reads some time later.
                shelf.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            match self.format {
                LogFormat::Combined => combined(&mut lines, line),
                LogFormat::Json => json(&mut lines, line),
            }
        }
        // SeqCst, as in `wait`: either this sees that the thread sleeps, or the thread, after it said so, sees the line.
        if shared.is_asleep.load(Ordering::SeqCst) {
            let _orders = lock(&shared.orders);
            shared.wake.notify_one();
        }
    }

    /// Closes and opens the file under its name again, for rotation (SIGUSR1).
    pub(crate) fn reopen(&self) {
        self.order(|orders| orders.reopen = true);
    }

    /// Writes what is left and ends the thread.
    pub(crate) fn close(&self) {
        self.order(|orders| orders.end = true);
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        let Some(shared) = &self.shared else { return };
        change(&mut lock(&shared.orders));
        shared.wake.notify_one();
    }
}

/// A lock whose holder panicked still guards whole lines.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let orders = wait(shared);
        if orders.reopen {
            sink.reopen();
        }
        let mut lost = 0;
        for shelf in &shared.shelves {
            std::mem::swap(&mut lines, &mut *lock(&shelf.lines));
            lost += shelf.lost.swap(0, Ordering::Relaxed);
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
        }
        if lost > 0 {
            tracing::error!("access log: {lost} lines lost, the log could not keep up");
        }
        // The order comes after the last line.
        if orders.end {
            return;
        }
    }
}

/// Waits for lines or orders: for a moment, so that lines gather, and when none came, until the first does.
fn wait(shared: &Shared) -> Orders {
    let mut orders = lock(&shared.orders);
    if !orders.is_given() {
        (orders, _) = shared
            .wake
            .wait_timeout(orders, GATHER)
            .unwrap_or_else(PoisonError::into_inner);
    }
    if !orders.is_given() && !shared.has_lines() {
        shared.is_asleep.store(true, Ordering::SeqCst);
        while !orders.is_given() && !shared.has_lines() {
            orders = shared.wake.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
        shared.is_asleep.store(false, Ordering::SeqCst);
    }
    std::mem::take(&mut orders)
}

impl Orders {
    fn is_given(&self) -> bool {
        self.reopen || self.end
    }
}

impl Shared {
    fn has_lines(&self) -> bool {
        self.shelves
            .iter()
            .any(|shelf| !lock(&shelf.lines).is_empty() || shelf.lost.load(Ordering::Relaxed) > 0)
    }
}

/// Apache's combined format, then the id of the exchange.
fn combined(out: &mut Vec<u8>, line: &Line<'_>) {
    let mut text = Text(out);
    let _ = write!(text, "{} - - [", line.client.ip());
    clf_time(line.arrived, |time| text.push(time.as_bytes()));
    text.push(b"] \"");
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
fn clf_time(time: SystemTime, take: impl FnOnce(&str)) {
    thread_local! {
        static LAST: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
        static ZONE: TimeZone = TimeZone::system();
    }
    let time = Timestamp::try_from(time).unwrap_or_default();
    LAST.with_borrow_mut(|(second, text)| {
        if *second != time.as_second() {
            let zoned = time.to_zoned(ZONE.with(TimeZone::clone));
            *text = zoned.strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
            *second = time.as_second();
        }
        take(text);
    });
}

/// Appends text with the escapes that keep one exchange on one line and a quote inside its quotes.
struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// As Apache's mod_log_config: `\"`, `\\`, and `\xhh` for what does not print.
    fn quoted(&mut self, bytes: &[u8]) {
        let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| !is_plain(byte)) {
            self.push(&rest[..at]);
            match rest[at] {
                byte @ (b'"' | b'\\') => self.push(&[b'\\', byte]),
                byte => {
                    let _ = write!(self, "\\x{byte:02x}");
                }
            }
            rest = &rest[at + 1..];
        }
        self.push(rest);
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
        let log = Log::open(
            &AccessLog {
                target: LogTarget::File(path.clone()),
                format: LogFormat::Combined,
            },
            2,
        )
        .unwrap();
        let (uri, agent) = (Uri::from_static("/"), HeaderValue::from_static("t"));
        for worker in 0..1000 {
            log.write(worker, &line(&uri, &agent));
        }
        log.close();
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1000);
    }

    #[test]
    fn reopen_goes_on_in_a_new_file_under_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        let log = Log::open(
            &AccessLog {
                target: LogTarget::File(path.clone()),
                format: LogFormat::Combined,
            },
            2,
        )
        .unwrap();
        let (uri, agent) = (Uri::from_static("/"), HeaderValue::from_static("t"));
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        // The order is taken before any line that is given after it.
        log.write(0, &line(&uri, &agent));
        log.close();
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1);
        assert_eq!(std::fs::read_to_string(old).unwrap().lines().count(), 0);
    }
}
