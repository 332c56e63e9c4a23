//! What the server role tells the administrator: in the log, and in the answer to who has given a command.

use sluice_server::Server;
use sluice_settings::Settings;

use crate::control::Answer;

/// What a command does, for the log and for who has given it.
pub(super) struct Report {
    /// `SIGHUP`, `sluice reload`, or `reload by user ann from 192.0.2.1`.
    pub(super) name: String,
    /// The user of the control socket.
    pub(super) user: Option<u32>,
    pub(super) answer: Answer,
}

impl Report {
    pub(super) fn new(name: String, user: Option<u32>) -> Report {
        Report {
            name,
            user,
            answer: Answer {
                ok: true,
                ..Answer::default()
            },
        }
    }

    pub(super) fn info(&mut self, text: &str) {
        tracing::info!(user = self.user, "{}: {text}", self.name);
        self.answer.messages.push(text.to_owned());
    }

    pub(super) fn warn(&mut self, text: &str) {
        tracing::warn!(user = self.user, "{}: {text}", self.name);
        self.answer.messages.push(text.to_owned());
    }

    /// The command has no effect for this reason.
    pub(super) fn fail(&mut self, text: &str) {
        self.answer.ok = false;
        for line in text.lines() {
            tracing::error!(user = self.user, "{}: {line}", self.name);
            self.answer.messages.push(line.to_owned());
        }
    }
}

/// The settings with the addresses that the server listens on, whose ports the system may have chosen.
pub(super) fn listened(settings: &Settings, server: &Server) -> Settings {
    let mut settings = settings.clone();
    for (listen, address) in settings.listen.iter_mut().zip(server.addresses()) {
        listen.address = address.clone();
    }
    settings
}

/// Logs in three lines what runs (`pid` gets signals), where it listens, and what it serves; at level debug each route.
pub(super) fn announce(settings: &Settings, server: &Server, pid: u32) {
    let settings = listened(settings, server);
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(
        workers = settings.workers,
        pid,
        "sluice {version}, {}",
        sluice_config::sources(&settings)
    );
    tracing::info!("listening on {}", sluice_config::addresses(&settings));
    tracing::info!("serving {}", sluice_config::contents(&settings));
    for line in sluice_config::describe(&settings).lines() {
        tracing::debug!("{line}");
    }
    warn(&settings);
    let scripts = match &settings.users.scripts {
        Some(user) => format!("only scripts do not (script_user = \"{}\")", user.name),
        None => "so scripts run as root too".to_owned(),
    };
    if sluice_launch::is_root() {
        tracing::warn!(
            "running as root, {scripts}: write user = \"www-data\" in [server], or use an ordinary user, if others can reach this server"
        );
    }
}

pub(super) fn warn(settings: &Settings) {
    for warning in sluice_config::warnings(settings) {
        tracing::warn!("{warning}");
    }
}
