//! Messages of the server role for the administrator: in the log, and in the result of a command.

use sluice_report::command::{Command, CommandResult};
use sluice_server::Server;
use sluice_server::commands::{CommandRequest, Requester};
use sluice_settings::Settings;
use tokio::sync::oneshot;

/// A command in progress: its result so far, its name for the log, and who waits for the result.
pub(super) struct Report {
    /// `SIGHUP`, `sluice reload`, or `reload by user ann from 192.0.2.1`.
    name: String,
    /// The user of the control socket.
    user: Option<u32>,
    pub(super) result: CommandResult,
    /// Several if the same change was wanted more than once. Empty for a signal.
    waiting: Vec<oneshot::Sender<CommandResult>>,
}

impl Report {
    /// The report on a command that nobody waits for: of a signal.
    pub(super) fn of_signal(name: &str) -> Report {
        Report {
            name: name.to_owned(),
            user: None,
            result: CommandResult::done(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn of_request(request: CommandRequest) -> (Command, Report) {
        let name = request.command.name();
        let (name, user) = match request.requester {
            Requester::SystemUser(user) => (format!("sluice {name}"), Some(user)),
            Requester::Visitor(visitor) => (format!("{name} by {visitor}"), None),
        };
        let report = Report {
            name,
            user,
            result: CommandResult::done(),
            waiting: vec![request.answer],
        };
        (request.command, report)
    }

    /// The same change was wanted by an earlier command, whose name the log has.
    pub(super) fn join(&mut self, earlier: Report) {
        (self.name, self.user) = (earlier.name, earlier.user);
        self.waiting.extend(earlier.waiting);
    }

    /// A line for `status` if the command was refused.
    pub(super) fn refusal(&self) -> Option<String> {
        let first = self.result.messages.first().filter(|_| !self.result.ok)?;
        Some(format!("{} was refused: {first}", self.name))
    }

    /// Sends the result to all who wait for it. They may have gone.
    pub(super) fn finish(self) {
        for waiting in self.waiting {
            drop(waiting.send(self.result.clone()));
        }
    }

    pub(super) fn info(&mut self, text: &str) {
        tracing::info!(user = self.user, "{}: {text}", self.name);
        self.result.messages.push(text.to_owned());
    }

    pub(super) fn warn(&mut self, text: &str) {
        tracing::warn!(user = self.user, "{}: {text}", self.name);
        self.result.messages.push(text.to_owned());
    }

    /// A part of the command has no effect for this reason.
    pub(super) fn error(&mut self, text: &str) {
        tracing::error!(user = self.user, "{}: {text}", self.name);
        self.result.messages.push(text.to_owned());
    }

    /// The command has no effect for this reason.
    pub(super) fn fail(&mut self, text: &str) {
        self.result.ok = false;
        text.lines().for_each(|line| self.error(line));
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
        let advice = match settings.config_files.is_empty() {
            true => "use an ordinary user (runuser -u www-data -- sluice serve …)",
            false => "write user = \"www-data\" in [server], or use an ordinary user,",
        };
        tracing::warn!("running as root, {scripts}: {advice} if others can reach this server");
    }
}

pub(super) fn warn(settings: &Settings) {
    for warning in sluice_config::warnings(settings) {
        tracing::warn!("{warning}");
    }
}
