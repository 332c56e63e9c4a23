//! Script processes that stay when directories of the configuration are opened again: those of routes whose directories are the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_script::pool::pools::Pools;
use sluice_script::route::{Map, ScriptRoute};

use super::{Config, Site};

impl Config {
    /// Takes over the script processes of a configuration with the same settings, except those that may have loaded something from a directory in `moved`.
    pub(crate) fn take_over_processes(&mut self, before: &Config, moved: &[PathBuf]) {
        let routes = before
            .sites
            .iter()
            .flat_map(|site| site.script_routes().map(move |route| (site, route)));
        let replaced: Vec<&Pools> = routes
            .filter(|(site, route)| uses_any(route, site, moved))
            .map(|(_, route)| &route.pools)
            .collect();
        // Routes with the same engine may share their processes.
        let is_replaced = |pools: &Pools| replaced.iter().any(|replaced| replaced.has_processes_of(pools));
        for (site, before) in self.sites.iter_mut().zip(&before.sites) {
            let Some(site) = Arc::get_mut(site) else { continue };
            for (route, before) in site.routes.iter_mut().zip(&before.routes) {
                if let (Some(own), Some(before)) = (route.script_mut(), before.script())
                    && (&own.origin, &own.settings) == (&before.origin, &before.settings)
                    && !is_replaced(&before.pools)
                {
                    own.pools.join(&before.pools);
                }
            }
        }
    }

    /// Ends the script processes that `next` has not taken over: idle ones now, busy ones after their reply.
    pub(crate) fn close_processes(&self, next: &Config) {
        for route in self.script_routes() {
            let mut routes = next.script_routes();
            if !routes.any(|next| next.pools.has_processes_of(&route.pools)) {
                route.pools.close();
            }
        }
    }
}

/// Whether a text such as `/srv/a:/srv/b/lib` has this path, or one below it.
fn names(text: &str, path: &str) -> bool {
    let ends = |rest: &str| {
        rest.chars()
            .next()
            .is_none_or(|next| !next.is_alphanumeric() && !"-_.".contains(next))
    };
    text.match_indices(path).any(|(at, _)| ends(&text[at + path.len()..]))
}

/// Whether the processes of a route may have loaded something from one of these directories, by what the configuration says.
fn uses_any(route: &ScriptRoute, site: &Site, directories: &[PathBuf]) -> bool {
    let used = route.used_paths(site.document_root());
    let overlap = |directory: &Path| {
        let mut used = used.iter();
        used.any(|used| used.starts_with(directory) || directory.starts_with(used))
    };
    let is_in_variable = |directory: &Path| {
        let mut values = route.settings.variables.added.values();
        directory
            .to_str()
            .is_none_or(|directory| values.any(|value| names(value, directory)))
    };
    directories
        .iter()
        .any(|directory| overlap(directory) || is_in_variable(directory))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_path_in_a_variable_ends_with_its_name() {
        for (text, expected) in [
            ("/srv/ua/x", true),
            ("/srv/ua/x/lib", true),
            ("/lib:/srv/ua/x:/usr", true),
            ("--path=/srv/ua/x", true),
            ("/srv/ua/xylophone", false),
            ("/srv/ua/x.old", false),
            ("/srv/ua/x-old:/srv/ua/x", true),
        ] {
            assert_eq!(names(text, "/srv/ua/x"), expected, "{text}");
        }
    }
}
