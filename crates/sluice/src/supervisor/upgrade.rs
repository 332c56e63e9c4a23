//! The steps of `sluice upgrade`, which `takeover` draws: the new program is tried, replaces this one, and starts a server process.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Supervisor;
use super::files::ServerUser;
use super::life::LifeEvent;
use super::process::{ServerProcess, start_process};
use super::reload::Prepared;
use super::start::use_log;
use sluice_report::command::CommandResult;
use sluice_server::LauncherPlan;
use sluice_settings::source::Source;

use crate::link::message::{Start, ToServer};

/// The name in the process table of a program that is only tried.
pub(crate) const TRIAL_NAME: &str = "sluice: trial";

/// How long a new program may take until it serves.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A process that may replace the server process.
pub(super) struct Candidate {
    pub(super) process: ServerProcess,
    pub(super) until: Instant,
    /// The settings that the process would take over. `None` for a program that is only tried.
    pub(super) prepared: Option<Prepared>,
    pub(super) failure: Option<String>,
}

impl Candidate {
    fn new(process: ServerProcess, prepared: Option<Prepared>) -> Candidate {
        Candidate {
            process,
            until: Instant::now() + TIMEOUT,
            prepared,
            failure: None,
        }
    }
}

impl Supervisor<'_> {
    /// Starts the program that is now at the path of this one, to see whether it could take over.
    pub(super) async fn try_program(&mut self) -> Option<LifeEvent> {
        if sluice_launch::is_any_elsewhere() {
            // execve(2) waits for every thread of this process.
            let text = "a thread of the supervisor still waits for the directory of a log or certificate, or for another file system";
            return self.fail_upgrade(text.to_owned()).await;
        }
        let process = match start_process(&mut self.children, &self.program, TRIAL_NAME, None) {
            Ok(process) => process,
            Err(error) => return self.fail_upgrade(self.cannot_be_started(&error)).await,
        };
        let start = ToServer::Start(Start {
            has_control: false,
            left: self.left().map(|left| left.text()),
            ..self.start_message(&[])
        });
        if process.send(&start, &[]).await.is_err() {
            // Its end says more than this error.
            process.kill();
        }
        self.candidate = Some(Candidate::new(process, None));
        None
    }

    /// The new program could take over: this process becomes it.
    pub(super) async fn replace_program(&mut self) {
        self.candidate = None;
        if let Some(error) = self.execute_program() {
            let text = self.cannot_be_started(&error);
            self.conclude_upgrade(Err(text)).await;
        }
        self.on(LifeEvent::UpgradeOver).await;
    }

    fn cannot_be_started(&self, error: &io::Error) -> String {
        format!("{} cannot be started: {error}", self.program.display())
    }

    /// The upgrade has failed for this reason. Returns what happens by that.
    pub(super) async fn fail_upgrade(&mut self, text: String) -> Option<LifeEvent> {
        self.conclude_upgrade(Err(text)).await;
        Some(LifeEvent::UpgradeOver)
    }

    /// Starts a server process of this program beside the earlier program's. `silent` are the paths without an answer. Returns what happens if that fails.
    pub(super) async fn start_candidate(&mut self, silent: &[PathBuf]) -> Option<LifeEvent> {
        // As at a start: a program is not kept from its successor by a file of one site.
        let prepared = match self.prepare(silent, Source::recording().tolerant()).await {
            Ok(prepared) => prepared,
            Err(text) => return self.fail_upgrade(text).await,
        };
        let user = ServerUser::of(&prepared.settings);
        // It may be another one than that of the server process that runs.
        ServerUser::make_files_elsewhere(user.as_ref(), &prepared.settings).await;
        let plan = LauncherPlan::of(&prepared.settings);
        let (process, socket) = match self.start_with_launcher(&plan, user.as_ref()).await {
            Ok(started) => started,
            Err(text) => return self.fail_upgrade(text).await,
        };
        let bound = self.sockets.of_plan(&prepared.plan);
        let mut start = self.start_message(&bound);
        start.replaces = true;
        start.supervisor.upgrades += 1;
        start.supervisor.last_end = None;
        let fds = self.given(&prepared.bundle, &socket, &bound);
        if process.send(&ToServer::Start(start), &fds).await.is_err() {
            process.kill();
        }
        drop(fds);
        self.candidate = Some(Candidate::new(process, Some(prepared)));
        None
    }

    /// The new server process serves, without what `lacks` names: the old one ends after its exchanges.
    pub(super) async fn use_candidate(&mut self, lacks: Vec<String>) {
        let Some(Candidate { process, prepared: Some(prepared), .. }) = self.candidate.take() else {
            return;
        };
        if let Err(error) = use_log(&prepared.settings.server_log, self.logger) {
            tracing::error!("{error}");
        }
        self.user = ServerUser::of(&prepared.settings);
        self.keep(prepared);
        self.history.upgrades += 1;
        let text = format!(
            "sluice {} goes on, as server process {}",
            env!("CARGO_PKG_VERSION"),
            process.pid
        );
        self.conclude_upgrade(Ok((text, lacks))).await;
        self.hand_reloads_over(process.pid).await;
        self.send(&ToServer::Drain { is_replaced: true }).await;
        self.retired.extend(self.server.replace(process));
        // What the old one has been sent it reads before its end.
        self.logger.outbox().forget();
        self.renew_kept_files();
        self.notifier.ready(&self.status());
        self.on(LifeEvent::UpgradeOver).await;
    }

    /// Has the new server process make the reloads that wait. Whoever waits for one knows only the old one, and is answered now.
    async fn hand_reloads_over(&mut self, new: i32) {
        let causes = self.causes.clone();
        if !self.forget_askers() {
            return;
        }
        let text =
            format!("server process {new} goes on, and reads the configuration now: its log says what comes of it");
        let result = Box::new(CommandResult::done_with(&text));
        self.send(&ToServer::Result { causes, result }).await;
    }

    /// The candidate cannot take over, because of what it has said, or else for this reason.
    pub(super) async fn give_up_candidate(&mut self, reason: &str) {
        let Some(failure) = self.drop_candidate() else { return };
        let text = failure.unwrap_or_else(|| format!("{}: {reason}", self.program.display()));
        self.conclude_upgrade(Err(text)).await;
        self.on(LifeEvent::UpgradeOver).await;
    }

    /// Kills the candidate, if there is one, and awaits its end as that of a process that was replaced: it may hang in the kernel, and its launcher ends
    /// with it. Returns why it cannot take over, if it has said so.
    pub(super) fn drop_candidate(&mut self) -> Option<Option<String>> {
        let Candidate { process, failure, .. } = self.candidate.take()?;
        process.kill();
        self.retired.push(process);
        Some(failure)
    }

    /// Says what came of an upgrade: what goes on, and without what; or why it is refused. The server process logs it.
    pub(super) async fn conclude_upgrade(&mut self, result: Result<(String, Vec<String>), String>) {
        let Some(cause) = self.upgrade.take() else { return };
        let result = match result {
            Ok((text, lacks)) => {
                let mut result = CommandResult::done_with(&text);
                result.messages.extend(lacks);
                result
            }
            Err(text) => {
                // They may have been given to another user.
                self.make_files().await;
                CommandResult::refused(&format!("{text}\nthe server goes on as it was"))
            }
        };
        let (causes, result) = (vec![cause], Box::new(result));
        self.send(&ToServer::Result { causes, result }).await;
    }
}
