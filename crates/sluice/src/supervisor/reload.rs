//! New settings and certificates: read by the supervisor, tried by the server process, and kept if it uses them.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use sluice_launch::deadline;
use sluice_server::LauncherPlan;
use sluice_settings::Settings;
use sluice_settings::source::{Bundle, Source};

use super::Supervisor;
use super::activation::Activated;
use super::files::ServerUser;
use super::life::{ANSWER_TIMEOUT, LifeEvent, State};
use super::reading::Purpose;
use super::sockets::Plan;
use crate::certificates::{Certificates, ReadFiles, credentials};
use crate::link::memory_file;
use crate::link::message::{Cause, Reload, ToServer};
use crate::server_role::read_bundle;
use crate::users;

/// Settings that were read, with what a server process needs for them.
pub(super) struct Prepared {
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    pub(super) bundle: OwnedFd,
    /// The files with the content of before, because the one of now cannot be used.
    pub(super) kept: Vec<PathBuf>,
    pub(super) certificates: Certificates,
}

/// New settings and certificates that the server process tries. It answers them in the order in which they were sent.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) settings: Option<Box<Prepared>>,
    /// The bundle with other certificates.
    pub(super) certificates: Option<OwnedFd>,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.settings.is_none() && self.certificates.is_none()
    }
}

/// Reads a configuration and its files (`Source::recording`); call it with a deadline. The error has a line for each mistake; a silent file system is one.
pub(super) fn read(file: &Path, source: &Source) -> Result<(Settings, OwnedFd, Certificates), String> {
    let settings = sluice_config::load_from(file, source, |_| {}).map_err(|errors| errors.to_string())?;
    let certificates = Certificates::of(&settings);
    source.note_unread(&certificates.record(source));
    // The server process reads them, and has to know whose they are.
    let limits = settings.routes().flat_map(|route| route.changes.access.limits());
    let files = limits.flat_map(|access| access.source.secret_files());
    let _ = source.tolerates(&files.collect::<Vec<_>>());
    source.note_silent(&deadline::silent_paths());
    Ok((settings, seal(&source.recorded())?, certificates))
}

/// Does something with a deadline, and does not ask for these paths.
pub(super) fn with_deadline<T>(silent: &[PathBuf], work: impl FnOnce() -> T) -> T {
    deadline::with_deadline(|| {
        deadline::assume_silence(silent);
        work()
    })
}

/// The settings of a bundle that is in force.
pub(super) fn settings_of(file: &Path, bundle: &OwnedFd) -> Result<Settings, String> {
    let bundle = read_bundle(bundle)?;
    with_deadline(&bundle.silent(), || {
        let source = Source::given(bundle.clone()).tolerant();
        sluice_config::load_from(file, &source, |_| {}).map_err(|errors| errors.to_string())
    })
}

/// The settings of a bundle, if this program can use them, and the files of their certificates.
pub(super) fn settings_and_certificates_of(file: &Path, bundle: &OwnedFd) -> (Option<Settings>, Certificates) {
    let settings = settings_of(file, bundle).ok();
    let certificates = settings
        .as_ref()
        .map(|settings| deadline::with_deadline(|| Certificates::of(settings)));
    let mut certificates = certificates.unwrap_or_default();
    // They may have changed since the program before this one has looked; used if the upgrade fails.
    if !certificates.files().is_empty() {
        certificates.begin_reading();
    }
    (settings, certificates)
}

/// A memory file with a bundle, which nobody can change.
fn seal(bundle: &Bundle) -> Result<OwnedFd, String> {
    let sealed = memory_file::seal("sluice-bundle", &bundle.encode());
    sealed.map_err(|error| format!("memory for the files of the configuration: {error}"))
}

