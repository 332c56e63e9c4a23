//! The settings of a server: plain data that the program makes from its configuration and arguments.
//!
//! Nothing here opens, binds or checks anything; `sluice_server::dispatch` and `sluice_net::listener` do, and their messages name a setting's `origin`.

mod client;
mod directory;
mod engine;
mod links;
mod listen;
mod log;
mod programs;
mod route;
mod script;
mod script_limits;
mod site;
mod users;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

pub use client::{DnsSettings, ProxySettings};
pub use directory::{Convert, DirectorySettings, Fallback, RecordSettings, SuffixScripts, suffix_of};
pub use engine::{Engine, EngineSettings, module_files};
pub use links::FollowLinks;
pub use listen::{
    AuthoritySettings, ClientCertificates, IdentitySettings, IdentitySource, ListenSettings, TlsSettings,
};
pub use log::{AccessLog, LogLevel, LogTarget, Rotation, ServerLog};
pub use programs::{PlannedAgent, ProgramSettings, ProgramSource};
pub use route::{Action, RefusalSettings, RouteSettings};
pub use script::{
    Mailbox, Mode, PoolSettings, RequestBody, ScriptOutput, ScriptSettings, ScriptSource, ScriptTimeouts,
    ScriptVariables,
};
pub use script_limits::{PermittedFiles, ScriptLimits};
pub use site::{BACKUP_NAMES, ErrorDetail, ErrorSettings, FileSettings, SiteSettings, Statuses};
pub use sluice_http::forwarded::ForwardedField;
pub use users::{OwnerSettings, ScriptUser, ScriptUserSettings, User, UserSettings};

use crate::cache::CacheSettings;
use crate::limits::Limits;
use crate::source::Source;

