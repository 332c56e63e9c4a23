//! A directory of scripts that engines run by their suffix, as `sluice serve` and the demo have without a configuration.

use std::path::Path;

use sluice_settings::{Action, Engine, Mode, RouteSettings, ScriptSettings, ScriptSource};

/// The paths of the route.
const PATH: &str = "/rte/*";

/// Its engines.
const ENGINES: [(&str, Engine); 3] = [(".py", Engine::Python), (".pl", Engine::Perl), (".php", Engine::Php)];

/// The script settings of a directory. An engine that is missing is no mistake: requests for its scripts get 503.
pub(crate) fn script(directory: &Path) -> ScriptSettings {
    let mut script = ScriptSettings::new(ScriptSource::Directory(directory.to_owned()), Mode::Rte);
    let engines = ENGINES.into_iter().map(|(suffix, engine)| (suffix.to_owned(), engine));
    script.engines.by_suffix = engines.collect();
    script
}

/// The route of a script section; `origin` is its place for messages.
pub(crate) fn route(script: ScriptSettings, origin: &str) -> RouteSettings {
    RouteSettings {
        origin: origin.into(),
        ..RouteSettings::new(PATH, Action::Script(Box::new(script)))
    }
}
