//! What the server is told to do: plain data, made by the program from its configuration and arguments.
//!
//! Nothing here opens, binds or checks anything outside itself; `dispatch::Site::open` and `accept::listener` do, and
//! their messages name the `origin` that each chunk carries. The reference of all keys is made from the program's table.

mod route;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

pub use crate::address::{ListenAddress, Peers};
use crate::limits::Limits;
pub use crate::log_format::LogFormat;
use crate::template::Template;
pub use route::{Action, Convert, RecordSettings, RefusalSettings, RouteSettings};
use sluice_http::encoding::Encoding;

/// Everything that one running server needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen, at least one.
    pub listen: Vec<ListenSettings>,
    /// Event-loop threads.
    pub workers: NonZeroUsize,
    /// Virtual hosts; the first one also answers for hosts that no site names.
    pub sites: Vec<SiteSettings>,
    /// Bounds on connections, heads and bodies.
    pub limits: Limits,
    /// The proxies before this server, whose word about their clients is taken.
    pub proxies: ProxySettings,
    /// How the names of clients are looked up, if they are.
    pub dns: Option<DnsSettings>,
    /// The file cache; none reads every file anew for every request.
    pub cache: Option<CacheSettings>,
    /// Where finished exchanges are written down.
    pub access_log: AccessLog,
}

/// An address to listen on, and what is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSettings {
    /// An address and port, or a unix socket.
    pub address: ListenAddress,
    /// The mode of a unix socket's file: who may connect (unix(7)).
    pub socket_mode: u32,
    /// The proxies whose connections begin with a header of the PROXY protocol, if it is spoken; others are refused then.
    pub proxy_protocol: Option<Peers>,
    /// TLS; none is clear text.
    pub tls: Option<TlsSettings>,
    /// HTTP/2: negotiated over TLS (ALPN), or with prior knowledge in clear text (RFC 9113 §3.3).
    pub http2: bool,
    /// Every request is sent to the same address by https, at this port.
    pub redirect_to_https: Option<u16>,
}

impl ListenSettings {
    /// The server's user and group.
    pub const SOCKET_MODE: u32 = 0o660;

    /// Clear text, HTTP/1.1 alone.
    #[must_use]
    pub fn clear(address: ListenAddress) -> ListenSettings {
        ListenSettings {
            address,
            socket_mode: ListenSettings::SOCKET_MODE,
            proxy_protocol: None,
            tls: None,
            http2: false,
            redirect_to_https: None,
        }
    }
}

/// The proxies before a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// Whose word is taken; of others the fields mean nothing.
    pub trusted: Peers,
    /// Where they tell of their clients.
    pub forwarded: ForwardedField,
}

/// Where a proxy tells of its client. One alone: a proxy that knows the one passes on what a client has written into the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedField {
    /// `X-Forwarded-For` and `X-Forwarded-Proto`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// How the names of clients are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsSettings {
    /// How long a script may wait for the name of its client, from the moment at which it is looked up.
    pub timeout: Duration,
    /// Who is asked; none: those that the system asks.
    pub server: Option<SocketAddr>,
}

impl DnsSettings {
    /// Short beside what people notice, and long enough for most answers.
    pub const TIMEOUT: Duration = Duration::from_millis(500);
}

/// TLS on an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// For clients that name no host, or one that no site with a certificate has.
    pub identity: IdentitySettings,
    /// Version 1.2 is refused.
    pub is_1_3_only: bool,
    /// Whether clients are asked for a certificate.
    pub clients: ClientCertificates,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentitySettings {
    /// Where it was written, for messages.
    pub origin: String,
    /// Where they are.
    pub source: IdentitySource,
}

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// In files in PEM form, which may be one: the certificate, then those that lead to its authority.
    Files {
        /// The certificates.
        certificate: PathBuf,
        /// The key: PKCS #8, PKCS #1 or SEC 1.
        key: PathBuf,
    },
    /// Made for this start of the server, in PEM form.
    Made {
        /// The certificate.
        certificate: String,
        /// The key.
        key: String,
    },
}

/// Whether clients are asked for a certificate, and by which authorities it must be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not.
    Off,
    /// They are, and may have none; one that is bad is refused.
    Optional(PathBuf),
    /// They must have one.
    Required(PathBuf),
}

/// The bounds of the file cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Memory for content, bytes. Over it what is asked for least makes room.
    pub bytes_max: u64,
    /// Files; over it as above.
    pub entries_max: usize,
    /// Larger files are read anew for every request, bytes.
    pub file_bytes_max: u64,
    /// How long an entry is believed before the file is looked at again: a change may go unseen for so long.
    pub revalidate_after: Duration,
}

impl Default for CacheSettings {
    fn default() -> Self {
        CacheSettings {
            bytes_max: 256 << 20,
            entries_max: 20_000,
            file_bytes_max: 8 << 20,
            revalidate_after: Duration::from_millis(100),
        }
    }
}

/// How files are kept in the file cache, where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Within its bounds, and looked at again after a while.
    #[default]
    On,
    /// Not at all.
    Off,
    /// Within its bounds, and never looked at again before the cache is purged.
    Permanent,
}

