//! Script processes before there is a request for them: which scripts have them, and the task that starts them.
//!
//! The scripts of a route with `min` are its `file` or `app`, its engines, and those that `proctor` names. They are looked for once a second, so
//! that one that is installed later is found, and one that has changed is replaced. Not here: when processes are started
//! (`sluice_script::pool::pools`), and how (`sluice_script::exchange::in_advance`).

use std::rc::Rc;
use std::sync::Arc;

use sluice_http::fault::Fault;
use sluice_http::target::Target;
use sluice_script::exchange::in_advance::{self, Prepared, Starter};
use sluice_script::resources::Resources;
use sluice_script::route::{Map, Script, ScriptRoute};
use sluice_settings::ScriptSource;

use crate::context::Context;
use crate::dispatch::found_script::script_of_path;
use crate::dispatch::locate::locate;
use crate::dispatch::route::Route;
use crate::dispatch::{Config, Site};

/// The path of a program that a route names, where its pattern has none.
const ROOT: &str = "/";

/// Makes the pools of the scripts whose processes are started in advance.
pub(crate) fn prepare(config: &Config, resources: &Resources) {
    for site in config.sites() {
        for route in &site.routes {
            let script = route.script();
            if let Some(script) = script.filter(|script| script.settings.pool.min > 0) {
                let prepared = prepared_scripts(site, route, script);
                script.pools.prepare(prepared, &script.settings, resources);
            }
        }
    }
}

/// Starts processes in advance whenever a pool wants some, as long as the worker runs.
pub(crate) async fn start_wanted(context: Rc<Context>) {
    loop {
        in_advance::wanted(&context.scripts).await;
        let config = context.config();
        for (site, route) in config.kept_script_routes() {
            let starter = Starter {
                scripts: Rc::clone(&context.scripts),
                route: Arc::clone(route),
                map: Arc::<Site>::clone(site) as Arc<dyn Map>,
                server_name: site.name().map(str::to_ascii_lowercase),
            };
            starter.start_wanted(|| context.next_id());
        }
    }
}

fn prepared_scripts(site: &Site, route: &Route, script: &Arc<ScriptRoute>) -> Vec<Prepared> {
    let mut prepared: Vec<_> = script.engine_scripts(site.document_root()).map(started).collect();
    match &script.settings.source {
        ScriptSource::File(_) | ScriptSource::App { .. } => {
            let path = route.pattern.begin().unwrap_or(ROOT);
            match locate(site, route, script, path, "") {
                Ok(found) => prepared.push(started(found)),
                Err(fault) => script.pools.warn_once(&format!("min: {fault}")),
            }
        }
        ScriptSource::Directory(_) | ScriptSource::Root => {}
    }
    for path in &script.settings.proctor {
        match proctored(site, script, path) {
            Ok(Some(asked)) => prepared.push(asked),
            Ok(None) => {
                let problem =
                    format!("proctor: {path} leads to another route: a PROCTOR request is for a script of its route");
                script.pools.warn_once(&problem);
            }
            Err(fault) => script.pools.warn_once(&format!("proctor: {path}: {fault}")),
        }
    }
    prepared
}

/// A script whose processes are started and asked nothing.
fn started(script: Script) -> Prepared {
    Prepared { script, target: None }
}

/// The script that a path of `proctor` leads to. `None` if it leads to another route.
fn proctored(site: &Site, route: &Arc<ScriptRoute>, path: &str) -> Result<Option<Prepared>, Fault> {
    let target = Target::parse(path)?;
    let Some((found, script)) = script_of_path(site, path) else {
        return Ok(None);
    };
    let is_own = Arc::ptr_eq(&found, route);
    Ok(is_own.then_some(Prepared {
        script,
        target: Some(target),
    }))
}
