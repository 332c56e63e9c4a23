//! The access log: lines formed by the workers, written by a thread of its own.
//!
//! Here: the hand-over. A worker appends to memory of its own, under a lock that only the thread ever contends for, and
//! never waits for a file; the thread takes all there is at once and, while traffic goes on, looks again by itself, so that
//! a busy server makes no wake-up per line. Not here: what a line looks like (`line`), files (`sink`) and their rotation
//! (`rotate`), diagnostics (`tracing`), and what counts as the end of an exchange (`exchange`).
//!
//! ```text
//! Exchange ──▶ SiteLog (format) ──▶ LogFile ─ a buffer for each worker ─▶ the thread ──▶ Sink (file)
//! ```
//! A file is everything that goes to one file; sites that name the same file share it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sluice_settings::log_format::LogFormat;
use sluice_settings::{AccessLog, LogTarget, Settings, SiteSettings};

use crate::line::{self, Line};
use crate::sink::{Now, RETRY, Sink};

/// Memory for lines that the thread has not written yet (a slow or full disk); further lines are counted, not kept.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// What every buffer may hold of it, however many there are.
const SHELF_BYTES_LEAST: usize = 64 << 10;

/// How long the thread waits after a write before it looks for the lines that came meanwhile.
const GATHER: Duration = Duration::from_millis(10);

/// The log of a site, as its exchanges see it: one for each site, and the server's own.
#[derive(Clone)]
pub struct SiteLog {
    /// The site's name; the server's own, for exchanges that never found a site, is `-`.
    site: Arc<str>,
    pub format: Arc<LogFormat>,
    /// None: nothing is written.
    file: Option<Arc<LogFile>>,
}

impl SiteLog {
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    pub fn shares_format(&self, other: &SiteLog) -> bool {
        Arc::ptr_eq(&self.format, &other.format)
    }

    /// Adds a line of a worker; never blocks on a file.
    pub fn write(&self, worker: usize, line: &Line<'_>) {
        if let Some(file) = &self.file {
            file.write(worker, |out| line::write(out, &self.format, &self.site, line));
        }
    }
}

/// All logs of the server, and the thread that writes them.
pub struct Log {
    workers: usize,
    shared: Arc<Shared>,
    /// Started with the first file.
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// The files that are open. The thread has the lock while it writes; beside it only a configuration is read under it.
    files: Mutex<Vec<Arc<LogFile>>>,
    wakeup: Arc<Wakeup>,
}

/// How the thread is told that there is something to do.
#[derive(Default)]
struct Wakeup {
    orders: Mutex<Orders>,
    wake: Condvar,
    /// The thread sleeps until it is woken. Set under the lock of `orders`.
    is_asleep: AtomicBool,
}

#[derive(Default)]
struct Orders {
    reopen: bool,
    end: bool,
}

/// What goes to one file.
struct LogFile {
    /// Lines that wait, by worker: so that workers do not wait for each other.
    buffers: Box<[WorkerBuffer]>,
    shelf_bytes_max: AtomicUsize,
    wakeup: Arc<Wakeup>,
    /// Only the thread writes to it; nobody else has the lock for longer than a look.
    sink: Mutex<Sink>,
}

/// A worker's lines. Aligned, so that two workers never write to one cache line.
#[derive(Default)]
#[repr(align(128))]
struct WorkerBuffer {
    lines: Mutex<Vec<u8>>,
    lost: AtomicU64,
}

impl Log {
    pub fn new(workers: usize) -> Log {
        Log {
            workers: workers.max(1),
            shared: Arc::new(Shared {
                files: Mutex::default(),
                wakeup: Arc::default(),
            }),
            writer: Mutex::new(None),
        }
    }

