//! The server log: messages for the administrator, on standard error or in a file.
//!
//! ```text
//! tracing event ─▶ Collector (escaped text) ─▶ Queue ─▶ the log's thread ─▶ standard error · LineFile
//! ```
//! A thread writes, so that a slow terminal or disk never blocks a worker.

mod collector;
mod outbox;
mod queue;
mod style;
mod writer;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use sluice_log::{LineFile, LogSource, RecentLines};
use sluice_settings::{LogLevel, ServerLog};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use collector::Collector;
use outbox::Outbox;
use queue::{Body, Command, Line, Queue};
use style::Style;

/// How long the end waits for the last lines, because standard error may be a pipe that nobody reads.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The log of this process. Its end is the moment when it is dropped.
pub(crate) struct Logger {
    queue: Arc<Queue>,
    is_json: Arc<AtomicBool>,
    filter: reload::Handle<EnvFilter, Registry>,
    /// The last lines, wherever they were written to.
    recent: Arc<RecentLines>,
    outbox: Arc<Outbox>,
    has_file: Cell<bool>,
}

/// A checked change of the log's settings.
pub(crate) struct Change {
    settings: ServerLog,
    /// `None` for standard error.
    file: Option<LineFile>,
}

/// The text for standard error of a failure that ends the program.
pub(crate) fn failure_text(message: &str) -> String {
    Style::of_stderr().failure(&format!("sluice: {message}"))
}

impl Logger {
    /// Starts to log to standard error, at level `info` or as RUST_LOG says.
    pub(crate) fn start() -> Logger {
        let queue = Arc::new(Queue::default());
        let is_json = Arc::new(AtomicBool::new(false));
        let (filter, handle) = reload::Layer::new(filter(LogLevel::Info));
        let collector = Collector {
            queue: Arc::clone(&queue),
            is_json: Arc::clone(&is_json),
        };
        let subscriber = tracing_subscriber::registry().with(filter).with(collector);
        // Fails only if there is another one: this is called once.
        let _ = tracing::subscriber::set_global_default(subscriber);
        let (recent, outbox) = (Arc::<RecentLines>::default(), Arc::<Outbox>::default());
        writer::start(
            Arc::clone(&queue),
            Style::of_stderr(),
            Arc::clone(&is_json),
            Arc::clone(&recent),
            Arc::clone(&outbox),
        );
        Logger {
            queue,
            is_json,
            filter: handle,
            recent,
            outbox,
            has_file: Cell::new(false),
        }
    }

    /// Opens the file of the settings. Nothing has changed until `apply`. A file that cannot be opened is the administrator's fault.
    pub(crate) fn prepare(&self, settings: &ServerLog) -> Result<Change, String> {
        let opened = settings.file.as_ref().map(|path| {
            LineFile::open(path, &settings.rotation).map_err(|error| format!("server log {}: {error}", path.display()))
        });
        Ok(Change {
            settings: settings.clone(),
            file: opened.transpose()?,
        })
    }

    /// Applies settings. Lines also go to standard error until `started` is called.
    pub(crate) fn apply(&self, change: Change) {
        // Relaxed: a line that is made at the same time may still be of the other kind.
        self.is_json.store(change.settings.is_json, Ordering::Relaxed);
        // Fails only without the subscriber, which lives as long as the process.
        let _ = self.filter.reload(filter(change.settings.level));
        self.has_file.set(change.file.is_some());
        self.queue.send(Command::Use(change.file.map(Box::new)));
    }

    /// The start has succeeded: if there is a file, standard error gets no more lines.
    pub(crate) fn started(&self) {
        self.queue.send(Command::LeaveStderr);
    }

    /// Writes the reason why the program ends to the file, if there is one; the caller prints it.
    pub(crate) fn record_failure(&self, message: &str) {
        if self.has_file.get() {
            self.started();
            tracing::error!("{message}");
        }
    }

    /// Where the lines of a log with these settings can be read.
    pub(crate) fn source(&self, settings: &ServerLog) -> LogSource {
        LogSource {
            file: settings.file.clone(),
            recent: Some(Arc::clone(&self.recent)),
        }
    }

    /// The lines of a supervisor that its server process does not have yet.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Adds lines that the supervisor has written to standard error.
    pub(crate) fn add_written(&self, lines: String) {
        self.queue.add(Line {
            time: SystemTime::now(),
            level: tracing::Level::INFO,
            body: Body::Written(lines),
        });
    }

    pub(crate) fn reopen(&self) {
        self.queue.send(Command::Reopen);
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        self.queue.end(END_TIMEOUT);
    }
}

/// The events to log: as RUST_LOG says, or else from this level. At `debug` libraries still log from `info`: their messages are for their authors.
fn filter(level: LogLevel) -> EnvFilter {
    let directives = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "info,sluice=debug,script=debug,watch=debug",
    };
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives))
}
