//! The access logs of the server and its sites.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use sluice_settings::log_format::LogFormat;
use sluice_settings::{AccessLog, LogTarget, Settings, SiteSettings};

use crate::line::{self, Line};
use crate::log_file::{BUFFER_BYTES_LEAST, LogFile};
use crate::sink::Sink;
use crate::tail::LogSource;
use crate::wakeup::lock;
use crate::writer::{self, PENDING_BYTES_MAX, Shared};

/// The log of one site, or of the server.
#[derive(Clone)]
pub struct SiteLog {
    /// The site's name; `-` in the server's own log, for exchanges without a site.
    site: Arc<str>,
    /// The format of the lines.
    pub format: Arc<LogFormat>,
    file: Option<Arc<LogFile>>,
}

impl SiteLog {
    /// Whether lines are written at all.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// The name of its site; `-` for the server's own log.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// Where its lines can be read; `None` if it is off. Logs with one file have one source.
    pub fn source(&self) -> Option<Arc<LogSource>> {
        self.file.as_ref().map(|file| Arc::clone(&file.source))
    }

    /// Whether the two logs have one format, so that the fields kept for one suit the other.
    pub fn shares_format(&self, other: &SiteLog) -> bool {
        Arc::ptr_eq(&self.format, &other.format)
    }

    /// A line as it would be written, without its newline.
    pub fn text(&self, line: &Line<'_>) -> String {
        let mut bytes = Vec::new();
        line::write(&mut bytes, &self.format, &self.site, line);
        String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()
    }

    /// Adds a line of the worker with this index, or counts it if too many are pending. Never waits for a file.
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

impl Log {
    /// Creates the logs of a server with `workers` workers; nothing is open yet.
    pub fn new(workers: usize) -> Log {
        Log {
            workers: workers.max(1),
            shared: Arc::default(),
            writer: Mutex::new(None),
        }
    }

    /// Opens the logs of the settings: first the server's own, then those of the sites in their order. Files that are open stay so.
    /// Starts the thread if there is a file. An error is the administrator's fault: a file cannot be opened.
    pub fn open(&self, settings: &Settings) -> Result<Box<[SiteLog]>, String> {
        let own = self.site_log("-", &settings.access_log)?;
        let of_server = |site: &SiteSettings| SiteLog { site: name(site).into(), ..own.clone() };
        let sites = settings.sites.iter().map(|site| match &site.log {
            Some(log) => self.site_log(name(site), log).or_else(|error| {
                let line = || {
                    format!(
                        "{}: {error}; the lines of this site are in the access log of the server until the next reload",
                        site.origin
                    )
                };
                match settings.source.tolerate(&site.log_fault(), log.file().as_slice(), line) {
                    true => Ok(of_server(site)),
                    false => Err(error),
                }
            }),
            None => Ok(of_server(site)),
        });
        let sites = sites.collect::<Result<Vec<_>, _>>()?;
        let files = lock(&self.shared.files);
        let bytes_max = PENDING_BYTES_MAX / (self.workers * files.len().max(1));
        for file in &*files {
            // Relaxed: a worker may see the new limit some time later.
            file.buffer_bytes_max
                .store(bytes_max.max(BUFFER_BYTES_LEAST), Ordering::Relaxed);
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
            lock(&file.sink).rotation = log.rotation.clone();
            Some(file)
        } else {
            // Without holding a lock, because opening a file may take long.
            let sink = Sink::open("access log", &log.target, &log.rotation).map_err(|error| match &log.target {
                LogTarget::File(path) => format!("access log {}: {error}", path.display()),
                _ => format!("access log: {error}"),
            })?;
            let wakeup = &self.shared.wakeup;
            let file = sink.map(|sink| Arc::new(LogFile::new(sink, self.workers, Arc::clone(wakeup))));
            lock(&self.shared.files).extend(file.clone());
            file
        };
        Ok(SiteLog {
            site: site.into(),
            format: Arc::new(log.format.clone()),
            file,
        })
    }

