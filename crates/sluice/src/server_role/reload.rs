//! New settings and certificates for the running server, as the supervisor sends them.

use std::os::fd::OwnedFd;
use std::path::Path;

use sluice_launch::deadline;
use sluice_net::addresses::AddressSockets;
use sluice_net::listener::Bound;
use sluice_settings::limits::Limits;
use sluice_settings::notation;
use sluice_settings::source::Source;
use sluice_settings::{ListenSettings, Settings, UserSettings};

use super::report::Report;
use super::supervised::{PassedFds, read_bundle};
use super::{CHANGE, Role};
use crate::link::message::{FromServer, Listen, Reload};
use crate::served_directories::ServedDirectories;

impl Role<'_> {
    /// Uses the settings of a bundle, and says whether that succeeded.
    pub(super) async fn reload_with(&mut self, reload: Reload, fds: Vec<OwnedFd>) {
        let Some(link) = &mut self.link else { return };
        let mut report = link.report_of(&reload.causes);
        let file = link.file().to_owned();
        // A directory whose file system does not answer is opened later.
        let applied = deadline::with_deadline(|| {
            let mut lacks = Vec::new();
            let (read, directories) = self.apply(&file, &reload.listen, fds, &mut report, &mut lacks)?;
            let configuration = sluice_config::report(&listening(&read, &reload.listen));
            Some((read, directories, lacks, configuration))
        });
        if let Some((read, directories, lacks, configuration)) = applied {
            for pending in needing_restart(&self.started, &read, self.server.connections_max()) {
                report.warn(&format!(
                    "{pending}: this change takes effect when the server is restarted or upgraded (\"systemctl restart sluice\", or \"sluice upgrade\")"
                ));
            }
            self.server.describe(configuration);
            self.server.show_server_log(self.logger.source(&read.server_log));
            (self.settings, self.directories, self.lacks) = (read, directories, lacks);
        }
        let is_done = report.result.ok;
        self.server.note_faults(CHANGE, report.refusal().into_iter().collect());
        report.finish();
        self.send(&FromServer::Reloaded { is_done }).await;
    }

    /// Reads the settings of a bundle and has the server use them. `None` if they cannot be used: then nothing has changed. `lacks` gets a line about each
    /// directory, program and engine that does not exist.
    fn apply(
        &self,
        file: &Path,
        listen: &[Listen],
        fds: Vec<OwnedFd>,
        report: &mut Report,
        lacks: &mut Vec<String>,
    ) -> Option<(Settings, ServedDirectories)> {
        let counters = self.server.cache_counters();
        let applied = self.try_apply(file, listen, fds, lacks);
        lacks.iter().for_each(|missing| report.warn(missing));
        match applied {
            Ok((settings, directories)) => {
                if let Some(counters) = counters {
                    tracing::info!("cache of the old configuration: {counters}");
                }
                sluice_config::warnings(&settings)
                    .iter()
                    .for_each(|warning| report.warn(warning));
                self.server.note_faults(CHANGE, Vec::new());
                self.server.faults().iter().for_each(|fault| report.error(fault));
                report.info(&format!("{} is in force", file.display()));
                if let Some(added) = added_addresses(&settings, listen) {
                    report.info(&format!("listening also on {added}"));
                }
                Some((settings, directories))
            }
            Err(error) => {
                report.fail(&format!("{error}; nothing has changed"));
                None
            }
        }
    }

    fn try_apply(
        &self,
        file: &Path,
        listen: &[Listen],
        fds: Vec<OwnedFd>,
        lacks: &mut Vec<String>,
    ) -> Result<(Settings, ServedDirectories), String> {
        let mut taken = PassedFds::new(fds);
        let bundle = read_bundle(&taken.one()?)?;
        deadline::expect_silence(&bundle.silent());
        let source = Source::given(bundle).tolerating_others();
        let settings = sluice_config::load_from(file, &source, |missing| lacks.push(missing.to_owned()));
        let settings = settings.map_err(|errors| errors.to_string())?;
        let mut sockets = Vec::new();
        for (wanted, listen) in settings.listen.iter().zip(listen) {
            sockets.push(match listen.sockets {
                0 => AddressSockets::Kept(listen.address.clone()),
                count => {
                    let bound = Bound::of_sockets(&wanted.address, taken.several(count)?);
                    AddressSockets::New(bound.map_err(|error| format!("listen on {}: {error}", wanted.address))?)
                }
            });
        }
        // The log's file is opened first, because that may fail, and used last.
        let change = self.logger.prepare(&settings.server_log)?;
        let directories = ServedDirectories::of(&settings);
        self.server
            .reload(&settings, sockets)
            .map_err(|error| error.to_string())?;
        self.logger.apply(change);
        self.logger.started();
        Ok((settings, directories))
    }

    pub(super) async fn send(&mut self, message: &FromServer) {
        if let Some(link) = &mut self.link {
            link.send(message).await;
        }
    }

    /// Says that the workers answer, if they do: the watchdog of systemd waits for it.
    pub(super) async fn say_alive(&mut self) {
        if self.server.operator().do_workers_answer().await {
            self.send(&FromServer::Alive).await;
        }
    }
}

