//! The settings of a route that runs scripts: program, mode, variables, output limits, timeouts and processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::EngineSettings;
use super::script_limits::ScriptLimits;

/// How the scripts of a route run.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSettings {
    /// Which program a path names.
    pub source: ScriptSource,
    /// How the program runs.
    pub mode: Mode,
    /// Whether the directory of the source need not exist: its scripts run once it does.
    pub is_directory_optional: bool,
    /// Programs that run files of a suffix (`".pl"` → `perl`); looked up in PATH without a slash. Such a file needs no execute bit and no `#!` line.
    pub interpreters: BTreeMap<String, String>,
    /// The engines, in mode `rte`.
    pub engines: EngineSettings,
    /// Directories of files that a script may have sent instead of a body: X-Accel-Redirect names a file by these paths (`/a/`), X-Sendfile by its own.
    pub send_files: BTreeMap<String, PathBuf>,
    /// How a script gets a request body without a length.
    pub request_body: RequestBody,
    /// Whether the keywords of an ISINDEX query become command line arguments (RFC 3875 §4.4); CGI only.
    pub passes_arguments: bool,
    /// The variables that are added to the request's.
    pub variables: ScriptVariables,
    /// The channel for output and its limits.
    pub output: ScriptOutput,
    /// How long a script may take.
    pub timeouts: ScriptTimeouts,
    /// The confinement of a process.
    pub confinement: ScriptLimits,
    /// The processes of each script of the route.
    pub pool: PoolSettings,
    /// The processes of all scripts of the route together, if bounded.
    pub processes_max: Option<usize>,
    /// Paths, perhaps with a query, that are requested with the method PROCTOR in a process started in advance, before it gets a client's request.
    pub proctor: Vec<String>,
    /// Files, and directories of files, whose changes replace kept processes. `None`: for engines, the sources below the directory of the scripts.
    pub reload_on: Option<Vec<PathBuf>>,
}

/// Which program a path names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptSource {
    /// The file below this directory that the path names; the rest of the path is PATH_INFO.
    Directory(PathBuf),
    /// This program for every path that matches; what the pattern's `*` matched is PATH_INFO.
    File(PathBuf),
    /// An application that an engine loads, for every path that matches; what the pattern's `*` matched is PATH_INFO.
    App {
        /// The directory of its files.
        directory: PathBuf,
        /// The name, in the words of the engine: `module:callable`, `app.psgi`, `worker.php`.
        name: String,
    },
    /// The file under the site's root whose path matches the pattern (`*.cgi`); the rest of the path is PATH_INFO.
    Root,
}

/// How a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One process for each request (RFC 3875).
    Cgi,
    /// A process that is kept and gets one request after the other.
    Cgiplus,
    /// A process of an engine, which is kept and runs many scripts, one after the other.
    Rte,
}

/// How the modes differ for the configuration and for the life of a process.
struct ModeTraits {
    name: &'static str,
    keeps_process: bool,
    has_engine: bool,
    processes_max: usize,
    requests_at_once: usize,
    alternative: Mode,
}

impl Mode {
    const fn traits(self) -> ModeTraits {
        match self {
            Mode::Cgi => ModeTraits {
                name: "cgi",
                keeps_process: false,
                has_engine: false,
                // They are short-lived, so more of them may run.
                processes_max: 64,
                requests_at_once: 1,
                alternative: Mode::Cgiplus,
            },
            Mode::Cgiplus => ModeTraits {
                name: "cgiplus",
                keeps_process: true,
                has_engine: false,
                processes_max: 16,
                requests_at_once: 1,
                alternative: Mode::Cgi,
            },
            Mode::Rte => ModeTraits {
                name: "rte",
                keeps_process: true,
                has_engine: true,
                processes_max: 16,
                requests_at_once: 1,
                alternative: Mode::Cgi,
            },
        }
    }

    /// The name in the configuration and in messages.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// Whether a process serves further requests after its first.
    pub const fn keeps_process(self) -> bool {
        self.traits().keeps_process
    }

    /// Whether an engine runs the scripts, several of them in one process.
    pub const fn has_engine(self) -> bool {
        self.traits().has_engine
    }

    /// Requests that a process serves at once.
    pub const fn requests_at_once(self) -> usize {
        self.traits().requests_at_once
    }

    /// The mode for a script that shows that this one is wrong for it.
    pub const fn alternative(self) -> Mode {
        self.traits().alternative
    }
}

/// The variables of a script that are added to the request's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptVariables {
    /// Put before the names of all variables of the request (`WWW_`), or empty.
    pub prefix: String,
    /// Variables added to every process's environment.
    pub added: BTreeMap<String, String>,
    /// Names of variables that a process inherits from the server besides PATH, LANG and TZ.
    pub inherited: Vec<String>,
}

/// The channel for a script's output and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOutput {
    /// The kind of the channel.
    pub mailbox: Mailbox,
    /// Largest record of a record mailbox, bytes; scripts get it as WWW_GATEWAY_MRS.
    pub record_bytes_max: usize,
    /// Largest head of a reply, bytes. A larger one gives 502.
    pub head_bytes_max: usize,
    /// Largest memory buffer that a script may request, bytes.
    pub memory_buffer_max: u64,
}

