//! The authentication agents that come with the server: where their programs are, and how they run.
//!
//! They run as scripts of mode `cgiplus`, of a route of their own that no path leads to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_settings::rule::{OwnAgent, OwnAgentKind};
use sluice_settings::{ScriptSettings, ScriptSource};

use crate::pool::Pools;
use crate::program::engine::Engines;
use crate::program::search_path::{find_shipped, possible_files};
use crate::program::stamp::Stamp;
use crate::route::{Script, ScriptRoute};

/// An agent has this much more time than its own limit, within which it can say why there is no answer.
const GRACE: Duration = Duration::from_secs(2);

/// Questions after which a process is replaced, because the modules of PAM may not free all that they take.
const QUESTIONS_MAX: u64 = 1000;

/// Questions that wait for a process. Further ones get 503.
const QUEUE_MAX: usize = 100;

fn names(kind: OwnAgentKind) -> [&'static str; 2] {
    match kind {
        OwnAgentKind::Pam => ["agents/build/sluice-pam", "agents/sluice-pam"],
        OwnAgentKind::Ldap => ["agents/build/sluice-ldap", "agents/sluice-ldap"],
    }
}

/// Finds the program of an agent.
///
/// # Errors
/// It is not there: why, and what to do.
pub fn find(agent: &OwnAgent) -> Result<PathBuf, String> {
    find_shipped(agent.sdk.as_deref(), &names(agent.kind)).map_err(|places| {
        let (library, package) = match agent.kind {
            OwnAgentKind::Pam => ("PAM", "libpam0g-dev"),
            OwnAgentKind::Ldap => ("LDAP", "libldap-dev"),
        };
        format!(
            "the agent for {library} is not there ({places}): build it (make sdk, with the package {package}), or write sdk = \"…\" into \
             [server]"
        )
    })
}

/// Every path at which the program of an agent would be found.
pub(crate) fn possible_programs(kind: OwnAgentKind, directory: Option<&Path>) -> Vec<PathBuf> {
    possible_files(directory, &names(kind))
}

/// The route of an agent, for its processes. `origin` is the place in the configuration.
///
/// # Errors
/// As of `find`.
pub fn open(agent: &OwnAgent, origin: &str) -> Result<ScriptRoute, String> {
    let mut settings = ScriptSettings::cgiplus(ScriptSource::File(find(agent)?));
    settings.timeouts.reply = agent.timeout + GRACE;
    settings.pool.max = agent.processes_max;
    settings.pool.requests_max = Some(QUESTIONS_MAX);
    settings.pool.queue_max = QUEUE_MAX;
    settings.pool.queue_timeout = agent.timeout;
    let engines = Engines::default();
    Ok(ScriptRoute {
        confinement: None,
        pools: Pools::new(&settings, &engines, "*", origin),
        settings,
        interpreters: Vec::new(),
        engines,
        site: "*".to_owned(),
        origin: origin.to_owned(),
        other_mode: None,
    })
}

/// The program of the route of an agent. A process of a program that was replaced is replaced, too.
pub fn script(route: &ScriptRoute) -> Option<Script> {
    let ScriptSource::File(file) = &route.settings.source else {
        return None;
    };
    let stamp = std::fs::metadata(file).map_or(Stamp::NONE, |about| Stamp::of(&about));
    Some(Script {
        file: file.clone(),
        name: String::new(),
        path_info: None,
        interpreter: None,
        engine: None,
        stamp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_found_in_a_checkout_or_where_it_is_installed() {
        let sdk = tempfile::tempdir().unwrap();
        let agent = OwnAgent {
            kind: OwnAgentKind::Ldap,
            timeout: Duration::from_secs(10),
            processes_max: 3,
            password_file: None,
            has_groups: false,
            sdk: Some(sdk.path().to_owned()),
        };
        let missing = find(&agent).unwrap_err().to_string();
        let expected = format!(
            "the agent for LDAP is not there (agents/build/sluice-ldap or agents/sluice-ldap in {}): build it (make sdk, with the package \
             libldap-dev), or write sdk = \"…\" into [server]",
            sdk.path().display()
        );
        assert_eq!(missing, expected);
        std::fs::create_dir(sdk.path().join("agents")).unwrap();
        let program = sdk.path().join("agents/sluice-ldap");
        std::fs::write(&program, "").unwrap();
        let route = open(&agent, "sluice.toml:7").unwrap();
        assert_eq!(
            (route.settings.pool.max, route.settings.timeouts.reply.as_secs()),
            (3, 12)
        );
        assert_eq!(script(&route).unwrap().file, program);
    }
}
