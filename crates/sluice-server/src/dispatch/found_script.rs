//! Scripts by their path: what a resolved path, or a path outside a request, leads to.

use std::sync::Arc;

use sluice_files::foreign::{Question, answered};
use sluice_http::fault::Fault;
use sluice_http::target::Target;
use sluice_script::report::Retired;
use sluice_script::route::{Script, ScriptRoute};

use crate::dispatch::config::Config;
use crate::dispatch::locate::locate;
use crate::dispatch::resolve::Resolved;
use crate::dispatch::route::{Route, RoutedPath};
use crate::dispatch::site::Site;

pub(crate) struct FoundScript<'s> {
    pub route: &'s Route,
    pub scripts: &'s Arc<ScriptRoute>,
    /// The script; or the fault, because it does not exist (404) or cannot be run (403).
    pub located: Result<Script, Fault>,
}

/// The script that a resolved path leads to. `None` if its route runs none there.
pub(crate) fn script_at<'s>(site: &Site, resolved: &Resolved<'s>, path: &str) -> Option<FoundScript<'s>> {
    let Resolved::Route(route, kind, capture) = resolved else {
        return None;
    };
    let below = capture.of(path);
    let located = answered(Question::Script, route.number, path, Option::clone, || {
        match kind.programs() {
            Some((directory, programs)) => programs.locate(directory, route.pattern.prefix(), below),
            None => Some(locate(site, route, kind.script()?, path, below)),
        }
    })?;
    Some(FoundScript { route, scripts: kind.script()?, located })
}

/// The script that a path of the site leads to, with its route. Routes with conditions are skipped. `None` if it leads to none.
pub(crate) fn script_of_path(site: &Site, path: &str) -> Option<(Arc<ScriptRoute>, Script)> {
    let target = Target::parse(path).ok()?;
    let resolution = site.resolve(RoutedPath::outside_request(&target.path), &mut ()).ok()?;
    let path = &resolution.rewritten.as_deref().unwrap_or(&target).path;
    let found = script_at(site, &resolution.resolved, path)?;
    Some((Arc::clone(found.scripts), found.located.ok()?))
}

/// Retires the processes of the scripts that a path leads to, in any site: idle ones end at once, busy ones after their exchange.
pub(crate) fn retire(config: &Config, path: &str) -> Retired {
    let scripts = config.sites().filter_map(|site| script_of_path(site, path));
    scripts
        .map(|(route, script)| route.pools.retire(&script))
        .fold(Retired::default(), Retired::and)
}