    /// Opens what the settings name, and starts the thread if it is needed: first the server's own log, then those of the
    /// sites in their order. Files that are open already stay so. An error is the administrator's: a file cannot be opened.
    pub fn open(&self, settings: &Settings) -> Result<Box<[SiteLog]>, String> {
        let own = self.site_log("-", &settings.access_log)?;
        let sites = settings.sites.iter().map(|site| match &site.log {
            Some(log) => self.site_log(name(site), log),
            None => Ok(SiteLog {
                site: name(site).into(),
                ..own.clone()
            }),
        });
        let sites = sites.collect::<Result<Vec<_>, _>>()?;
        let files = lock(&self.shared.files);
        let room = PENDING_BYTES_MAX / (self.workers * files.len().max(1));
        for file in &*files {
            // Relaxed: a bound that a worker may learn of some time later.
            file.shelf_bytes_max
                .store(room.max(SHELF_BYTES_LEAST), Ordering::Relaxed);
        }
        let is_any = !files.is_empty();
        drop(files);
        if is_any {
            self.start()
                .map_err(|error| format!("access log: its thread: {error}"))?;
        }
        Ok([own].into_iter().chain(sites).collect())
    }

    fn site_log(&self, site: &str, log: &AccessLog) -> Result<SiteLog, String> {
        let file = if let Some(file) = self.shared.file(&log.target) {
            lock(&file.sink).rotate_by(&log.rotation);
            Some(file)
        } else {
            // Without any lock: opening a file may take its time.
            let sink = Sink::open(&log.target, &log.rotation).map_err(|error| match &log.target {
                LogTarget::File(path) => format!("access log {}: {error}", path.display()),
                _ => format!("access log: {error}"),
            })?;
            let file = sink.map(|sink| Arc::new(self.file(sink)));
            lock(&self.shared.files).extend(file.clone());
            file
        };
        Ok(SiteLog {
            site: site.into(),
            format: Arc::new(log.format.clone()),
            file,
        })
    }

    fn file(&self, sink: Sink) -> LogFile {
        LogFile {
            buffers: (0..self.workers).map(|_| WorkerBuffer::default()).collect(),
            shelf_bytes_max: AtomicUsize::new(SHELF_BYTES_LEAST),
            wakeup: Arc::clone(&self.shared.wakeup),
            sink: Mutex::new(sink),
        }
    }