impl Supervisor<'_> {
    /// Reads the configuration again, with `Source::recording`, and finds or binds its sockets. `silent` are the paths that are not answered for.
    pub(super) async fn prepare(&mut self, silent: &[PathBuf], source: Source) -> Result<Prepared, String> {
        let read = with_deadline(silent, || read(&self.file, &source));
        let read = read.map_err(|text| format!("{text}\nthe configuration is invalid, nothing has changed"));
        let (settings, bundle, certificates) = read?;
        // Root has said at the start that it may stay, if there is no other user.
        users::check(&settings, self.user.is_none()).map_err(|text| format!("{text}; nothing has changed"))?;
        ServerUser::make_files_elsewhere(self.user.as_ref(), &settings).await;
        // Those that systemd has passed were all used at the start.
        let plan = with_deadline(silent, || self.sockets.plan(&settings, &mut Activated::default()));
        let plan = plan.map_err(|text| format!("{text}; nothing has changed"))?;
        let kept = with_deadline(silent, || self.usable_files(&settings, &bundle, &source));
        let with_kept = kept.and_then(|kept| Ok((self.bundle_with(&kept, &bundle)?, kept)));
        let (bundle, kept) = with_kept.map_err(|text| format!("{text}; nothing has changed"))?;
        Ok(Prepared { settings, plan, bundle, kept, certificates })
    }

    /// The files of certificates that are in use, if what is there now cannot be used, and that is tolerated: they may be about to be replaced.
    fn usable_files(&self, settings: &Settings, new: &OwnedFd, source: &Source) -> Result<Vec<PathBuf>, String> {
        let before = Source::given(read_bundle(&self.bundle)?);
        let now = Source::given(read_bundle(new)?);
        let mut usable = Vec::new();
        for credential in credentials(settings) {
            let files = credential.files();
            if credential.check(&now).is_err()
                && source.tolerates(&files)
                && files.iter().all(|file| before.has(file))
                && credential.check(&before).is_ok()
            {
                usable.extend(files.into_iter().cloned());
            }
        }
        Ok(usable)
    }

    pub(super) async fn begin_reload(&mut self) -> Option<LifeEvent> {
        if self.pending.settings.is_some() {
            let text =
                "the server process has not answered the last reload, and may still carry it out; nothing has changed";
            return self.refuse_reload(text).await;
        }
        if self.server.is_some() {
            self.notifier.reloading();
        }
        self.begin_reading(Purpose::Reload).await
    }

    /// Reads the configuration, and has the server process use it. `silent` are the paths that are not answered for.
    pub(super) async fn reload(&mut self, silent: &[PathBuf]) -> Option<LifeEvent> {
        let prepared = match self.prepare(silent, Source::recording().tolerating_others()).await {
            Ok(prepared) => prepared,
            Err(text) => return self.refuse_reload(&text).await,
        };
        let causes = std::mem::take(&mut self.causes);
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
        self.pending.settings = Some(Box::new(prepared));
        None
    }

    /// The server process has not answered a reload in time. It may still do so: then its settings are kept.
    pub(super) fn forget_reload(&self) -> LifeEvent {
        tracing::error!(
            "reload: server process {} has not answered for {} s; it goes on as it was until it does",
            self.server_pid(),
            ANSWER_TIMEOUT.as_secs()
        );
        self.notifier.ready(&self.status());
        LifeEvent::ReloadOver
    }

    /// Forgets who asked for the reloads that wait, because their server process ends; they are made all the same. Returns whether anybody has asked.
    pub(super) fn forget_askers(&mut self) -> bool {
        let causes = self.causes.len();
        self.causes.retain(|cause| matches!(cause, Cause::Signal(_)));
        let has_any = self.causes.len() < causes;
        if has_any {
            self.causes.push(Cause::Signal("sluice reload".to_owned()));
        }
        has_any
    }

    /// The server process uses the new settings, or not.
    pub(super) async fn conclude_reload(&mut self, is_done: bool) {
        let Some(prepared) = self.pending.settings.take() else {
            return;
        };
        let users = match is_done {
            true => prepared.settings.script_users(),
            false => self.launcher_plan.users.clone(),
        };
        self.use_script_users(users).await;
        if is_done {
            let removed = self.keep(*prepared);
            self.renew_kept_files();
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
        self.kept_files = prepared.kept;
        self.certificates = prepared.certificates;
        self.sockets.apply(prepared.plan)
    }

    /// Has the server process use certificates and keys that have been read again.
    pub(super) async fn renew_certificates(&mut self, read: ReadFiles) {
        let bundle = read_bundle(&self.bundle).and_then(|mut bundle| {
            bundle.update(read.bundle);
            seal(&bundle)
        });
        let Some(server) = &self.server else { return };
        let certificates = ToServer::Certificates { unread: read.unread };
        match bundle {
            Ok(bundle) => match server.send(&certificates, &[bundle.as_fd()]).await {
                Ok(()) => self.pending.certificates = Some(bundle),
                Err(error) => tracing::error!("certificates have changed: server process {}: {error}", server.pid),
            },
            Err(error) => tracing::error!("certificates have changed: {error}"),
        }
    }

    /// Has another server process report what it cannot use of the files, as the one before it did.
    pub(super) fn renew_kept_files(&mut self) {
        if !self.kept_files.is_empty() {
            self.certificates.begin_reading();
        }
    }

    /// The server process uses the new certificates, but for the files in `kept`; or not, if that is `None`.
    pub(super) fn conclude_certificates(&mut self, kept: Option<&[PathBuf]>) {
        let (Some(new), Some(kept)) = (self.pending.certificates.take(), kept) else {
            return;
        };
        // It may keep nothing else of the configuration as it was.
        let is_watched = |file: &&PathBuf| self.certificates.files().contains(file);
        self.kept_files = kept.iter().filter(is_watched).cloned().collect();
        match self.bundle_with(&self.kept_files, &new) {
            Ok(bundle) => self.bundle = bundle,
            Err(error) => tracing::error!("certificates have changed: {error}"),
        }
    }

    /// A bundle with the content, in the bundle in force, of the files whose new content cannot be used.
    fn bundle_with(&self, kept: &[PathBuf], new: &OwnedFd) -> Result<OwnedFd, String> {
        let mut bundle = read_bundle(new)?;
        bundle.keep(kept, &read_bundle(&self.bundle)?);
        seal(&bundle)
    }
}
