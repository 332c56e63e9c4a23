//! Asking an authentication agent: a CGIplus script of the site, or one that comes with the server, that says whether a password or token is right.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use sluice_access::control::Ticket;
use sluice_access::credentials::Credentials;
use sluice_access::rules::User;
use sluice_access::users::{NAME_BYTES_MAX, check_name};
use sluice_gateway::AgentAnswer;
use sluice_http::fault::{self, Fault, ScriptFault};
use sluice_http::target::Target;
use sluice_script::exchange::agent;
use sluice_script::exchange::job::Job;
use sluice_script::exchange::request::{AgentQuestion, ScriptRequest, ScriptUser};
use sluice_script::own_agent;
use sluice_settings::Settings;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::{AccessSettings, AgentProgram, AgentSettings};
use sluice_watch::Stage;

use crate::dispatch::{Config, Site};
use crate::serve::decide::{AgentScript, agent_script};
use crate::serve::exchange::Exchange;
use crate::serve::identity::KnownUser;
use crate::serve::request::Request;
use crate::serve::watched::note_access;

pub(crate) struct PendingAnswer {
    pub(crate) ticket: Ticket,
    pub(crate) access: Arc<AccessSettings>,
    pub(crate) agent: AgentSettings,
    pub(crate) scheme: &'static str,
    pub(crate) credentials: Credentials,
}

/// Checks that the agents of all routes are scripts that can be asked. Errors: the first one that is not: the administrator's.
pub(crate) fn check_agents(settings: &Settings, config: &Config) -> Result<(), OpenError> {
    for (site, settings) in config.sites().zip(&settings.sites) {
        for route in &settings.routes {
            for access in route.changes.access.limits() {
                let agent = access.source.agent.as_ref();
                // Those that come with the server are found when the configuration is opened.
                let Some(AgentProgram::Script(path)) = agent.map(|agent| &agent.program) else {
                    continue;
                };
                agent_script(site, path).map_err(|fault| {
                    let wanted = "it is the path of a script of mode \"cgiplus\" in this site";
                    OpenError::new(&access.origin, format!("agent {path:?}: {fault}: {wanted}"))
                })?;
            }
        }
    }
    Ok(())
}

fn own_agent_script(request: &Request, agent: &AgentSettings) -> Result<AgentScript, Fault> {
    let absent = || Fault::unexpected("an authentication agent without a program");
    let route = request.config.agents.route(agent).ok_or_else(absent)?;
    Ok(AgentScript {
        script: own_agent::script(route).ok_or_else(absent)?,
        route: Arc::clone(route),
        target: Target::parse("/")?,
    })
}

impl PendingAnswer {
    /// Asks the agent, and notes the result in the request. Errors of the agent: it has failed, is silent, has said nothing, or has named an impossible user.
    pub(crate) async fn ask(self, exchange: &Exchange, request: &mut Request) -> Result<(), Fault> {
        let site = Arc::clone(request.site());
        let answer = match &self.agent.program {
            AgentProgram::Script(path) => agent_script(&site, path)?,
            AgentProgram::Own(_) => own_agent_script(request, &self.agent)?,
        };
        let file = answer.script.file.clone();
        let asked = agent::ask(Rc::new(self.job(exchange, request, &site, answer))).await;
        let said = asked.inspect_err(|fault| self.note_failure(exchange, &file, fault))?;
        let AgentAnswer { name, groups, refused, .. } = said;
        exchange.tracer.stage(Stage::Checking);
        note_access(exchange, || match &refused {
            Some(reason) => format!("agent {}: refused: {reason:?}", file.display()),
            None => {
                let own = &self.credentials.name;
                let user = name.as_ref().unwrap_or(own);
                format!("agent {}: user {user:?}, groups {groups:?}", file.display())
            }
        });
        if let Some(reason) = refused {
            tracing::debug!(id = %exchange.id, "{}: refused: {reason:?}", file.display());
            self.ticket.refuse().await;
            let wrong = KnownUser::Nobody(fault::Credentials::Wrong(self.credentials.name.into()));
            request.identity.note(&self.access.source, wrong);
            return Ok(());
        }
        let name = name.unwrap_or(self.credentials.name);
        check_name("user", &name).map_err(|problem| ScriptFault::agent(&file, &problem))?;
        let store = request.config.user_store(&self.access.source);
        let of_file = store.map(|store| store.groups_of(&name)).unwrap_or_default();
        // No rule names a longer one, and many users may be remembered.
        let groups = groups.iter().filter(|group| group.len() <= NAME_BYTES_MAX);
        let groups = groups.map(|group| Arc::from(group.as_str()));
        let user = User {
            name: name.into(),
            groups: of_file.iter().cloned().chain(groups).collect(),
            auth_type: self.scheme,
        };
        self.ticket.right(&user);
        request.identity.note(&self.access.source, KnownUser::User(user));
        Ok(())
    }

    /// Says which rules the agent is of: the request is for another path, and its own line names the script alone.
    fn note_failure(&self, exchange: &Exchange, file: &Path, fault: &Fault) {
        let (origin, file) = (&self.access.origin, file.display());
        tracing::warn!(id = %exchange.id, "access rules at {origin}: the authentication agent {file} has not answered, so nobody is let in: {fault}");
        note_access(exchange, || format!("agent {file} ({origin}): no answer: {fault}"));
    }

    fn job(&self, exchange: &Exchange, request: &Request, site: &Arc<Site>, answer: AgentScript) -> Job {
        let AgentScript { route, script, mut target } = answer;
        // For the agent's own log: what it says of a name and a password holds for every path.
        target.raw = request.raw_target().into();
        let mut fields = http::HeaderMap::clone(&request.fields);
        for name in [
            http::header::CONTENT_LENGTH,
            http::header::CONTENT_TYPE,
            http::header::TRANSFER_ENCODING,
        ] {
            fields.remove(name);
        }
        let server = exchange.client.endpoints.server.ip();
        let server_name = request.config.server_name(site, &request.host, server);
        Job {
            scripts: Rc::clone(&exchange.context.scripts),
            request: ScriptRequest {
                target,
                redirect_url: None,
                method: request.method.clone(),
                version: exchange.line.version,
                fields: Rc::new(fields),
                server_name: server_name.map(str::to_ascii_lowercase),
                id: exchange.id,
                endpoints: exchange.client.endpoints,
                client_name: None,
                is_https: exchange.client.is_https,
                tls_info: None,
                user: Some(ScriptUser {
                    name: self.credentials.name.as_str().into(),
                    auth_type: self.scheme,
                    realm: self.access.realm.as_str().into(),
                    group: None,
                }),
                authorization: None,
                agent: Some(AgentQuestion {
                    password: self.credentials.password.clone(),
                    parameters: self.agent.parameters.clone(),
                }),
                arrived: exchange.entry.arrived,
                // Its own: the agent is asked for other requests too, and is not ended with this one.
                progress: Rc::default(),
            },
            script,
            route,
            map: Arc::<Site>::clone(site),
            compression: None,
            tracer: exchange.tracer.clone(),
        }
    }
}
