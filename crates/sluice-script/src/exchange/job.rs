//! A job: one request for one script, with everything that a mode needs to run it.

use std::borrow::Cow;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use http::HeaderValue;
use sluice_gateway::{AgentAnswer, CgiRequest, EndMark, MailboxKind, Scanner, Sentinels, Variables};
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_http::head::SERVER_SOFTWARE;
use sluice_http::path_text::bytes_of;
use sluice_launch::{Program, Stdin};
use sluice_membuf::Segment;
use sluice_settings as settings;
use sluice_settings::compression::Compression;
use sluice_settings::{ScriptSettings, ScriptSource, ScriptUser};
use sluice_watch::mask::Masks;
use sluice_watch::{Item, Secrets, Stage, Tracer};

use crate::exchange::{Callouts, ScriptRequest};
use crate::pool::SharedPool;
use crate::process::{IdleTimer, KeptTimer, Process, ProcessSpec, ScriptEvents, WatchableJob, default_environment};
use crate::program::search_path::find_program;
use crate::route::{Map, Script, ScriptRoute};
use crate::scripts::Scripts;
use sluice_http::request_body::RequestBody;
use sluice_http::stored_body::StoredBody;

const USER_VARIABLES: [&str; 3] = ["HOME", "USER", "LOGNAME"];

/// One request for one script.
pub struct Job {
    /// The script processes of the worker.
    pub scripts: Rc<Scripts>,
    /// The request as the script sees it.
    pub request: ScriptRequest,
    /// The program to run.
    pub script: Script,
    /// The route that leads to it.
    pub route: Arc<ScriptRoute>,
    /// The paths and files of the site.
    pub map: Arc<dyn Map>,
    /// How its reply may be compressed. `None` if it may not.
    pub compression: Option<Arc<Compression>>,
    /// How its exchange records events for WATCH.
    pub tracer: Tracer,
}

impl Job {
    pub(crate) fn settings(&self) -> &ScriptSettings {
        &self.route.settings
    }

    pub(crate) fn events(self: &Rc<Self>) -> ScriptEvents {
        ScriptEvents::of(Rc::<Job>::clone(self))
    }

    /// The variables of the request, with `sentinels` if the process has none in its environment, and `content_length` if a body has a known length.
    pub(crate) fn variables(&self, sentinels: Option<&Sentinels>, content_length: Option<u64>) -> Variables {
        let (settings, request) = (self.settings(), &self.request);
        let path_info = self.script.path_info.as_deref();
        let info = path_info.map(bytes_of);
        let asked = request.redirect_url.as_deref().map(bytes_of);
        let translated = path_info.and_then(|path| self.map.file_of(path));
        let translated = translated.as_deref().map(|path| self.inside(path));
        let extra: Vec<_> = settings.variables.added.clone().into_iter().collect();
        let user = request.user.as_ref();
        let mut variables = self.scripts.spare_variables.take().build_again(&CgiRequest {
            method: request.method.as_str(),
            request_uri: &request.target.raw,
            redirect_url: asked.as_deref(),
            script_name: &bytes_of(&self.script.name),
            script_filename: self.inside(&self.script.file).as_os_str().as_bytes(),
            path_info: info.as_deref(),
            path_translated: translated.as_deref().map(Path::as_os_str).map(OsStrExt::as_bytes),
            query: request.target.query.as_deref(),
            protocol: request.protocol(),
            scheme: if request.is_https { "https" } else { "http" },
            tls: request.tls_info.as_ref().map_or(&[], |tls_info| &tls_info.variables),
            document_root: self.inside(self.map.document_root()).as_os_str().as_bytes(),
            server_name: request.server_name.as_deref().unwrap_or_default(),
            server_addr: request.endpoints.server.ip(),
            server_port: request.endpoints.server.port(),
            remote_addr: request.endpoints.client.ip(),
            remote_host: request.client_name.as_deref(),
            remote_port: request.endpoints.client.port(),
            auth_type: user.map(|user| user.auth_type),
            remote_user: user.map(|user| &*user.name),
            content_length,
            unique_id: request.id.as_str(),
            server_software: SERVER_SOFTWARE,
            headers: &request.fields,
            record_bytes_max: settings.output.record_bytes_max,
            sentinels,
            prefix: &settings.variables.prefix,
            environment: &extra,
            request_time: request.arrived,
            script_rte: self.script.engine.as_ref().map(|engine| engine.name()),
            is_php: self.script.is_php(),
        });
        let mut add = |name: &str, value: Option<&[u8]>| {
            if let Some(value) = value {
                variables.set(&format!("{}{name}", settings.variables.prefix), value);
            }
        };
        add("AUTH_REALM", user.map(|user| user.realm.as_bytes()));
        add(
            "AUTH_GROUP",
            user.and_then(|user| user.group.as_deref()).map(str::as_bytes),
        );
        let agent = request.agent.as_ref();
        add("AUTH_PASSWORD", agent.map(|agent| agent.password.as_slice()));
        add("AUTH_AGENT", agent.map(|agent| agent.parameters.as_bytes()));
        add(
            "HTTP_AUTHORIZATION",
            request.authorization.as_ref().map(HeaderValue::as_bytes),
        );
        // WASD: somebody watches, so that the script's own events are worth a callout.
        add(
            "WATCH_SCRIPT",
            self.tracer.wants(Item::Callouts).then_some(b"1".as_slice()),
        );
        variables
    }