    fn start(&self) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        if writer.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("access-log".into());
            *writer = Some(thread.spawn(move || run(&shared))?);
        }
        Ok(())
    }

    /// Closes and opens all files under their names again, after somebody has renamed them (SIGUSR1).
    pub fn reopen(&self) {
        self.shared.wakeup.order(|orders| orders.reopen = true);
    }

    /// Writes what is left and ends the thread.
    pub fn close(&self) {
        self.shared.wakeup.order(|orders| orders.end = true);
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

/// A site's name as `%v` writes it.
fn name(site: &SiteSettings) -> &str {
    site.hosts.first().map_or("*", String::as_str)
}

/// A lock whose holder panicked still guards whole lines.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogFile {
    fn write(&self, worker: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let buffer = &self.buffers[worker % self.buffers.len()];
        {
            let mut lines = lock(&buffer.lines);
            if lines.len() > self.shelf_bytes_max.load(Ordering::Relaxed) {
                // Relaxed: a count that the thread reads some time later.
                buffer.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            write(&mut lines);
        }
        // SeqCst, as in `Shared::wait`: either this sees that the thread sleeps, or the thread, after it said so, sees the
        // line.
        if self.wakeup.is_asleep.load(Ordering::SeqCst) {
            let _orders = lock(&self.wakeup.orders);
            self.wakeup.wake.notify_one();
        }
    }

    fn has_lines(&self) -> bool {
        self.buffers
            .iter()
            .any(|buffer| !lock(&buffer.lines).is_empty() || buffer.lost.load(Ordering::Relaxed) > 0)
    }

    /// Takes the lines of all workers to the file. `lines` is memory to do it with.
    fn empty(&self, lines: &mut Vec<u8>, turn: FlushPass) -> bool {
        let mut sink = lock(&self.sink);
        if turn.reopens {
            sink.reopen();
        }
        if sink.is_waiting() {
            sink.retry(turn.now);
        }
        for buffer in &self.buffers {
            std::mem::swap(lines, &mut *lock(&buffer.lines));
            sink.lose(buffer.lost.swap(0, Ordering::Relaxed));
            if !lines.is_empty() {
                sink.take(lines, turn.now, turn.waiting_bytes_max);
                lines.clear();
            }
            // What a crowd has made large is not kept for good.
            lines.shrink_to(SHELF_BYTES_LEAST);
        }
        sink.tell(turn.now);
        if turn.is_last {
            sink.end(turn.now);
        }
        sink.is_waiting()
    }
}

/// What the thread is about to do with every file.
#[derive(Clone, Copy)]
struct FlushPass {
    now: Now,
    reopens: bool,
    /// Nothing comes after it.
    is_last: bool,
    /// What one file may keep of lines that cannot be written.
    waiting_bytes_max: usize,
}

/// The thread: take all, write, look again; sleep only when nothing came for a while.
fn run(shared: &Shared) {
    let mut lines = Vec::new();
    let mut is_waiting = false;
    loop {
        let orders = shared.wait(is_waiting.then_some(RETRY));
        let mut files = lock(&shared.files);
        let turn = FlushPass {
            now: Now::take(),
            reopens: orders.reopen,
            // The order comes after the last line.
            is_last: orders.end,
            waiting_bytes_max: (PENDING_BYTES_MAX / files.len().max(1)).max(SHELF_BYTES_LEAST),
        };
        is_waiting = false;
        files.retain(|file| {
            // Only this list has it, whose lock is held: nobody will have it again. Whoever wrote its last line has let go of
            // it after that, so the line is found below.
            let is_over = Arc::strong_count(file) == 1;
            let is_last = turn.is_last || is_over;
            is_waiting |= file.empty(&mut lines, FlushPass { is_last, ..turn });
            !is_over
        });
        if orders.end {
            return;
        }
    }
}

impl Shared {
    /// The open file of a target.
    fn file(&self, target: &LogTarget) -> Option<Arc<LogFile>> {
        let files = lock(&self.files);
        files.iter().find(|file| *lock(&file.sink).target() == *target).cloned()
    }

    /// Waits for lines or orders: for a moment, so that lines gather, and when none came, until the first does, or for as
    /// long as is said.
    fn wait(&self, patience: Option<Duration>) -> Orders {
        let wakeup = &*self.wakeup;
        let mut orders = lock(&wakeup.orders);
        if !orders.is_given() {
            (orders, _) = wakeup
                .wake
                .wait_timeout(orders, GATHER)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if !orders.is_given() && !self.has_lines() {
            wakeup.is_asleep.store(true, Ordering::SeqCst);
            let mut is_over = false;
            while !is_over && !orders.is_given() && !self.has_lines() {
                (orders, is_over) = wakeup.sleep(orders, patience);
            }
            wakeup.is_asleep.store(false, Ordering::SeqCst);
        }
        std::mem::take(&mut orders)
    }

    fn has_lines(&self) -> bool {
        lock(&self.files).iter().any(|file| file.has_lines())
    }
}

impl Wakeup {
    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut lock(&self.orders));
        self.wake.notify_one();
    }

    /// Sleeps until it is rung; true if that took longer than is said.
    fn sleep<'a>(&self, orders: MutexGuard<'a, Orders>, patience: Option<Duration>) -> (MutexGuard<'a, Orders>, bool) {
        let Some(patience) = patience else {
            let orders = self.wake.wait(orders).unwrap_or_else(PoisonError::into_inner);
            return (orders, false);
        };
        let waited = self.wake.wait_timeout(orders, patience);
        let (orders, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (orders, result.timed_out())
    }
}

impl Orders {
    fn is_given(&self) -> bool {
        self.reopen || self.end
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::NonZeroUsize;
    use std::path::Path;

    use http::Uri;

    use super::*;
    use crate::line::tests::line;
    use sluice_settings::limits::Limits;
    use sluice_settings::{CompressionSettings, ErrorSettings, FileSettings, Rotation};

    fn to(path: &Path) -> AccessLog {
        AccessLog {
            target: LogTarget::File(path.into()),
            format: LogFormat::parse("%m %v").unwrap(),
            rotation: Rotation::default(),
        }
    }

    fn settings(own: AccessLog, sites: Vec<Option<AccessLog>>) -> Settings {
        let site = |(index, log)| SiteSettings {
            origin: String::new(),
            hosts: vec![format!("site-{index}")],
            root: None,
            identity: None,
            hsts: None,
            index: Vec::new(),
            routes: Vec::new(),
            files: FileSettings::default(),
            compression: CompressionSettings::default(),
            errors: ErrorSettings::default(),
            log,
        };
        Settings {
            listen: Vec::new(),
            proxies: sluice_settings::ProxySettings::default(),
            dns: None,
            workers: NonZeroUsize::MIN,
            sites: sites.into_iter().enumerate().map(site).collect(),
            limits: Limits::default(),
            cache: None,
            access_log: own,
        }
    }

    fn write(log: &SiteLog, worker: usize) {
        let uri = Uri::from_static("/");
        log.write(worker, &line(&uri, &Default::default(), &Default::default()));
    }

    fn lines(path: &Path) -> usize {
        fs::read_to_string(path).unwrap().lines().count()
    }

    #[test]
    fn every_line_is_written_before_close_returns() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let log = Log::new(2);
        let logs = log.open(&settings(to(&path), Vec::new())).unwrap();
        for worker in 0..1000 {
            write(&logs[0], worker);
        }
        log.close();
        assert_eq!(lines(&path), 1000);
    }

