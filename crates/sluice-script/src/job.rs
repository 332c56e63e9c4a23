//! A job: one request for one script, with all that any mode needs to run it.
//!
//! Here: the request's variables, and the program to start for it. What a mode adds is when a process is started and how
//! the variables reach it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, Method, Version};
use sluice_gateway::{CgiRequest, EndMark, MailboxKind, Scanner, Sentinels, Variables, isindex_arguments};
use sluice_http::endpoints::{Endpoints, TlsInfo};
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_http::head::SERVER_SOFTWARE;
use sluice_http::request_id::UniqueId;
use sluice_http::target::Target;
use sluice_launch::{ProcessLimits, Program, Stdin};
use sluice_membuf::Segment;
use sluice_settings as settings;
use sluice_settings::ScriptSettings;
use sluice_settings::compression::Compression;

use crate::callout::Callouts;
use crate::idle_timer::IdleTimer;
use crate::process::{Process, ProcessSpec};
use crate::route::{Map, Script, ScriptRoute};
use crate::scripts::Scripts;

/// Variables of the server that every script inherits, if they are set.
const INHERITED: [&str; 3] = ["PATH", "LANG", "TZ"];

/// One request for one script.
pub struct Job {
    pub scripts: Rc<Scripts>,
    pub map: Arc<dyn Map>,
    pub route: Arc<ScriptRoute>,
    pub script: Script,
    pub target: Target,
    pub method: Method,
    pub version: Version,
    pub fields: HeaderMap,
    /// The host that was asked for, without port.
    pub host: String,
    pub id: UniqueId,
    pub endpoints: Endpoints,
    /// The client's name, if it is known.
    pub client_name: Option<Arc<str>>,
    pub is_https: bool,
    pub tls_info: Option<Rc<TlsInfo>>,
    pub arrived: SystemTime,
    /// How its reply may be compressed, if at all.
    pub compression: Option<Arc<Compression>>,
}

impl Job {
    pub(crate) fn settings(&self) -> &ScriptSettings {
        &self.route.settings
    }

    /// The request as the script's variables. `content_length` is the body's, if there is one and its length is known.
    pub(crate) fn variables(&self, sentinels: &Sentinels, content_length: Option<u64>) -> Variables {
        let settings = self.settings();
        let path_info = self.script.path_info.as_deref();
        let translated = path_info.and_then(|path| self.map.file_of(path));
        let extra: Vec<_> = settings.variables.added.clone().into_iter().collect();
        Variables::build(&CgiRequest {
            method: self.method.as_str(),
            request_uri: &self.target.raw,
            script_name: &self.script.name,
            script_filename: self.script.file.as_os_str().as_bytes(),
            path_info,
            path_translated: translated.as_ref().map(|path| path.as_os_str().as_bytes()),
            query: self.target.query.as_deref(),
            protocol: protocol_name(self.version),
            scheme: if self.is_https { "https" } else { "http" },
            tls: self.tls_info.as_ref().map_or(&[], |tls_info| &tls_info.variables),
            document_root: self.map.document_root().as_os_str().as_bytes(),
            server_name: if self.host.is_empty() { "localhost" } else { &self.host },
            server_addr: self.endpoints.server.ip(),
            server_port: self.endpoints.server.port(),
            remote_addr: self.endpoints.client.ip(),
            remote_host: self.client_name.as_deref(),
            remote_port: self.endpoints.client.port(),
            auth_type: None,
            remote_user: None,
            content_length,
            unique_id: self.id.as_str(),
            server_software: SERVER_SOFTWARE,
            server_admin: None,
            server_signature: None,
            headers: &self.fields,
            record_bytes_max: settings.output.record_bytes_max,
            sentinels,
            prefix: &settings.variables.prefix,
            environment: &extra,
            request_time: self.arrived,
            script_rte: None,
        })
    }