    /// The variables that no request brings: those that the route inherits from the server, and every script's. Of two with one name the first counts.
    pub(crate) fn inherited(&self) -> Vec<(&str, Cow<'static, [u8]>)> {
        let names = self.settings().variables.inherited.iter();
        let inherited = names.filter_map(|name| Some((name.as_str(), Cow::Owned(std::env::var_os(name)?.into_vec()))));
        let user = self.user_variables();
        let is_other = self.settings().confinement.user != ScriptUser::Usual;
        let defaults = default_environment().iter();
        let defaults = defaults.filter(|(name, _)| !is_other || !USER_VARIABLES.contains(name));
        inherited
            .chain(user)
            .chain(defaults.map(|(name, value)| (*name, Cow::Borrowed(value.as_slice()))))
            .collect()
    }

    /// HOME, USER and LOGNAME of the user whom the route names. The launcher adds those of an owner, whom only it knows.
    fn user_variables(&self) -> Vec<(&'static str, Cow<'static, [u8]>)> {
        let ScriptUser::Named(user) = &self.settings().confinement.user else {
            return Vec::new();
        };
        let [home_name, names @ ..] = USER_VARIABLES;
        let home = user.home.as_deref().unwrap_or(Path::new("/"));
        let home = (home_name, Cow::Owned(home.as_os_str().as_bytes().to_vec()));
        // A user without an account has no name.
        let login = user.login.iter().flat_map(|login| {
            let value = |name| (name, Cow::Owned(login.clone().into_bytes()));
            names.map(value)
        });
        [home].into_iter().chain(login).collect()
    }

    /// The command to start: the file itself, its interpreter with the file as first argument, or its engine.
    fn command(&self) -> Result<Vec<CString>, Fault> {
        if let Some(engine) = &self.script.engine {
            let command = engine.command()?;
            let words = [command.program.as_os_str()].into_iter();
            return words
                .chain(command.arguments.iter().map(OsString::as_os_str))
                .map(c_string)
                .collect();
        }
        let file = self.inside(&self.script.file);
        let file = file.as_os_str();
        let interpreter = self.script.interpreter.as_deref().map(present).transpose()?;
        let interpreter = interpreter.as_deref().map(|path| self.inside(path));
        let program = interpreter.as_deref().map_or(file, Path::as_os_str);
        let words = [program].into_iter().chain((program != file).then_some(file));
        words.map(c_string).collect()
    }

    /// The working directory of a process: that of its route, of its first script, or of the application.
    pub(crate) fn directory(&self) -> &Path {
        let settings = self.settings();
        if let Some(directory) = &settings.confinement.working_directory {
            return directory;
        }
        match &settings.source {
            ScriptSource::App { directory, .. } => directory,
            _ => self.script.file.parent().unwrap_or(Path::new("/")),
        }
    }

    pub(crate) fn program(
        &self,
        arguments: Vec<Vec<u8>>,
        environment: Vec<u8>,
        stdin: Stdin,
        segment: Option<&Segment>,
    ) -> Result<Program, Fault> {
        let settings = self.settings();
        let arguments = arguments
            .into_iter()
            .map(|argument| c_string(OsString::from_vec(argument)));
        let mut command = self.command()?;
        for argument in arguments {
            command.push(argument?);
        }
        Ok(Program {
            path: command[0].clone(),
            arguments: command,
            environment,
            directory: c_string(self.inside(self.directory()).as_ref())?,
            stdin,
            mailbox: match settings.output.mailbox {
                settings::Mailbox::Stream => sluice_launch::Mailbox::Stream,
                settings::Mailbox::Pipe => sluice_launch::Mailbox::Pipe,
                settings::Mailbox::Record => {
                    sluice_launch::Mailbox::Record { record_bytes_max: settings.output.record_bytes_max }
                }
            },
            memory: segment.map(duplicate).transpose()?,
            is_kept: false,
            run_as: self.run_as()?,
            credentials: None,
            limits: self.limits(),
            confinement: self.confinement()?,
        })
    }

