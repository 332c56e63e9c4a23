//! Lines that a server logs when it starts: the files that it has read, its sites, and where its logs go.

use std::fmt::Write;

use sluice_launch::deadline;
use sluice_settings::{Action, ScriptSource, Settings, SiteSettings};

use super::describe::{count, describe_directory, describe_log, describe_server_log};

/// The configuration files: `configuration /etc/sluice/sluice.toml and 2 included files`.
pub fn sources(settings: &Settings) -> String {
    match settings.config_files.split_first() {
        None => "without a configuration file".to_owned(),
        Some((main, [])) => format!("configuration {}", main.display()),
        Some((main, included)) => {
            let included = count(included.len(), "included file", "included files");
            format!("configuration {} and {included}", main.display())
        }
    }
}

/// The sites, routes and scripts, and the logs. Of one site with one directory of scripts, as `sluice serve` has, the directories are named.
pub fn contents(settings: &Settings) -> String {
    let logs = format!(
        "access log: {}; server log: {}",
        describe_log(&settings.access_log),
        describe_server_log(&settings.server_log)
    );
    let sites = match settings.sites.as_slice() {
        [site] => directories(site),
        _ => None,
    };
    format!("{}; {logs}", sites.unwrap_or_else(|| counts(settings)))
}

fn counts(settings: &Settings) -> String {
    let parts = [
        count(settings.sites.len(), "site", "sites"),
        count(settings.routes().count(), "route", "routes"),
        format!("{} for scripts", settings.scripts().count()),
    ];
    parts.join(", ")
}

/// The directories of a site whose scripts are all in one, or also in others that may be absent.
fn directories(site: &SiteSettings) -> Option<String> {
    let root = site.root.as_ref()?.display();
    let mut scripts = site.routes.iter().filter_map(|route| match &route.action {
        Action::Script(script) => Some(script),
        _ => None,
    });
    let first = scripts.next()?;
    let ScriptSource::Directory(directory) = &first.source else {
        return None;
    };
    let mut described = describe_directory(directory, first);
    for script in scripts.filter(|script| script.source != first.source) {
        match &script.source {
            // `sluice serve` has it in case that it is made.
            ScriptSource::Directory(path) if script.is_directory_optional => {
                if deadline::is_dir(path) {
                    let _ = write!(described, " and {}", path.display());
                }
            }
            _ => return None,
        }
    }
    Some(format!("files of {root}; scripts of {described}"))
}