    /// The variables of the server that go into a process's environment.
    pub(crate) fn inherited(&self) -> Vec<(String, Vec<u8>)> {
        let names = INHERITED
            .into_iter()
            .chain(self.settings().variables.inherited.iter().map(String::as_str));
        let set = names.filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?.into_vec())));
        let mut inherited: BTreeMap<_, _> = set.collect();
        // Without a PATH `#!/usr/bin/env` and every shell script would find nothing.
        inherited
            .entry("PATH".into())
            .or_insert_with(|| b"/usr/local/bin:/usr/bin:/bin".to_vec());
        inherited.into_iter().collect()
    }

    /// The script's arguments: those of an ISINDEX query (RFC 3875 §4.4).
    pub(crate) fn arguments(&self) -> Vec<Vec<u8>> {
        let is_query = self.method == Method::GET || self.method == Method::HEAD;
        match &self.target.query {
            Some(query) if is_query => isindex_arguments(query),
            _ => Vec::new(),
        }
    }

    /// The process to start: the file itself, or its interpreter with the file as first argument.
    pub(crate) fn program(
        &self,
        arguments: Vec<Vec<u8>>,
        environment: Vec<u8>,
        stdin: Stdin,
        segment: &Segment,
    ) -> Result<Program, Fault> {
        let settings = self.settings();
        let file = self.script.file.as_os_str();
        let program = self.script.interpreter.as_ref().map_or(file, |path| path.as_os_str());
        let leading = [program].into_iter().chain((program != file).then_some(file));
        let arguments = leading.map(c_string).chain(
            arguments
                .into_iter()
                .map(|argument| c_string(OsString::from_vec(argument))),
        );
        Ok(Program {
            path: c_string(program)?,
            arguments: arguments.collect::<Result<_, _>>()?,
            environment,
            directory: c_string(self.script.file.parent().unwrap_or(Path::new("/")))?,
            stdin,
            mailbox: match settings.output.mailbox {
                settings::Mailbox::Stream => sluice_launch::Mailbox::Stream,
                settings::Mailbox::Record => sluice_launch::Mailbox::Record {
                    record_bytes_max: settings.output.record_bytes_max,
                },
            },
            memory: duplicate(segment)?,
            credentials: None,
            limits: ProcessLimits {
                memory_bytes_max: settings.memory_max,
                open_files_max: self.scripts.open_files_max,
                ..ProcessLimits::default()
            },
        })
    }

    /// What the server must know of the process before it exists.
    pub(crate) fn spec(&self, sentinels: Sentinels) -> ProcessSpec {
        let settings = self.settings();
        ProcessSpec {
            sentinels,
            script: self.script.file.to_string_lossy().into_owned(),
            site: self.route.site.clone(),
            mailbox: settings.output.mailbox,
            record_bytes_max: settings.output.record_bytes_max,
            kill_grace: settings.timeouts.kill_grace,
        }
    }

    /// The scanner of a new process's mailbox.
    pub(crate) fn scanner(&self, process: &Process, end: EndMark) -> Box<Scanner> {
        let kind = match self.settings().output.mailbox {
            settings::Mailbox::Stream => MailboxKind::Stream,
            settings::Mailbox::Record => MailboxKind::Record,
        };
        Box::new(Scanner::new(&process.sentinels, kind, end))
    }

    pub(crate) fn callouts(&self, process: &Arc<Process>) -> Callouts {
        Callouts::new(
            Arc::clone(&self.map),
            Arc::clone(process),
            self.settings().output.memory_buffer_max,
        )
    }

    pub(crate) fn idle_timer(&self) -> IdleTimer {
        IdleTimer::new(self.settings().timeouts.reply, self.settings().timeouts.deadline)
    }
}

/// SERVER_PROTOCOL (RFC 3875 §4.1.16).
fn protocol_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// New sentinels, from the system's random source.
pub(crate) fn sentinels() -> Result<Sentinels, Fault> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(ServerFault::NoRandomBytes)?;
    Ok(Sentinels::from_random(bytes))
}

/// A new, empty memory buffer.
pub(crate) fn segment() -> Result<Segment, Fault> {
    Segment::create().map_err(|error| ServerFault::io(Activity::MemoryBuffer, error).into())
}

fn duplicate(segment: &Segment) -> Result<OwnedFd, Fault> {
    segment
        .fd()
        .try_clone_to_owned()
        .map_err(|error| ServerFault::io(Activity::MemoryBuffer, error).into())
}

fn c_string(text: impl AsRef<OsStr>) -> Result<CString, Fault> {
    CString::new(text.as_ref().as_bytes()).map_err(|_| ServerFault::NulInArgument.into())
}