    fn start(&self) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        if writer.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("access-log".into());
            *writer = Some(thread.spawn(move || writer::run(&shared))?);
        }
        Ok(())
    }

    /// Reopens all files under their names, after they were renamed (SIGUSR1), but for these: opening one that does not answer would keep all from being written.
    pub fn reopen(&self, except: BTreeSet<PathBuf>) {
        self.shared.wakeup.send(|commands| commands.reopen = Some(except));
    }

    /// Writes the remaining lines and ends the thread.
    pub fn close(&self) {
        self.shared.wakeup.send(|commands| commands.end = true);
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use http::Uri;
    use sluice_settings::{CompressionSettings, ErrorSettings, FileSettings, Rotation};

    use super::*;
    use crate::line::tests::line;

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
            listen: Vec::new(),
            identity: None,
            client_certificates: sluice_settings::rule::CertificateUse::Optional,
            client_authorities: None,
            hsts: None,
            index: Vec::new(),
            routes: Vec::new(),
            files: FileSettings::default(),
            compression: CompressionSettings::default(),
            errors: ErrorSettings::default(),
            log,
            blocks: Vec::new(),
        };
        Settings {
            access_log: own,
            ..Settings::new(sites.into_iter().enumerate().map(site).collect())
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
    fn reopen_creates_a_new_file_under_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("a.log"), directory.path().join("a.log.1"));
        let log = Log::new(2);
        let logs = log.open(&settings(to(&path), Vec::new())).unwrap();
        fs::rename(&path, &old).unwrap();
        let other = directory.path().join("b.log");
        let logs_of_other = log.open(&settings(to(&other), Vec::new())).unwrap();
        fs::rename(&other, directory.path().join("b.log.1")).unwrap();
        log.reopen(BTreeSet::from([other.clone()]));
        // The command is carried out before lines that come after it are written.
        write(&logs[0], 0);
        log.close();
        assert_eq!((lines(&path), lines(&old)), (1, 0));
        assert!(logs_of_other[0].is_on() && !other.exists(), "excepted");
    }

    #[test]
    fn sites_write_to_their_own_file_or_share_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let off = AccessLog { target: LogTarget::Off, ..to(Path::new("")) };
        let (a, b) = (to(&path("a.log")), to(&path("b.log")));
        let log = Log::new(1);
        let logs = log
            .open(&settings(a.clone(), vec![None, Some(b), Some(a), Some(off)]))
            .unwrap();
        assert_eq!(lock(&log.shared.files).len(), 2);
        logs.iter().for_each(|log| write(log, 0));
        log.close();
        let read = |name: &str| fs::read_to_string(path(name)).unwrap();
        assert_eq!(read("a.log"), "GET -\nGET site-0\nGET site-2\n");
        assert_eq!(read("b.log"), "GET site-1\n");
    }

    #[test]
    fn an_unused_log_is_flushed_and_closed() {
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
            .map(|file| lock(&file.sink).target.clone())
            .collect();
        assert_eq!(open, [LogTarget::File(new)]);
    }

    #[test]
    fn a_slow_file_blocks_no_worker_and_lines_over_the_limit_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let log = Log::new(1);
        let logs = log.open(&settings(to(&path), Vec::new())).unwrap();
        let file = logs[0].file.clone().unwrap();
        file.buffer_bytes_max.store(100, Ordering::Relaxed);
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
        let off = AccessLog { target: LogTarget::Off, ..to(Path::new("")) };
        let log = Log::new(1);
        assert!(!log.open(&settings(off, Vec::new())).unwrap()[0].is_on());
        assert!(lock(&log.writer).is_none());
        log.close();
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let log = Log::new(1);
        let error = log.open(&settings(to(Path::new("/nowhere/a.log")), Vec::new())).err();
        assert!(error.unwrap().starts_with("access log /nowhere/a.log: No such file"));
    }
}