    #[test]
    fn reopen_goes_on_in_a_new_file_under_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("a.log"), directory.path().join("a.log.1"));
        let log = Log::new(2);
        let logs = log.open(&settings(to(&path), Vec::new())).unwrap();
        fs::rename(&path, &old).unwrap();
        log.reopen();
        // The order is taken before any line that is given after it.
        write(&logs[0], 0);
        log.close();
        assert_eq!((lines(&path), lines(&old)), (1, 0));
    }

    #[test]
    fn sites_write_to_their_own_file_or_share_one() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let off = AccessLog {
            target: LogTarget::Off,
            ..to(Path::new(""))
        };
        let (a, b) = (to(&place("a.log")), to(&place("b.log")));
        let log = Log::new(1);
        let logs = log
            .open(&settings(a.clone(), vec![None, Some(b), Some(a), Some(off)]))
            .unwrap();
        assert_eq!(lock(&log.shared.files).len(), 2);
        logs.iter().for_each(|log| write(log, 0));
        log.close();
        let read = |name: &str| fs::read_to_string(place(name)).unwrap();
        assert_eq!(read("a.log"), "GET -\nGET site-0\nGET site-2\n");
        assert_eq!(read("b.log"), "GET site-1\n");
    }

    #[test]
    fn a_log_that_no_configuration_names_any_more_is_written_to_its_end_and_closed() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old.log"), directory.path().join("new.log"));
        let log = Log::new(1);
        let logs = log.open(&settings(to(&old), Vec::new())).unwrap();
        let later = log.open(&settings(to(&new), Vec::new())).unwrap();
        let again = log.open(&settings(to(&new), Vec::new())).unwrap();
        write(&logs[0], 0);
        drop(logs);
        write(&again[0], 0);
        write(&later[0], 0);
        log.close();
        assert_eq!((lines(&old), lines(&new)), (1, 2));
        let open: Vec<_> = lock(&log.shared.files)
            .iter()
            .map(|file| lock(&file.sink).target().clone())
            .collect();
        assert_eq!(open, [LogTarget::File(new)]);
    }

    #[test]
    fn a_file_that_hangs_holds_no_worker_and_lines_over_the_bound_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let log = Log::new(1);
        let logs = log.open(&settings(to(&path), Vec::new())).unwrap();
        let file = logs[0].file.clone().unwrap();
        file.shelf_bytes_max.store(100, Ordering::Relaxed);
        let hanging = lock(&file.sink);
        (0..100).for_each(|_| write(&logs[0], 0));
        let lost = file.buffers[0].lost.load(Ordering::Relaxed);
        assert!((1..100).contains(&lost), "{lost}");
        drop(hanging);
        log.close();
        assert_eq!(lines(&path) as u64 + lost, 100);
    }

    #[test]
    fn a_log_that_is_off_needs_no_thread() {
        let off = AccessLog {
            target: LogTarget::Off,
            ..to(Path::new(""))
        };
        let log = Log::new(1);
        assert!(!log.open(&settings(off, Vec::new())).unwrap()[0].is_on());
        assert!(lock(&log.writer).is_none());
        log.close();
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let log = Log::new(1);
        let told = log.open(&settings(to(Path::new("/nowhere/a.log")), Vec::new())).err();
        assert!(told.unwrap().starts_with("access log /nowhere/a.log: No such file"));
    }
}
