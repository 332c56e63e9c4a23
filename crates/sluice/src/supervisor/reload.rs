//! New settings and certificates: read by the supervisor, tried by the server process, and kept if it uses them.

use std::os::fd::{AsFd, OwnedFd};

use sluice_report::command::CommandResult;
use sluice_server::LauncherPlan;
use sluice_settings::Settings;
use sluice_settings::source::{Bundle, Source};

use super::Supervisor;
use super::life::{LifeEvent, State};
use super::sockets::Plan;
use crate::certificates::Certificates;
use crate::link::memory_file;
use crate::link::message::{Cause, Reload, ToServer};
use crate::server_role::read_bundle;
use crate::users;

/// Settings that were read, with what a server process needs for them.
pub(super) struct Prepared {
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    pub(super) bundle: OwnedFd,
    pub(super) certificates: Certificates,
}

/// New settings or certificates that the server process tries.
pub(super) enum Pending {
    Settings(Box<Prepared>),
    /// The bundle with other certificates.
    Certificates(OwnedFd),
}

/// Reads a configuration, and the files that it names.
///
/// # Errors
/// Every mistake, a line for each.
pub(super) fn read(file: &std::path::Path) -> Result<(Settings, OwnedFd, Certificates), String> {
    read_from(file, &Source::recording())
}

/// Reads a configuration as `read` does, for a start.
///
/// # Errors
/// As for `read`, without the mistakes that a start tolerates.
pub(super) fn read_at_start(file: &std::path::Path) -> Result<(Settings, OwnedFd, Certificates), String> {
    read_from(file, &Source::recording().tolerant())
}

fn read_from(file: &std::path::Path, source: &Source) -> Result<(Settings, OwnedFd, Certificates), String> {
    let settings = sluice_config::load_from(file, source, |_| {}).map_err(|errors| errors.to_string())?;
    let certificates = Certificates::of(&settings);
    certificates.record(source);
    let bundle = seal(&source.recorded())?;
    Ok((settings, bundle, certificates))
}

/// The settings of a bundle that is in force.
pub(super) fn settings_of(file: &std::path::Path, bundle: &OwnedFd) -> Result<Settings, String> {
    let source = Source::given(read_bundle(bundle)?).tolerant();
    sluice_config::load_from(file, &source, |_| {}).map_err(|errors| errors.to_string())
}

/// A memory file with a bundle, which nobody can change.
fn seal(bundle: &Bundle) -> Result<OwnedFd, String> {
    let sealed = memory_file::seal("sluice-bundle", &bundle.encode());
    sealed.map_err(|error| format!("memory for the files of the configuration: {error}"))
}

