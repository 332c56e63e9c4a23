//! A directory of scripts that engines run by their suffix, as `sluice serve` and the demo have without a configuration.

use std::path::Path;

use sluice_launch::deadline;
use sluice_settings::{Action, Engine, EngineSettings, RouteSettings, ScriptSettings, ScriptSource, Settings};

const PATH: &str = "/rte/*";

const ENGINES: [(&str, Engine); 3] = [(".py", Engine::Python), (".pl", Engine::Perl), (".php", Engine::Php)];

/// The script settings of a directory. Engines may be missing: requests for their scripts get 503.
pub(crate) fn script(directory: &Path) -> ScriptSettings {
    let mut script = ScriptSettings::rte(ScriptSource::Directory(directory.to_owned()));
    let engines = ENGINES.into_iter().map(|(suffix, engine)| (suffix.to_owned(), engine));
    script.engines.by_suffix = engines.collect();
    script
}

/// Names in a directory that are searched for scripts whose engine is missing.
const NAMES_MAX: usize = 1000;

/// A line about each engine that is missing, and for which the directory of such a route has scripts.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let routes = settings.sites.iter().flat_map(|site| &site.routes);
    routes
        .filter_map(|route| match &route.action {
            Action::Script(script) if script.mode.has_engine() => Some(&**script),
            _ => None,
        })
        .flat_map(missing_engines)
        .collect()
}

fn missing_engines(script: &ScriptSettings) -> Vec<String> {
    let ScriptSource::Directory(directory) = &script.source else {
        return Vec::new();
    };
    let asked = directory.clone();
    let names = deadline::ask(directory, move || {
        let entries = std::fs::read_dir(asked)?.flatten().take(NAMES_MAX);
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(names.collect::<Vec<_>>())
    });
    let names = names.unwrap_or_default();
    let is_used = |suffix: &str| names.iter().any(|name| name.ends_with(suffix));
    let used = ENGINES.into_iter().filter(|(suffix, _)| is_used(suffix));
    let missing = used.flat_map(|(_, engine)| {
        sluice_script::program::engine::missing_engines(&EngineSettings {
            engine: Some(engine),
            sdk: script.engines.sdk.clone(),
            ..EngineSettings::default()
        })
    });
    let shown = directory.display();
    let mut lines: Vec<_> = missing
        .map(|missing| format!("{shown}: {missing}; until it exists the answer is 503"))
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

/// The route of a script section; `origin` is its place for messages.
pub(crate) fn route(script: ScriptSettings, origin: &str) -> RouteSettings {
    RouteSettings {
        origin: origin.into(),
        ..RouteSettings::new(PATH, Action::Script(Box::new(script)))
    }
}
