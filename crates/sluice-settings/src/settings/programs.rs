//! The programs that routes start, as the launcher needs to know them: where they are, what runs them, and their limits.
//!
//! The launcher starts no others, and none with weaker limits, whatever a server process asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_launch::names_code;

use super::engine::EngineSettings;
use super::script::{ScriptSettings, ScriptSource};
use super::script_limits::ScriptLimits;
use crate::rule::OwnAgentKind;

/// The programs of routes that differ only in where these are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSettings {
    /// Where they are.
    pub sources: Vec<ProgramSource>,
    /// Suffixes, each with the name or path of its interpreter.
    pub interpreters: BTreeMap<String, String>,
    /// The engines. `None` in other modes than `rte`.
    pub engines: Option<EngineSettings>,
    /// Whether the keywords of a query become arguments.
    pub passes_arguments: bool,
    /// Variables that the routes set, of those that name code.
    pub variables: Vec<(String, String)>,
    /// Variables that the routes take from the environment of the server, of those that name code.
    pub inherited: Vec<String>,
    /// The user and the limits.
    pub limits: ScriptLimits,
}

/// Where the programs of a route are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSource {
    /// The source in the settings of the route.
    pub source: ScriptSource,
    /// The directory of the site's files.
    pub root: Option<PathBuf>,
    /// Whether links may lead to programs elsewhere.
    pub follows_links: bool,
}

/// An authentication agent that comes with the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedAgent {
    /// Which one.
    pub kind: OwnAgentKind,
    /// The directory of the agents; `None`: searched beside the program, then where it is installed.
    pub sdk: Option<PathBuf>,
}

impl ProgramSettings {
    /// The programs of a route.
    #[must_use]
    pub fn of(source: ProgramSource, script: &ScriptSettings) -> ProgramSettings {
        let variables = script.variables.added.clone().into_iter();
        let inherited = script.variables.inherited.iter().cloned();
        ProgramSettings {
            sources: vec![source],
            interpreters: script.interpreters.clone(),
            engines: script.mode.has_engine().then(|| script.engines.clone()),
            passes_arguments: script.passes_arguments,
            variables: variables.filter(|(name, _)| names_code(name.as_bytes())).collect(),
            inherited: inherited.filter(|name| names_code(name.as_bytes())).collect(),
            limits: script.confinement.clone(),
        }
    }

    /// Whether they differ in nothing but where they are.
    pub(crate) fn is_like(&self, other: &ProgramSettings) -> bool {
        let ProgramSettings {
            sources: _,
            interpreters,
            engines,
            passes_arguments,
            variables,
            inherited,
            limits,
        } = self;
        *interpreters == other.interpreters
            && *engines == other.engines
            && *passes_arguments == other.passes_arguments
            && *variables == other.variables
            && *inherited == other.inherited
            && *limits == other.limits
    }
}