impl Supervisor<'_> {
    /// Reads the configuration again, and finds or binds its sockets.
    pub(super) async fn prepare(&mut self) -> Result<Prepared, String> {
        let read =
            read(&self.file).map_err(|text| format!("{text}\nthe configuration is invalid, nothing has changed"));
        let (settings, bundle, certificates) = read?;
        // Root has said at the start that it may stay.
        users::check(&settings, true).map_err(|text| format!("{text}; nothing has changed"))?;
        if let Some(user) = self.user.clone() {
            let settings = settings.clone();
            user.do_elsewhere(move |user| user.make_files(&settings)).await;
        }
        let plan = self.sockets.plan(&settings, &mut self.activated);
        let plan = plan.map_err(|text| format!("{text}; nothing has changed"))?;
        Ok(Prepared {
            settings,
            plan,
            bundle,
            certificates,
        })
    }

    /// Reads the configuration, and has the server process use it.
    pub(super) async fn reload(&mut self) -> Option<LifeEvent> {
        let causes = std::mem::take(&mut self.causes);
        let is_served = self.server.is_some();
        if is_served {
            self.notifier.reloading();
        }
        let prepared = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(text) => {
                self.refuse(causes, &text).await;
                if is_served {
                    self.notifier.ready(&self.status());
                }
                return Some(LifeEvent::ReloadOver);
            }
        };
        if let State::BackingOff { .. } = self.life.state() {
            // The next server process starts with it.
            let file = self.file.display().to_string();
            self.keep(prepared);
            tracing::info!("{file} was read again");
            return None;
        }
        // Requests under the old settings and the new ones come at the same time.
        let mut users = prepared.settings.script_users();
        users.add(&self.launcher_plan.users);
        self.use_script_users(users).await;
        let server = self.server.as_ref()?;
        let (listen, sockets) = prepared.plan.changes(&self.sockets);
        let mut fds = vec![prepared.bundle.as_fd()];
        fds.extend(sockets);
        let sent = server.send(&ToServer::Reload(Reload { causes, listen }), &fds).await;
        drop(fds);
        if let Err(error) = sent {
            tracing::error!("reload: server process {}: {error}", server.pid);
            return Some(LifeEvent::ReloadOver);
        }
        self.pending = Some(Pending::Settings(Box::new(prepared)));
        None
    }

    /// Forgets who has asked for the reloads that wait, because their server process is gone or ends; they are made all the same. Returns
    /// whether anybody has asked.
    pub(super) fn forget_askers(&mut self) -> bool {
        let causes = self.causes.len();
        self.causes.retain(|cause| matches!(cause, Cause::Signal(_)));
        let has_any = self.causes.len() < causes;
        if has_any {
            self.causes.push(Cause::Signal("sluice reload".to_owned()));
        }
        has_any
    }

    /// Says that there is no reload. The server process logs it, because it has the log's file.
    async fn refuse(&mut self, causes: Vec<Cause>, text: &str) {
        if self.server.is_none() {
            text.lines().for_each(|line| tracing::error!("reload: {line}"));
            return;
        }
        let result = Box::new(CommandResult::refused(text));
        self.send(&ToServer::Result { causes, result }).await;
    }

    /// The server process uses the new settings, or not.
    pub(super) async fn conclude_reload(&mut self, is_done: bool) {
        let Some(Pending::Settings(prepared)) = self.pending.take() else {
            return;
        };
        let users = match is_done {
            true => prepared.settings.script_users(),
            false => self.launcher_plan.users.clone(),
        };
        self.use_script_users(users).await;
        if is_done {
            let removed = self.keep(*prepared);
            if !removed.is_empty() {
                self.send(&ToServer::Remove(removed)).await;
            }
        }
        self.notifier.ready(&self.status());
    }

    /// Keeps settings for the next server process. Returns the addresses whose sockets are closed.
    pub(super) fn keep(&mut self, prepared: Prepared) -> Vec<String> {
        self.launcher_plan = LauncherPlan::of(&prepared.settings);
        self.bundle = prepared.bundle;
        self.certificates = prepared.certificates;
        self.sockets.apply(prepared.plan)
    }

    /// Reads certificates and keys again, because their files have changed, and has the server process use them.
    pub(super) async fn renew_certificates(&mut self) {
        let source = Source::recording();
        self.certificates.record(&source);
        let bundle = read_bundle(&self.bundle).and_then(|mut bundle| {
            bundle.update(source.recorded());
            seal(&bundle)
        });
        let Some(server) = &self.server else { return };
        match bundle {
            Ok(bundle) => match server.send(&ToServer::Certificates, &[bundle.as_fd()]).await {
                Ok(()) => self.pending = Some(Pending::Certificates(bundle)),
                Err(error) => tracing::error!("certificates have changed: server process {}: {error}", server.pid),
            },
            Err(error) => tracing::error!("certificates have changed: {error}"),
        }
    }

    /// The server process uses the new certificates, or not.
    pub(super) fn conclude_certificates(&mut self, is_done: bool) {
        if let Some(Pending::Certificates(bundle)) = self
            .pending
            .take_if(|pending| matches!(pending, Pending::Certificates(_)))
            && is_done
        {
            self.bundle = bundle;
        }
    }
}
