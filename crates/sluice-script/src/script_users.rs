//! The users of scripts, and the programs of the routes with their limits, for the launcher: every form that a server process may give to a start.
//!
//! Programs that are searched, such as engines and interpreters, may be installed later, so each place in which they would be found counts.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sluice_launch::{Confinement, EngineCommand, FileRules, ProcessLimits, RoutePrograms, RouteSource, RouteUser};
use sluice_launch::{NamedUser, OwnerPolicy, ScriptUsers, deadline};
use sluice_settings::{
    EngineSettings, OwnerSettings, PlannedAgent, ProgramSettings, ProgramSource, ScriptLimits, ScriptSource,
    ScriptUser, ScriptUserSettings,
};

use crate::own_agent;
pub use crate::process::default_environment::search_path_of_another_user;
use crate::process::possible_search_paths;
use crate::program::engine::possible_commands;
use crate::program::search_path::possible_programs;

/// The policy for the launcher. `open_files_max` is the limit of scripts whose route says none: that with which the server was started.
pub fn policy(settings: &ScriptUserSettings, open_files_max: Option<u64>) -> ScriptUsers {
    ScriptUsers {
        usual: settings.usual.as_ref().map(|user| user.credentials.clone()),
        named: settings
            .named
            .iter()
            .map(|user| NamedUser {
                name: user.name.clone(),
                credentials: user.credentials.clone(),
            })
            .collect(),
        owners: settings.owners.as_ref().map(owner_policy),
        programs: programs_of(settings, open_files_max),
    }
}

fn owner_policy(owners: &OwnerSettings) -> OwnerPolicy {
    OwnerPolicy {
        uid_min: owners.uid_min,
        is_for_all: owners.is_for_all,
        users: owners.users.iter().map(|user| user.credentials.clone()).collect(),
        groups: owners.groups.clone(),
        directories: owners.directories.iter().flat_map(|path| spellings(path)).collect(),
    }
}

/// A directory as it is written, and without links: a script may be known by either path.
fn spellings(directory: &Path) -> Vec<CString> {
    let mut paths = vec![directory.to_owned()];
    paths.extend(deadline::canonicalize(directory).ok().filter(|path| path != directory));
    paths.iter().filter_map(|path| c_string(path)).collect()
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// The programs of all routes, and the authentication agents of the server.
fn programs_of(settings: &ScriptUserSettings, open_files_max: Option<u64>) -> Vec<RoutePrograms> {
    let of_routes = settings.programs.iter();
    let of_routes = of_routes.map(|programs| of_route(programs, open_files_max));
    let agents = settings.agents.iter().map(|agent| of_agent(agent, open_files_max));
    of_routes.chain(agents).collect()
}

fn of_route(settings: &ProgramSettings, open_files_max: Option<u64>) -> RoutePrograms {
    let limits = &settings.limits;
    let engines = settings.engines.as_ref();
    let virtualenv = engines.and_then(|engines| engines.virtualenv.as_deref());
    RoutePrograms {
        user: match &limits.user {
            ScriptUser::Usual => RouteUser::Usual,
            ScriptUser::Named(user) => RouteUser::Named(user.name.clone()),
            ScriptUser::Owner => RouteUser::Owner,
            // The launcher knows no such user, and starts nothing.
            ScriptUser::Unknown { name, .. } => RouteUser::Named(name.clone()),
        },
        sources: settings.sources.iter().map(source).collect(),
        interpreters: settings
            .interpreters
            .iter()
            .flat_map(|(suffix, program)| {
                let paths = possible_programs(program).into_iter();
                paths.filter_map(move |path| Some((suffix.clone(), c_string(&path)?)))
            })
            .collect(),
        engines: engines.map(commands).unwrap_or_default(),
        has_arguments: settings.passes_arguments,
        directory: limits.working_directory.as_deref().and_then(c_string),
        variables: variables(settings),
        limits: with_usual(limits.limits, open_files_max),
        confinement: confinement(limits),
        own_files: virtualenv.and_then(c_string).into_iter().collect(),
    }
}

fn of_agent(agent: &PlannedAgent, open_files_max: Option<u64>) -> RoutePrograms {
    let paths = own_agent::possible_programs(agent.kind, agent.sdk.as_deref());
    RoutePrograms {
        sources: paths.iter().map(|path| only(path)).collect(),
        variables: search_paths().collect(),
        limits: with_usual(ProcessLimits::default(), open_files_max),
        ..RoutePrograms::default()
    }
}

fn with_usual(limits: ProcessLimits, open_files_max: Option<u64>) -> ProcessLimits {
    ProcessLimits {
        open_files_max: limits.open_files_max.or(open_files_max),
        ..limits
    }
}

fn only(file: &Path) -> RouteSource {
    RouteSource { file: c_string(file), ..RouteSource::default() }
}

fn source(source: &ProgramSource) -> RouteSource {
    let below = |directory: &Path| RouteSource {
        file: None,
        directories: spellings(directory),
        follows_links: source.follows_links,
    };
    match &source.source {
        ScriptSource::Directory(directory) | ScriptSource::App { directory, .. } => below(directory),
        ScriptSource::File(file) => only(file),
        ScriptSource::Root => below(source.root.as_deref().unwrap_or(Path::new("/"))),
    }
}

fn commands(settings: &EngineSettings) -> Vec<EngineCommand> {
    let c_strings = |paths: &[PathBuf]| paths.iter().filter_map(|path| c_string(path)).collect();
    possible_commands(settings)
        .into_iter()
        .map(|command| EngineCommand {
            programs: c_strings(&command.programs),
            files: c_strings(&command.files),
            options: command
                .options
                .iter()
                .filter_map(|option| CString::new(option.as_bytes()).ok())
                .collect(),
        })
        .collect()
}

/// Entries of an environment that name code and are those of the configuration.
fn variables(settings: &ProgramSettings) -> Vec<Vec<u8>> {
    let set = settings.variables.iter();
    let set = set.map(|(name, value)| entry(name, value.as_bytes()));
    let inherited = settings.inherited.iter();
    let inherited = inherited.filter_map(|name| Some(entry(name, std::env::var_os(name)?.as_bytes())));
    set.chain(inherited).chain(search_paths()).collect()
}

fn search_paths() -> impl Iterator<Item = Vec<u8>> {
    possible_search_paths().into_iter().map(|path| entry("PATH", &path))
}

fn entry(name: &str, value: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b"=", value].concat()
}

