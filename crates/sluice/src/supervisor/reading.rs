//! Reading a configuration whose file systems may not answer: another process reads it first, and says which paths were not answered for.
//!
//! ```text
//! supervisor ── file ──▶ sluice: reader      asks for each path on a thread that may be lost
//!            ◀── paths that do not answer    (at most some seconds later)
//!      reads the configuration itself, and does not ask for these
//! ```
//! A thread that waits for a file system in user space can be killed by nobody, and the process ends with its last thread. So the supervisor, which must
//! be able to end and to be replaced, leaves this wait to a process that nobody needs afterwards; meanwhile it obeys signals, restarts its server process
//! and reports.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_report::command::CommandResult;

use super::Supervisor;
use super::children::{Children, READER_NAME};
use super::life::{LifeEvent, State};
use super::process::{OWN_PROGRAM, ServerProcess, start_process};
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
    process: ServerProcess,
    purpose: Purpose,
    pub(super) until: Instant,
}

impl Reading {
    async fn start(children: &mut Children, file: &Path, purpose: Purpose) -> io::Result<Reading> {
        let process = start_process(children, OWN_PROGRAM.as_ref(), READER_NAME, None)?;
        let reading = Reading {
            process,
            purpose,
            until: Instant::now() + TIMEOUT,
        };
        // A relative path is one from the directory of the supervisor, which the process has, too.
        reading.process.send(&file, &[]).await?;
        Ok(reading)
    }

    /// The paths that were not answered for. None if the process has failed: then whoever reads the configuration waits for them.
    pub(super) async fn silent(reading: Option<&mut Reading>) -> Vec<PathBuf> {
        match reading {
            Some(reading) => match reading.process.channel.next().await {
                Ok(Some(Received { message, .. })) => message,
                Ok(None) | Err(_) => Vec::new(),
            },
            None => std::future::pending().await,
        }
    }

    /// Reads a file for the first start, when nothing else is to be done.
    /// Fails if it takes too long.
    pub(super) async fn before_start(children: &mut Children, file: &Path) -> Result<Vec<PathBuf>, String> {
        let Ok(mut reading) = Reading::start(children, file, Purpose::Reload).await else {
            return Ok(Vec::new());
        };
        let silent = tokio::time::timeout(TIMEOUT, Reading::silent(Some(&mut reading))).await;
        silent.map_err(|_| {
            reading.process.kill();
            too_long(file)
        })
    }
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
                tracing::warn!("the configuration is not read by a process of its own: {error}");
                // Boxed, because it may lead here again.
                Box::pin(self.read(purpose, &[])).await
            }
        }
    }

    pub(super) async fn on_read(&mut self, silent: &[PathBuf]) {
        let Some(reading) = self.reading.take() else { return };
        if let Some(event) = self.read(reading.purpose, silent).await {
            self.on(event).await;
        }
    }

    pub(super) async fn give_up_reading(&mut self) {
        let Some(reading) = self.reading.take() else { return };
        reading.process.kill();
        let text = format!("{}; nothing has changed", too_long(&self.file));
        let event = match reading.purpose {
            Purpose::Reload => self.refuse_reload(&text).await,
            Purpose::Candidate => {
                self.conclude_upgrade(Err(text)).await;
                Some(LifeEvent::UpgradeOver)
            }
        };
        if let Some(event) = event {
            self.on(event).await;
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