/// A virtual host.
#[derive(Clone, Debug)]
pub struct SiteSettings {
    /// Where it was written (`sluice.toml:12`), for messages.
    pub origin: String,
    /// Host names without port, lower case; `*.example.org` stands for every name below it. Empty: any host.
    pub hosts: Vec<String>,
    /// Directory of the site's files, if it serves any; also DOCUMENT_ROOT.
    pub root: Option<PathBuf>,
    /// Its certificate, for clients that name one of its hosts (SNI, RFC 6066 §3).
    pub identity: Option<IdentitySettings>,
    /// For how long clients are to use nothing but https (RFC 6797); told over TLS.
    pub hsts: Option<Duration>,
    /// Names tried, in order, when a directory is asked for.
    pub index: Vec<String>,
    /// Rules in the order in which they are tried; the first that matches and has an answer decides. What none decides is a
    /// file under `root`.
    pub routes: Vec<RouteSettings>,
    /// What files are called, how they are kept, and whether directories are listed.
    pub files: FileSettings,
    /// What is compressed.
    pub compression: CompressionSettings,
    /// What is sent when a request fails.
    pub errors: ErrorSettings,
    /// Where its exchanges are written down; none: where the server's are.
    pub log: Option<AccessLog>,
}

/// What a site's files are called, how they are kept, and whether directories are listed.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// Media types by the ending of a name (`".foo"` → `text/x-foo`), asked before the server's own table.
    pub types: BTreeMap<String, String>,
    /// The charset told of text whose type names none; empty: it is not told.
    pub charset: String,
    /// How files are kept in the cache.
    pub cache: CacheUse,
    /// Directories without an index page are listed.
    pub listing: bool,
    /// The page of a listing; none is the server's own.
    pub listing_template: Option<Template>,
}

impl Default for FileSettings {
    fn default() -> Self {
        FileSettings {
            types: BTreeMap::new(),
            charset: "utf-8".to_owned(),
            cache: CacheUse::On,
            listing: false,
            listing_template: None,
        }
    }
}

/// What of a site's answers is compressed, for clients that take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionSettings {
    /// In the order of preference, where a client likes several as well; empty: nothing is compressed.
    pub encodings: Vec<Encoding>,
    /// Media types of what is, in lower case, without parameters; a `*` in one stands for any run of letters.
    pub types: Vec<String>,
    /// What is known to be shorter is sent as it is, bytes.
    pub least_bytes: u64,
    /// The forms of files, where their route says nothing.
    pub files: Precompressed,
}

/// In which forms besides their own files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precompressed {
    /// In none.
    Off,
    /// In those that lie beside them (`NAME.gz`).
    Static,
    /// The same, and in those that the server makes and keeps in the cache.
    OnDemand,
}

impl Default for CompressionSettings {
    fn default() -> Self {
        let types = [
            "text/*",
            "application/*+json",
            "application/*+xml",
            "application/javascript",
            "application/json",
            "application/wasm",
            "application/x-javascript",
            "application/x-ndjson",
            "application/xml",
            "application/vnd.ms-fontobject",
            "font/otf",
            "font/ttf",
            "image/bmp",
            "image/svg+xml",
            "image/x-icon",
        ];
        CompressionSettings {
            encodings: Encoding::ALL.to_vec(),
            types: types.map(str::to_owned).to_vec(),
            least_bytes: 1 << 10,
            files: Precompressed::OnDemand,
        }
    }
}

/// What is sent when a request fails.
#[derive(Clone, Debug, Default)]
pub struct ErrorSettings {
    /// The visitor is told what the log is told.
    pub detail: bool,
    /// The site's own pages.
    pub templates: BTreeMap<Statuses, Template>,
}

/// The statuses that a page of errors is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statuses {
    /// This one, such as 404.
    One(u16),
    /// All that begin with this digit and have no page of their own: 4 or 5.
    Class(u16),
}

impl ErrorSettings {
    /// The site's own page for a status.
    pub fn template(&self, status: u16) -> Option<&Template> {
        let own = self.templates.get(&Statuses::One(status));
        own.or_else(|| self.templates.get(&Statuses::Class(status / 100)))
    }
}

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

/// Where finished exchanges are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// The file, the standard output, or nowhere.
    pub target: LogTarget,
    /// The form of a line.
    pub format: LogFormat,
    /// When its file is put aside.
    pub rotation: Rotation,
}

/// When the file of a log is put aside and another begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Largest file, bytes, if bounded.
    pub bytes_max: Option<u64>,
    /// With the first line after midnight.
    pub is_daily: bool,
    /// Files put aside that are kept, if bounded; over it the oldest are removed.
    pub keep: Option<usize>,
}

impl AccessLog {
    /// Lines of the combined form, never put aside.
    pub fn new(target: LogTarget) -> AccessLog {
        AccessLog {
            target,
            format: LogFormat::default(),
            rotation: Rotation::default(),
        }
    }
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// The standard output.
    Stdout,
    /// Appended to a file, which is opened anew on SIGUSR1.
    File(PathBuf),
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
