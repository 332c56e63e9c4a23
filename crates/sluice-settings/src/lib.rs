//! Settings as values: sites, routes, formats, limits. Floor 3, safe Rust.
//!
//! Plain data, made by the program from its configuration and arguments. Nothing here opens, binds or runs anything, except that `source`
//! reads the files of a configuration, and `permission` the modes of files that cannot be opened.
#![forbid(unsafe_code)]

pub mod address;
mod cache;
pub mod compression;
pub mod error_page;
pub mod limits;
pub mod log_format;
pub mod notation;
pub mod open_error;
pub mod permission;
pub mod record_format;
pub mod rule;
mod settings;
pub mod site_choice;
pub mod source;
pub mod template;

pub use address::{ListenAddress, Peers};
pub use cache::{CacheSettings, CacheUse};
pub use compression::{CompressionSettings, Precompressed};
pub use log_format::LogFormat;
pub use settings::FollowLinks;
pub use settings::{
    AccessLog, Action, AuthoritySettings, BACKUP_NAMES, ClientCertificates, ControlSocket, Convert, DirectorySettings,
    DnsSettings, Engine, EngineSettings, ErrorDetail, ErrorSettings, Fallback, FileSettings, ForwardedField,
    IdentitySettings, IdentitySource, ListenSettings, LogLevel, LogTarget, Mailbox, Mode, NamedSocket, OwnerSettings,
    PermittedFiles, PlannedAgent, PoolSettings, ProgramSettings, ProgramSource, ProxySettings, RecordSettings,
    RefusalSettings, RequestBody, Rotation, RouteSettings, ScriptLimits, ScriptOutput, ScriptSettings, ScriptSource,
    ScriptTimeouts, ScriptUser, ScriptUserSettings, ScriptVariables, ServerLog, Settings, SiteSettings, StateDirectory,
    Statuses, SuffixScripts, TlsSettings, UnknownHosts, User, UserSettings, WatchSettings, module_files, suffix_of,
};