    pub(crate) fn spec(&self, sentinels: Sentinels) -> ProcessSpec {
        let settings = self.settings();
        let (file, interpreter) = match &self.script.engine {
            Some(engine) => match engine.command() {
                Ok(command) => (Cow::Owned(command.file.clone()), Some(command.program.clone())),
                Err(_) => (Cow::Borrowed(engine.key()), None),
            },
            None => (
                Cow::Borrowed(self.script.file.as_path()),
                self.script.interpreter.clone(),
            ),
        };
        let program = file.to_string_lossy().into_owned();
        ProcessSpec {
            sentinels,
            log: self.scripts.resources().script_logs.of(&program),
            program,
            interpreter,
            site: self.route.site.clone(),
            mailbox: settings.output.mailbox,
            record_bytes_max: settings.output.record_bytes_max,
            kill_grace: settings.timeouts.kill_grace,
            confinement: self.route.confinement.clone(),
        }
    }

    pub(crate) fn scanner(&self, process: &Process, end: EndMark) -> Box<Scanner> {
        let kind = match self.settings().output.mailbox {
            settings::Mailbox::Stream | settings::Mailbox::Pipe => MailboxKind::Stream,
            settings::Mailbox::Record => MailboxKind::Record,
        };
        Box::new(Scanner::new(&process.spec.sentinels, kind, end))
    }

    pub(crate) fn callouts(&self, process: &Arc<Process>) -> Callouts {
        let mut callouts = Callouts::new(
            Arc::clone(&self.map),
            Arc::clone(process),
            Arc::clone(self.scripts.resources()),
            self.settings().output.memory_buffer_max,
        );
        callouts.agent = self.request.agent.as_ref().map(|_| AgentAnswer::default());
        callouts
    }

    pub(crate) fn note_process(&self, process: &Process) {
        self.tracer.stage(Stage::Running);
        self.request.progress.pid.set(process.pid);
    }

    /// The pool of its script, whose counters it is added to.
    pub(crate) fn pool(&self) -> Arc<SharedPool> {
        let resources = self.scripts.resources();
        let pool = self.route.pools.pool(&self.script, self.settings(), resources);
        self.request.progress.script.set(pool.record.series);
        pool
    }

    /// Stores a request body, unless the request would then be refused because the script's queue is full.
    pub(crate) async fn store(&self, body: RequestBody) -> Result<(StoredBody, u64), Fault> {
        let resources = self.scripts.resources();
        self.pool().check_room()?;
        self.tracer.stage(Stage::ReadingBody);
        let stored = body.store(&resources.stored_bodies).await;
        self.tracer.stage(Stage::AwaitingProcess);
        stored
    }

    /// A memory buffer without memory. `None` if the route allows none (`memory_buffer_max = 0`).
    pub(crate) fn segment(&self) -> Result<Option<Segment>, Fault> {
        let bytes_max = self.settings().output.memory_buffer_max;
        let segment = (bytes_max > 0).then(|| self.scripts.resources().segment(bytes_max));
        let segment = segment.transpose();
        segment.map_err(|error| ServerFault::io(Activity::MemoryBuffer, error).into())
    }

    /// The clock of its exchange; `timer` is that of the last exchange of its process.
    pub(crate) fn idle_timer(&self, timer: KeptTimer) -> IdleTimer {
        IdleTimer::new(self.settings().timeouts.reply, self.settings().timeouts.deadline, timer)
    }
}

impl WatchableJob for Job {
    fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    fn module(&self) -> &'static str {
        match self.request.agent {
            None => "script",
            Some(_) => "agent",
        }
    }

    fn secrets(&self, masks: &Masks) -> Secrets {
        let added = self.settings().variables.added.iter();
        let added = added.filter(|(name, _)| masks.is_secret(name.as_bytes()));
        self.request
            .secrets(masks)
            .and(added.map(|(_, value)| value.as_bytes()))
    }

    fn script(&self) -> Option<String> {
        let is_agent = self.request.agent.is_some();
        (!is_agent).then(|| self.script.file.display().to_string())
    }
}

pub(crate) fn new_sentinels() -> Result<Sentinels, Fault> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(ServerFault::NoRandomBytes)?;
    Ok(Sentinels::from_random(bytes))
}

/// The path of an interpreter. One that was not found at the start is a bare name or a relative path, and is looked up again;
/// whether another still exists shows when it is executed (`script_process::start`). A 503 if it is still missing.
pub(crate) fn present(interpreter: &Path) -> Result<Cow<'_, Path>, Fault> {
    if interpreter.is_absolute() {
        return Ok(Cow::Borrowed(interpreter));
    }
    let found = interpreter.to_str().and_then(find_program);
    found
        .map(Cow::Owned)
        .ok_or_else(|| ServerFault::Missing(interpreter.into()).into())
}

fn duplicate(segment: &Segment) -> Result<OwnedFd, Fault> {
    let duplicate = segment.fd().try_clone_to_owned();
    duplicate.map_err(|error| ServerFault::io(Activity::MemoryBuffer, error).into())
}

pub(crate) fn c_string(text: impl AsRef<OsStr>) -> Result<CString, Fault> {
    CString::new(text.as_ref().as_bytes()).map_err(|_| ServerFault::NulInArgument.into())
}
