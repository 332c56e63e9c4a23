//! The supervisor: starts the server and handles signals until the server has ended.
//!
//! | signal | effect |
//! |---|---|
//! | SIGHUP | the configuration is read again; an invalid one is reported and changes nothing. Script processes that are kept are ended, also without a configuration file |
//! | SIGUSR1 | the access logs and the server log are reopened |
//! | SIGUSR2 | the file cache is emptied, and its counters are logged |
//! | SIGTERM, SIGINT | no new connections; exchanges in progress may end within `drain_timeout`; a second signal aborts them |

use std::io;
use std::path::PathBuf;

use sluice_server::Server;
use sluice_settings::Settings;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::certificates::Certificates;
use crate::server_log::Logger;
use crate::{certificates, config};

/// The origin of the settings, which SIGHUP reads again.
pub(crate) enum Origin {
    Arguments,
    File(PathBuf),
}

/// Runs a server with these settings until a signal ends it; the log has its settings already. The error is one line for the
/// administrator.
pub(crate) fn run(settings: Settings, origin: Origin, logger: &Logger) -> Result<(), String> {
    if settings.core_dumps {
        sluice_server::allow_core_dumps().map_err(|error| format!("core_dumps: {error}"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("event loop: {error}"))?;
    runtime.block_on(supervise(settings, origin, logger))
}

async fn supervise(mut started: Settings, origin: Origin, logger: &Logger) -> Result<(), String> {
    // Before the server, so that no signal is lost while it starts.
    let mut signals = Signals::listen().map_err(|error| format!("signals: {error}"))?;
    let server = Server::start(&started).map_err(|error| error.to_string())?;
    certificates::forget_keys(&mut started);
    announce(&started, &server);
    logger.started();
    let mut settings = started.clone();
    let mut certificates = Certificates::of(&settings);
    loop {
        tokio::select! {
            event = signals.next() => match event {
                Event::Reload => {
                    if let Some(read) = reload(&server, &origin, &started, logger) {
                        for pending in needing_restart(&started, &read, server.connections_max()) {
                            tracing::warn!("SIGHUP: {pending}: this change takes effect when the server is restarted");
                        }
                        certificates = Certificates::of(&read);
                        settings = read;
                    }
                }
                Event::ReopenLogs => {
                    server.reopen_logs();
                    logger.reopen();
                }
                Event::PurgeCache => purge_cache(&server),
                Event::End => break,
            },
            () = certificates.changed() => match server.reload_certificates(&settings) {
                Ok(()) => tracing::info!("certificates have changed: the new ones are in force"),
                Err(error) => tracing::error!("certificates have changed: {error}; the old ones stay in effect"),
            }
        }
    }
    tracing::info!("draining: no new connections; a second signal ends the server at once");
    if let Some(counters) = server.cache_counters() {
        tracing::info!("cache: {counters}");
    }
    let order = server.drain();
    let mut joined = tokio::task::spawn_blocking(move || server.join());
    loop {
        tokio::select! {
            result = &mut joined => return result.map_err(|error| format!("server: {error}")),
            event = signals.next() => if let Event::End = event {
                tracing::info!("ending at once");
                order.end();
            }
        }
    }
}

/// Logs in three lines what runs, where it listens, and what it serves; at level debug each route.
fn announce(settings: &Settings, server: &Server) {
    let mut settings = settings.clone();
    for (listen, address) in settings.listen.iter_mut().zip(server.addresses()) {
        listen.address = address.clone();
    }
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!(
        workers = settings.workers,
        pid,
        "sluice {version}, {}",
        config::sources(&settings)
    );
    tracing::info!("listening on {}", config::addresses(&settings));
    tracing::info!("serving {}", config::contents(&settings));
    for line in config::describe(&settings).lines() {
        tracing::debug!("{line}");
    }
    warn(&settings);
    if sluice_server::is_root() {
        tracing::warn!(
            "running as root, so scripts run as root too: use an ordinary user if others can reach this server"
        );
    }
}

fn warn(settings: &Settings) {
    for warning in config::warnings(settings) {
        tracing::warn!("{warning}");
    }
}

fn purge_cache(server: &Server) {
    match server.purge_cache() {
        Some(counters) => tracing::info!("SIGUSR2: cache purged: {counters}"),
        None => tracing::warn!("SIGUSR2: there is no cache to purge"),
    }
}

/// Reads the configuration again. `None` if nothing has changed.
fn reload(server: &Server, origin: &Origin, started: &Settings, logger: &Logger) -> Option<Settings> {
    let Origin::File(file) = origin else {
        // A module that a script has loaded may have changed, which no check of the script's file finds.
        match server.restart_scripts(started) {
            Ok(()) => tracing::info!("SIGHUP: idle script processes have ended, busy ones end after their reply"),
            Err(error) => tracing::error!("SIGHUP: {error}; nothing has changed"),
        }
        return None;
    };
    let settings = match config::load_to_run(file, |missing| tracing::warn!("SIGHUP: {missing}")) {
        Ok(settings) => settings,
        Err(errors) => {
            for line in errors.to_string().lines() {
                tracing::error!("{line}");
            }
            tracing::error!("SIGHUP: the configuration is invalid, nothing has changed");
            return None;
        }
    };
    let counters = server.cache_counters();
    // The log's file is opened first, because that may fail, and used last.
    let reloaded = logger.prepare(&settings.server_log).and_then(|change| {
        server.reload(&settings).map_err(|error| error.to_string())?;
        Ok(change)
    });
    match reloaded {
        Ok(change) => {
            logger.apply(change);
            logger.started();
            if let Some(counters) = counters {
                tracing::info!("cache of the old configuration: {counters}");
            }
            warn(&settings);
            tracing::info!("SIGHUP: {} is in force", file.display());
            Some(settings)
        }
        Err(error) => {
            tracing::error!("SIGHUP: {error}; nothing has changed");
            None
        }
    }
}

/// The changes that need a restart, because sockets and threads are made at the start. `connections_max` is the bound in force, which
/// may be less than the configured one.
fn needing_restart(started: &Settings, read: &Settings, connections_max: usize) -> Vec<String> {
    let mut pending = Vec::new();
    for wanted in &read.listen {
        match started.listen.iter().find(|had| had.address == wanted.address) {
            None => pending.push(format!("{} is not listened on yet", wanted.address)),
            Some(had) if had.socket_mode != wanted.socket_mode => {
                pending.push(format!("{} keeps its mode", wanted.address));
            }
            Some(_) => {}
        }
    }
    for had in &started.listen {
        if read.listen.iter().all(|wanted| wanted.address != had.address) {
            pending.push(format!("{} is still listened on", had.address));
        }
    }
    if started.workers != read.workers {
        pending.push(format!("there are still {} workers", started.workers));
    }
    if started.limits.connections_max != read.limits.connections_max {
        pending.push(format!("connections is still {connections_max}"));
    }
    if started.core_dumps != read.core_dumps {
        pending.push(format!("core_dumps is still {}", started.core_dumps));
    }
    if started.limits.client_connections_max != read.limits.client_connections_max {
        let most = started.limits.client_connections_max;
        pending.push(format!("connections_per_client is still {most}"));
    }
    if started.limits.send_memory_bytes_max != read.limits.send_memory_bytes_max {
        let bytes = started.limits.send_memory_bytes_max;
        pending.push(format!("send_memory is still {bytes} bytes"));
    }
    if started.dns != read.dns {
        pending.push("dns_lookup, dns_timeout and dns_server are unchanged".to_owned());
    }
    pending
}

enum Event {
    Reload,
    ReopenLogs,
    PurgeCache,
    End,
}

struct Signals {
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.hangup.recv() => Event::Reload,
            _ = self.user1.recv() => Event::ReopenLogs,
            _ = self.user2.recv() => Event::PurgeCache,
            _ = self.terminate.recv() => Event::End,
            _ = self.interrupt.recv() => Event::End,
        }
    }
}