impl Default for ScriptOutput {
    fn default() -> ScriptOutput {
        ScriptOutput {
            mailbox: Mailbox::Stream,
            record_bytes_max: 64 << 10,
            head_bytes_max: 64 << 10,
            memory_buffer_max: 256 << 20,
        }
    }
}

/// The channel for a script's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mailbox {
    /// A socket; bytes pass unchanged.
    Stream,
    /// A pipe, for a script that opens its output by a name (`/dev/stdout`); bytes pass unchanged.
    Pipe,
    /// One write is one record; text records get the newline that they lack.
    Record,
}

/// How a script gets a request body without a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// Stored first, so that CONTENT_LENGTH is exact.
    Spool,
    /// Passed on as it arrives, without CONTENT_LENGTH (CGI only).
    Stream,
}

/// How long a script may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptTimeouts {
    /// Longest wait for the head of a reply. After it: 504, and the process group is killed.
    pub reply: Duration,
    /// Longest time without output in the body of a reply. After it the response is aborted and the process group is killed.
    pub output: Duration,
    /// Longest time for a whole exchange, if bounded. After it: as for `reply` or `output`.
    pub deadline: Option<Duration>,
    /// How long a script may go on, its output discarded, after its client has disconnected. `None`: 5 s for a kept process, so that it can be kept, else 0.
    pub client_grace: Option<Duration>,
    /// Time between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
}

/// How long a script of a kept process may continue after its client has disconnected, where the configuration does not say.
const CLIENT_GRACE: Duration = Duration::from_secs(5);

impl ScriptTimeouts {
    /// How long a script may write a reply that nobody waits for.
    #[must_use]
    pub fn client_grace(&self) -> Duration {
        self.client_grace.unwrap_or(CLIENT_GRACE)
    }
}

impl Default for ScriptTimeouts {
    fn default() -> ScriptTimeouts {
        ScriptTimeouts {
            reply: Duration::from_secs(60),
            output: Duration::from_secs(300),
            deadline: None,
            client_grace: None,
            kill_grace: Duration::from_secs(2),
        }
    }
}

/// The processes of one script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Processes of one script at once; where none is kept, requests that run at once.
    pub max: usize,
    /// Processes that are started before there is a request, and replaced when they end; so many idle ones are not ended by `idle`.
    pub min: usize,
    /// A process that has had no request for this long is ended.
    pub idle: Duration,
    /// Requests after which a process is replaced, if bounded; up to a tenth fewer for each, so that processes started together are not replaced together.
    pub requests_max: Option<u64>,
    /// Time after its start when a process is replaced, if bounded; for each process up to a tenth less, as for `requests_max`.
    pub lifetime_max: Option<Duration>,
    /// Private memory of a process, bytes, above which it is replaced after a request, if bounded.
    pub memory_bytes_max: Option<u64>,
    /// Requests of one client at once; if there are so many, its further ones wait behind those of others. `None` for any number.
    pub client_requests_max: Option<usize>,
    /// Requests that may wait for a process. Further ones get 503 with Retry-After.
    pub queue_max: usize,
    /// Longest wait in that queue. After it: 503 with Retry-After.
    pub queue_timeout: Duration,
}

impl ScriptSettings {
    /// The settings of CGI scripts of which only the source was given.
    pub fn cgi(source: ScriptSource) -> ScriptSettings {
        ScriptSettings::new(source, Mode::Cgi)
    }

    /// The settings of CGIplus scripts of which only the source was given.
    pub fn cgiplus(source: ScriptSource) -> ScriptSettings {
        ScriptSettings::new(source, Mode::Cgiplus)
    }

    /// The settings of the scripts of engines of which only the source was given.
    pub fn rte(source: ScriptSource) -> ScriptSettings {
        ScriptSettings::new(source, Mode::Rte)
    }

    /// The settings of a script of which only source and mode were given.
    pub fn new(source: ScriptSource, mode: Mode) -> ScriptSettings {
        ScriptSettings {
            source,
            mode,
            interpreters: BTreeMap::new(),
            engines: EngineSettings::default(),
            send_files: BTreeMap::new(),
            is_directory_optional: false,
            request_body: RequestBody::Spool,
            passes_arguments: false,
            variables: ScriptVariables::default(),
            output: ScriptOutput::default(),
            timeouts: ScriptTimeouts::default(),
            confinement: ScriptLimits::default(),
            pool: PoolSettings::new(mode),
            processes_max: None,
            proctor: Vec::new(),
            reload_on: None,
        }
    }
}

impl PoolSettings {
    /// The defaults of a mode.
    pub fn new(mode: Mode) -> PoolSettings {
        PoolSettings {
            max: mode.traits().processes_max,
            min: 0,
            idle: Duration::from_secs(600),
            requests_max: None,
            lifetime_max: None,
            memory_bytes_max: None,
            client_requests_max: None,
            queue_max: 1000,
            queue_timeout: Duration::from_secs(30),
        }
    }
}
