//! Reading a configuration whose file systems may not answer: another process reads it first, and says which paths were not answered for.
//!
//! ```text
//! supervisor ── file ──▶ sluice: reader      asks for each path on a thread that may be lost
//!            ◀── paths that do not answer    (at most some seconds later)
//!      reads the configuration itself, and does not ask for these
//! ```
//! A thread that waits for a file system in user space can be killed by nobody, and the process ends with its last thread. So the supervisor, which must
//! be able to end and to be replaced, leaves this wait to a process that nobody needs afterwards; meanwhile it obeys signals, restarts its server process
//! and reports. A reader that dies, for want of memory for example, makes the start or reload fail: the supervisor must not read what has killed it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_report::command::CommandResult;
use tokio::signal::unix::Signal;
use tokio::time::timeout;

use super::children::{Children, Ended, READER_NAME, describe};
use super::life::{LifeEvent, State};
use super::process::{OWN_PROGRAM, ServerProcess, start_process};
use super::{LAST_WORDS, Supervisor, next_of};
use crate::link::channel::Received;
use crate::link::message::ToServer;

/// How long the other process may take. It waits for file systems for some seconds less.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Reload,
    /// A server process that is to replace the one of the program before (`upgrade`).
    Candidate,
}

pub(super) struct Reading {
    pub(super) process: ServerProcess,
    purpose: Purpose,
    pub(super) until: Instant,
}

impl Reading {
    async fn start(children: &mut Children, file: &Path, purpose: Purpose) -> io::Result<Reading> {
        let process = start_process(children, OWN_PROGRAM.as_ref(), READER_NAME, None)?;
        let reading = Reading { process, purpose, until: Instant::now() + TIMEOUT };
        // A relative path is one from the directory of the supervisor, which the process has, too.
        if reading.process.send(&file, &[]).await.is_err() {
            // Its end says more than this error.
            reading.process.kill();
        }
        Ok(reading)
    }

    /// Has a process read a file for the first start, when nothing else is to be done. `child` gets SIGCHLD. Returns the paths that were not answered for.
    /// Fails if the process dies or takes too long.
    pub(super) async fn before_start(
        children: &mut Children,
        child: &mut Signal,
        file: &Path,
    ) -> Result<Vec<PathBuf>, String> {
        let started = Reading::start(children, file, Purpose::Reload).await;
        let mut reading = started.map_err(|error| format!("a process that reads the configuration: {error}"))?;
        let read = async {
            if let Some(Received { message, .. }) = next_of(Some(&mut reading.process)).await {
                return Ok(message);
            }
            loop {
                let mut ended = children.reap().into_iter();
                if let Some(ended) = ended.find(|ended| ended.pid == reading.process.pid) {
                    return Err(died(file, &ended));
                }
                child.recv().await;
            }
        };
        timeout(TIMEOUT, read).await.unwrap_or_else(|_| {
            reading.process.kill();
            Err(too_long(file))
        })
    }
}

fn died(file: &Path, ended: &Ended) -> String {
    format!(
        "{}: the process that reads it {}",
        file.display(),
        describe(ended.status)
    )
}

fn too_long(file: &Path) -> String {
    format!(
        "{}: reading it takes more than {} s: a file system that it needs does not answer",
        file.display(),
        TIMEOUT.as_secs()
    )
}

impl Supervisor<'_> {
    /// Has another process read the configuration. Returns what happens if that fails.
    pub(super) async fn begin_reading(&mut self, purpose: Purpose) -> Option<LifeEvent> {
        if self.reading.is_some() {
            // What is read then is newer than this wish.
            return None;
        }
        match Reading::start(&mut self.children, &self.file, purpose).await {
            Ok(reading) => {
                self.reading = Some(reading);
                None
            }
            Err(error) => {
                let text = format!("a process that reads the configuration: {error}");
                self.refuse_reading(purpose, &text).await
            }
        }
    }

    /// Reads the configuration, after another process has said which paths it was not answered for.
    pub(super) async fn on_read(&mut self, silent: &[PathBuf]) {
        let Some(reading) = self.reading.take() else { return };
        if let Some(event) = self.read(reading.purpose, silent).await {
            self.on(event).await;
        }
    }

    /// A child has ended. The process that reads the configuration may have said something before.
    pub(super) async fn on_reader_end(&mut self, ended: &Ended) {
        let is_it = |reading: &mut Reading| reading.process.pid == ended.pid;
        let Some(mut reading) = self.reading.take_if(is_it) else {
            return;
        };
        let said = timeout(LAST_WORDS, next_of::<Vec<PathBuf>>(Some(&mut reading.process))).await;
        let event = match said {
            Ok(Some(Received { message, .. })) => self.read(reading.purpose, &message).await,
            _ => self.refuse_reading(reading.purpose, &died(&self.file, ended)).await,
        };
        if let Some(event) = event {
            self.on(event).await;
        }
    }

    pub(super) async fn give_up_reading(&mut self) {
        let Some(reading) = self.reading.take() else { return };
        reading.process.kill();
        if let Some(event) = self.refuse_reading(reading.purpose, &too_long(&self.file)).await {
            self.on(event).await;
        }
    }

    /// Refuses that for which the configuration could not be read. Returns what happens by that.
    async fn refuse_reading(&mut self, purpose: Purpose, text: &str) -> Option<LifeEvent> {
        let text = format!("{text}; nothing has changed");
        match purpose {
            Purpose::Reload => self.refuse_reload(&text).await,
            Purpose::Candidate => self.fail_upgrade(text).await,
        }
    }

    /// Forgets what was to be read: the server ends, or the process for which it was read has ended.
    pub(super) fn forget_reading(&mut self, purposes: &[Purpose]) {
        if let Some(reading) = self.reading.take_if(|reading| purposes.contains(&reading.purpose)) {
            reading.process.kill();
        }
    }

    async fn read(&mut self, purpose: Purpose, silent: &[PathBuf]) -> Option<LifeEvent> {
        match (purpose, self.life.state()) {
            (Purpose::Candidate, _) => self.start_candidate(silent).await,
            (Purpose::Reload, State::Reloading | State::BackingOff { .. }) => self.reload(silent).await,
            (Purpose::Reload, State::Draining { .. } | State::Ended) => None,
            // Another server process has been started meanwhile: it reloads when it serves.
            (Purpose::Reload, State::Starting | State::Serving | State::Upgrading) => Some(LifeEvent::Reload),
        }
    }

    /// Refuses the reloads that were asked for. Returns what happens by that.
    pub(super) async fn refuse_reload(&mut self, text: &str) -> Option<LifeEvent> {
        let causes = std::mem::take(&mut self.causes);
        match self.server {
            None => text.lines().for_each(|line| tracing::error!("reload: {line}")),
            // It logs it, because it has the log's file.
            Some(_) => {
                let result = Box::new(CommandResult::refused(text));
                self.send(&ToServer::Result { causes, result }).await;
                self.notifier.ready(&self.status());
            }
        }
        Some(LifeEvent::ReloadOver)
    }
}
