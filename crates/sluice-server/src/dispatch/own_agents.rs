//! The authentication agents of all routes that come with the server: one set of processes for each of their settings.

use std::sync::Arc;

use sluice_script::own_agent;
use sluice_script::route::ScriptRoute;
use sluice_settings::Settings;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::AgentSettings;

#[derive(Clone, Default)]
pub(crate) struct OwnAgents(Vec<(AgentSettings, Arc<ScriptRoute>)>);

impl OwnAgents {
    /// Finds the programs of the agents that the routes name. Errors: one is not there: without it nobody could log in.
    pub(crate) fn open(settings: &Settings) -> Result<OwnAgents, OpenError> {
        let mut agents = OwnAgents::default();
        for route in settings.sites.iter().flat_map(|site| &site.routes) {
            for access in route.changes.access.limits() {
                let agent = access.source.agent.as_ref();
                let Some((agent, own)) = agent.and_then(|agent| Some((agent, agent.own()?))) else {
                    continue;
                };
                if agents.route(agent).is_none() {
                    let opened = own_agent::open(own, &access.origin);
                    let opened = opened.map_err(|missing| OpenError::new(&access.origin, missing))?;
                    agents.0.push((agent.clone(), Arc::new(opened)));
                }
            }
        }
        Ok(agents)
    }

    /// The route of an agent. `None` if it is a script of the site.
    pub(crate) fn route(&self, agent: &AgentSettings) -> Option<&Arc<ScriptRoute>> {
        let found = self.0.iter().find(|(settings, _)| settings == agent)?;
        Some(&found.1)
    }

    pub(crate) fn routes(&self) -> impl Iterator<Item = &Arc<ScriptRoute>> {
        self.0.iter().map(|(_, route)| route)
    }
}
