//! The settings of a route that runs scripts: the program, its mode, its limits, and its processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How the scripts of a route run.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSettings {
    /// Which program a path names.
    pub source: ScriptSource,
    /// How it runs.
    pub mode: Mode,
    /// Directories of files that a script may have sent in the place of a body: X-Accel-Redirect names them by these paths (`/a/`),
    /// X-Sendfile by the file's own.
    pub send_files: BTreeMap<String, PathBuf>,
    /// Programs that run files of a suffix (`".pl"` → `perl`), looked up in PATH unless they hold a slash. Such a file
    /// needs no run bit and no `#!` line.
    pub interpreters: BTreeMap<String, String>,
    /// The channel for output.
    pub mailbox: Mailbox,
    /// Largest record of a record mailbox, bytes; also what scripts are told as WWW_GATEWAY_MRS.
    pub record_bytes_max: usize,
    /// What becomes of a body that comes without a length.
    pub request_body: RequestBody,
    /// Put before the names of all variables (`WWW_`), or empty.
    pub variable_prefix: String,
    /// Variables added to every process's environment.
    pub environment: BTreeMap<String, String>,
    /// Names of variables that a process inherits from the server beside PATH, LANG and TZ.
    pub inherit: Vec<String>,
    /// Longest wait for the head of a reply. Over it: 504 and the process group is killed.
    pub reply_timeout: Duration,
    /// Longest silence within a reply's body. Over it the response is cut and the process group killed.
    pub output_timeout: Duration,
    /// Longest time for a whole exchange, if bounded: then as above.
    pub deadline: Option<Duration>,
    /// How long a CGIplus script may go on after its client has left, so that its process can be kept.
    pub client_grace: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// Largest head of a reply, bytes. Over it: 502.
    pub head_bytes_max: usize,
    /// Largest memory buffer a script may ask for, bytes.
    pub memory_buffer_max: u64,
    /// Address space of a process, bytes (RLIMIT_AS), if bounded.
    pub memory_max: Option<u64>,
    /// The processes kept for each script of the route.
    pub pool: PoolSettings,
}

/// Which program a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// The file below this directory that the path leads to; what is left of the path is PATH_INFO.
    Directory(PathBuf),
    /// This program for every path that matches; what the pattern's `*` matched is PATH_INFO.
    File(PathBuf),
    /// The file under the site's root whose path matches the pattern (`*.cgi`); what follows it is PATH_INFO.
    Root,
}

/// How a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One process a request (RFC 3875).
    Cgi,
    /// A process that is kept and handed request after request.
    Cgiplus,
}

/// The channel for a script's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mailbox {
    /// A pipe; bytes pass untouched.
    Stream,
    /// One write is one record; text records get the newline they lack.
    Record,
}

/// What becomes of a request body that comes without a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// Stored first, so that CONTENT_LENGTH is true.
    Spool,
    /// Handed on as it arrives, without CONTENT_LENGTH (CGI only).
    Stream,
}

/// The processes kept for one script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Processes at once. CGI: requests of the route's script that run at once.
    pub max: usize,
    /// Processes that are not ended for being idle, once they have been started.
    pub min: usize,
    /// A process that had nothing to do for so long is ended.
    pub idle: Duration,
    /// Requests after which a process is replaced, if bounded.
    pub requests_max: Option<u64>,
    /// Requests that may wait for a process. Over it: 503 with Retry-After.
    pub queue_max: usize,
    /// Longest wait in that queue. Over it: 503 with Retry-After.
    pub queue_timeout: Duration,
}

impl ScriptSettings {
    /// The settings of a script of which only source and mode were given.
    pub fn new(source: ScriptSource, mode: Mode) -> ScriptSettings {
        ScriptSettings {
            source,
            mode,
            send_files: BTreeMap::new(),
            interpreters: BTreeMap::new(),
            mailbox: Mailbox::Stream,
            record_bytes_max: 64 << 10,
            request_body: RequestBody::Spool,
            variable_prefix: String::new(),
            environment: BTreeMap::new(),
            inherit: Vec::new(),
            reply_timeout: Duration::from_secs(60),
            output_timeout: Duration::from_secs(300),
            deadline: None,
            client_grace: Duration::from_secs(5),
            kill_grace: Duration::from_secs(2),
            head_bytes_max: 64 << 10,
            memory_buffer_max: 256 << 20,
            memory_max: None,
            pool: PoolSettings::new(mode),
        }
    }
}

impl PoolSettings {
    /// The defaults of a mode: CGI processes are short-lived, so more of them may run.
    pub fn new(mode: Mode) -> PoolSettings {
        PoolSettings {
            max: match mode {
                Mode::Cgi => 64,
                Mode::Cgiplus => 16,
            },
            min: 0,
            idle: Duration::from_secs(600),
            requests_max: None,
            queue_max: 1000,
            queue_timeout: Duration::from_secs(30),
        }
    }
}