fn confinement(limits: &ScriptLimits) -> Confinement {
    let c_strings = |paths: &[PathBuf]| paths.iter().filter_map(|path| c_string(path)).collect();
    Confinement {
        nice: limits.nice,
        io_priority: limits.io_priority,
        umask: limits.umask,
        has_private_tmp: limits.has_private_tmp,
        covers_tmp: true,
        chroot: limits.chroot.as_deref().and_then(c_string),
        files: limits.files.as_ref().map(|files| FileRules {
            read: c_strings(&files.read),
            write: c_strings(&files.write),
        }),
        is_offline: limits.is_offline,
        cgroup: limits.cgroup,
    }
}

#[cfg(test)]
mod tests {
    use sluice_settings::{Engine, ScriptSettings};

    use super::*;

    /// The programs of one route with these settings.
    fn of_script(script: &ScriptSettings) -> RoutePrograms {
        let source = ProgramSource {
            source: script.source.clone(),
            root: Some("/srv/www".into()),
            follows_links: false,
        };
        of_route(&ProgramSettings::of(source, script), Some(1024))
    }

    #[test]
    fn a_route_without_limits_has_that_of_open_files() {
        let mut script = ScriptSettings::cgi(ScriptSource::Directory("/srv/cgi".into()));
        assert_eq!(of_script(&script).limits.open_files_max, Some(1024));
        script.confinement.limits.open_files_max = Some(64);
        let programs = of_script(&script);
        assert_eq!(programs.limits.open_files_max, Some(64));
        assert_eq!(programs.sources[0].directories, [c"/srv/cgi".to_owned()]);
        assert!(!programs.has_arguments && programs.engines.is_empty());
    }

    #[test]
    fn only_variables_that_name_code_are_known_to_the_launcher() {
        let mut script = ScriptSettings::cgi(ScriptSource::File("/srv/a".into()));
        let variables = [("LD_LIBRARY_PATH", "/srv/lib"), ("DB_PASSWORD", "secret")];
        script.variables.added = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let programs = of_script(&script);
        assert!(programs.variables.contains(&b"LD_LIBRARY_PATH=/srv/lib".to_vec()));
        assert!(programs.variables.iter().all(|entry| !entry.starts_with(b"DB_")));
        assert_eq!(programs.sources[0].file.as_deref(), Some(c"/srv/a"));
    }

    #[test]
    fn an_engine_may_be_wherever_it_would_be_found() {
        let mut script = ScriptSettings::rte(ScriptSource::Root);
        script.engines.engine = Some(Engine::Python);
        script.engines.sdk = Some("/opt/sdk".into());
        script.engines.virtualenv = Some("/srv/venv".into());
        script.engines.app = Some("a:b".to_owned());
        let programs = of_script(&script);
        let expected = EngineCommand {
            programs: vec![c"/srv/venv/bin/python".into()],
            files: vec![c"/opt/sdk/python/engine.py".into()],
            options: vec![c"--app=a:b".into()],
        };
        assert_eq!(programs.engines, [expected]);
        assert_eq!(programs.own_files, [c"/srv/venv".to_owned()]);
        assert_eq!(programs.sources[0].directories, [c"/srv/www".to_owned()]);
        script.engines.sdk = None;
        script.engines.virtualenv = None;
        let everywhere = &of_script(&script).engines[0];
        assert!(everywhere.programs.contains(&c"/usr/bin/python3".to_owned()));
        assert!(
            everywhere
                .files
                .contains(&c"/usr/lib/sluice/python/engine.py".to_owned())
        );
    }
}