/// The settings of one running server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The addresses to listen on, at least one.
    pub listen: Vec<ListenSettings>,
    /// The number of threads with an event loop.
    pub workers: NonZeroUsize,
    /// Virtual hosts, at least one; the first one also serves hosts that no site names.
    pub sites: Vec<SiteSettings>,
    /// Whether requests for hosts that no site names are served.
    pub unknown_hosts: UnknownHosts,
    /// Limits of connections, heads and bodies.
    pub limits: Limits,
    /// The directory for stored request bodies; `None` for the directory of temporary files (`TMPDIR`, or `/tmp`).
    pub spool_directory: Option<PathBuf>,
    /// The directory for what the server keeps over a restart.
    pub state_directory: StateDirectory,
    /// The trusted proxies.
    pub proxies: ProxySettings,
    /// Reverse DNS; `None` if names of clients are not looked up.
    pub dns: Option<DnsSettings>,
    /// The file cache; `None` if every request reads its file.
    pub cache: Option<CacheSettings>,
    /// The access log of sites without their own.
    pub access_log: AccessLog,
    /// The log for the administrator.
    pub server_log: ServerLog,
    /// The files that these settings were read from. They are never sent to clients.
    pub config_files: Vec<PathBuf>,
    /// Where these files are read, and those that they name: certificates and keys.
    pub source: Source,
    /// Whether core dumps are made and debuggers of the same user may attach. Scripts can then read the server's memory.
    pub core_dumps: bool,
    /// The socket for the commands of the administrator.
    pub control: ControlSocket,
    /// The values that WATCH does not show.
    pub watch: WatchSettings,
    /// The users of the processes.
    pub users: UserSettings,
    /// Warnings about the configuration that its settings do not show, each one line.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Settings of sites, with the defaults of limits and without addresses, cache, logs of requests, state and control socket.
    #[must_use]
    pub fn new(sites: Vec<SiteSettings>) -> Settings {
        Settings {
            listen: Vec::new(),
            workers: NonZeroUsize::MIN,
            sites,
            unknown_hosts: UnknownHosts::Serve,
            limits: Limits::default(),
            spool_directory: None,
            state_directory: StateDirectory::Off,
            proxies: ProxySettings::default(),
            dns: None,
            cache: None,
            access_log: AccessLog::new(LogTarget::Off),
            server_log: ServerLog::default(),
            config_files: Vec::new(),
            source: Source::default(),
            core_dumps: false,
            control: ControlSocket::Off,
            watch: WatchSettings::default(),
            users: UserSettings::default(),
            warnings: Vec::new(),
        }
    }

    /// The routes of all sites.
    pub fn routes(&self) -> impl Iterator<Item = &RouteSettings> {
        self.sites.iter().flat_map(|site| &site.routes)
    }

    /// The routes that run scripts, also those among files, with how these run.
    pub fn scripts(&self) -> impl Iterator<Item = (&RouteSettings, &ScriptSettings)> {
        self.routes().filter_map(|route| Some((route, route.action.script()?)))
    }

    /// The settings of scripts, of all routes, to be changed.
    pub fn scripts_mut(&mut self) -> impl Iterator<Item = &mut ScriptSettings> {
        let routes = self.sites.iter_mut().flat_map(|site| &mut site.routes);
        routes.filter_map(|route| match &mut route.action {
            Action::Script(script) => Some(&mut **script),
            Action::Files(files) => Some(&mut files.scripts.as_mut()?.script),
            _ => None,
        })
    }

    /// The directories of files and scripts, each with the place in the configuration that names it.
    pub fn served_directories(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.sites.iter().flat_map(|site| {
            let root = site.root.iter().map(|root| (site.origin.as_str(), root.as_path()));
            let of_routes = site.routes.iter().filter_map(|route| {
                let path = match &route.action {
                    Action::Files(files) => &files.path,
                    action => match &action.script()?.source {
                        ScriptSource::Directory(path) | ScriptSource::App { directory: path, .. } => path,
                        ScriptSource::File(_) | ScriptSource::Root => return None,
                    },
                };
                Some((route.origin.as_str(), path.as_path()))
            });
            root.chain(of_routes)
        })
    }

    /// The files of all logs. One that several sites name is there as often.
    pub fn log_files(&self) -> impl Iterator<Item = &Path> {
        self.site_log_files().map(|(_, file)| file).chain(self.own_log_files())
    }

    /// The files of the logs of the server: of the access log, and of the server log.
    pub fn own_log_files(&self) -> impl Iterator<Item = &Path> {
        self.access_log
            .file()
            .into_iter()
            .chain(self.server_log.file.as_deref())
    }

    /// The files of the logs that sites have of their own, each with its site. A file may be that of other sites, or of the server, too.
    pub fn site_log_files(&self) -> impl Iterator<Item = (&SiteSettings, &Path)> {
        let sites = self.sites.iter();
        sites.filter_map(|site| Some((site, site.log.as_ref()?.file()?)))
    }

    /// The users that scripts may have.
    #[must_use]
    pub fn script_users(&self) -> ScriptUserSettings {
        let mut users = ScriptUserSettings {
            usual: self.users.scripts.clone().or_else(|| self.users.server.clone()),
            owners: self.users.owners.clone(),
            silent: self.source.silent(),
            ..ScriptUserSettings::default()
        };
        for site in &self.sites {
            for route in &site.routes {
                if let Some(script) = route.action.script() {
                    let follow_links = match &script.source {
                        // They are found among the files of the site.
                        ScriptSource::Root => site.files.follow_links,
                        _ => route.follow_links.unwrap_or(site.files.follow_links),
                    };
                    let source = ProgramSource {
                        source: script.source.clone(),
                        root: site.root.clone(),
                        follows_links: follow_links != FollowLinks::No,
                    };
                    users.add_route(source, script);
                }
                if let Some(agent) = route.changes.access.own_agent() {
                    users.add_agent(PlannedAgent { kind: agent.kind, sdk: agent.sdk.clone() });
                }
            }
        }
        users
    }
}

/// The values of requests and responses that WATCH does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchSettings {
    /// Parts of the names of secrets; `None` for the usual ones.
    pub masked_fields: Option<Vec<String>>,
    /// Whether everything is shown, secrets too.
    pub is_unmasked: bool,
}

/// The unix socket on which the server takes commands of the administrator (`sluice status`, `sluice reload` …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ControlSocket {
    /// One in the directory that the user has for such files. The server also starts without it.
    #[default]
    Usual,
    /// This one.
    Path(PathBuf),
    /// None.
    Off,
}

/// The control socket that a configuration file names.
#[derive(Debug)]
pub struct NamedSocket {
    /// The value of the key; `None` if it was not found.
    pub socket: Option<ControlSocket>,
    /// The first mistake, if the file is not TOML, so that the key may have been missed.
    pub mistake: Option<String>,
}

/// The directory for data that survives a restart: the activity of the last 28 days.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StateDirectory {
    /// The one that the user, or the service, has for such files.
    Usual,
    /// This one.
    Path(PathBuf),
    /// None: it is kept in memory.
    #[default]
    Off,
}

/// The answer to requests for hosts that no site names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UnknownHosts {
    /// The site without host names serves them, or else the first site.
    #[default]
    Serve,
    /// They are refused (421).
    Refuse,
    /// On a loopback address only names of this machine and these names are served, because a web page can have its own name
    /// resolve to 127.0.0.1 (DNS rebinding); other addresses serve every host.
    RefuseOnLoopback(Vec<String>),
}
