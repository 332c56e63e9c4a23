//! Retiring a script that is named by its path in a URL, of any site.
//!
//! Not here: retiring one that is named by its file (`sluice_script::report`).

use sluice_script::report::Retired;

use crate::dispatch::Config;
use crate::serve::decide::script_of_path;

/// Retires the processes of the scripts that a path leads to: idle ones end at once, busy ones after their exchange.
pub(crate) fn by_path(config: &Config, path: &str) -> Retired {
    let scripts = config.sites().filter_map(|site| script_of_path(site, path));
    scripts
        .map(|(route, script)| route.pools.retire(&script))
        .fold(Retired::default(), Retired::and)
}