/// The settings with the addresses that the supervisor has bound, whose ports the system may have chosen.
fn listening(settings: &Settings, bound: &[Listen]) -> Settings {
    let mut settings = settings.clone();
    for (listen, bound) in settings.listen.iter_mut().zip(bound) {
        if let Ok(address) = notation::parse_address(&bound.address) {
            listen.address = address;
        }
    }
    settings
}

/// The addresses that a reload has added, for the log.
fn added_addresses(settings: &Settings, bound: &[Listen]) -> Option<String> {
    let mut added = listening(settings, bound);
    let mut is_added = bound.iter().map(|bound| bound.sockets > 0);
    added.listen.retain(|_| is_added.next().unwrap_or(false));
    let is_default = matches!(settings.listen.as_slice(), [only] if only.address == sluice_config::DEFAULT_ADDRESS);
    match (added.listen.is_empty(), is_default) {
        (true, _) => None,
        // A configuration without [[listen]], perhaps by mistake.
        (false, true) => Some(format!("{} (the default address)", sluice_config::addresses(&added))),
        (false, false) => Some(sluice_config::addresses(&added)),
    }
}

/// The changes that need a restart, because threads and tables are made at the start. `connections_max` is the bound in force, which
/// may be less than the configured one. Every setting is named here and in the functions below, so that a new one cannot be forgotten: `_`
/// is for those that a reload puts into force.
fn needing_restart(started: &Settings, read: &Settings, connections_max: usize) -> Vec<String> {
    let Settings {
        listen,
        workers,
        sites: _,
        unknown_hosts: _,
        limits,
        spool_directory: _,
        state_directory,
        proxies: _,
        dns,
        cache: _,
        access_log: _,
        server_log: _,
        config_files: _,
        warnings: _,
        source: _,
        core_dumps,
        control,
        watch: _,
        users: UserSettings { server, scripts: _, owners: _ },
    } = started;
    let modes = read.listen.iter().filter(|wanted| changes_mode(listen, wanted));
    let mut pending: Vec<String> = modes
        .map(|wanted| format!("{} keeps its mode", wanted.address))
        .collect();
    let mut check = |is_changed: bool, text: String| pending.extend(is_changed.then_some(text));
    check(*workers != read.workers, format!("there are still {workers} workers"));
    check_limits(limits, &read.limits, connections_max, &mut check);
    check(*server != read.users.server, "user is unchanged".to_owned());
    check(*control != read.control, "control is unchanged".to_owned());
    check(
        *state_directory != read.state_directory,
        "state_directory is unchanged".to_owned(),
    );
    check(
        *core_dumps != read.core_dumps,
        format!("core_dumps is still {core_dumps}"),
    );
    check(
        *dns != read.dns,
        "dns_lookup, dns_timeout and dns_server are unchanged".to_owned(),
    );
    pending
}

fn check_limits(started: &Limits, read: &Limits, connections_max: usize, check: &mut impl FnMut(bool, String)) {
    let Limits {
        connections_max: connections,
        client_connections_max: per_client,
        head_bytes_max: _,
        head_fields_max: _,
        body_bytes_max: _,
        head_timeout: _,
        body_timeout: _,
        body_bytes_per_second_min: _,
        send_timeout: _,
        send_bytes_per_second_min: _,
        half_close_timeout: _,
        send_memory_bytes_max: send_memory,
        stored_bodies_bytes_max: _,
        memory_buffers_bytes_max: _,
        processes_max: _,
        processes_soft_max: _,
        has_cgroups,
        drain_timeout: _,
        launcher_timeout: _,
        log_lines_max: _,
        script_log_bytes_max: _,
    } = started;
    check(
        *connections != read.connections_max,
        format!("connections is still {connections_max}"),
    );
    check(
        *per_client != read.client_connections_max,
        format!("connections_per_client is still {per_client}"),
    );
    check(
        *has_cgroups != read.has_cgroups,
        format!("cgroups is still {has_cgroups}"),
    );
    check(
        *send_memory != read.send_memory_bytes_max,
        format!("send_memory is still {send_memory} bytes"),
    );
}

/// Whether an address would have another mode than the one of its socket, which was bound before.
fn changes_mode(started: &[ListenSettings], wanted: &ListenSettings) -> bool {
    let ListenSettings {
        address,
        socket_mode,
        proxy_protocol: _,
        tls: _,
        http2: _,
        redirect_to_https: _,
    } = wanted;
    let had = started.iter().find(|had| had.address == *address);
    had.is_some_and(|had| had.socket_mode != *socket_mode)
}
