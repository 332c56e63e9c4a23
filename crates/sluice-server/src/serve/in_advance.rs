//! Script processes before there is a request for them: which scripts have them, and the task that starts them.
//!
//! The scripts of a route with `min` are its `file` or `app`, its engines, and those that `proctor` names. They are looked for once a second, so
//! that one that is installed later is found, and one that has changed is replaced.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use sluice_files::foreign::{self, Answers, Question, Share, answered};
use sluice_http::fault::Fault;
use sluice_http::target::Target;
use sluice_script::exchange::in_advance::{self, Prepared, Starter};
use sluice_script::resources::Resources;
use sluice_script::route::{Map, Script, ScriptRoute};
use sluice_settings::ScriptSource;

use crate::context::{Context, HeldConfig};
use crate::dispatch::Site;
use crate::dispatch::found_script::script_of_path;
use crate::dispatch::locate::locate;
use crate::dispatch::route::Route;

/// The thing that is looked up, for the error that it cannot be.
const WHAT: &str = "scripts with `min`";

/// The path of a program that a route names, where its pattern has none.
const ROOT: &str = "/";

/// Lookups of scripts that an event loop has left to threads: the answers by the numbers of site and route. `None` while a thread is asking.
#[derive(Default)]
pub(crate) struct Lookups(RefCell<HashMap<(usize, usize), Option<Answers>>>);

/// Makes the pools of the scripts whose processes are started in advance. Those that another thread must look up get theirs a second later.
pub(crate) fn prepare(config: &HeldConfig, resources: &Resources, lookups: &Rc<Lookups>) {
    for (number, site) in config.sites().enumerate() {
        for (route_number, route) in site.routes.iter().enumerate() {
            let script = route.script();
            let Some(script) = script.filter(|script| script.settings.pool.min > 0) else {
                continue;
            };
            let place = (number, route_number);
            let answers = match lookups.0.borrow_mut().remove(&place) {
                Some(None) => {
                    lookups.0.borrow_mut().insert(place, None);
                    continue;
                }
                answers => answers.flatten().unwrap_or_default(),
            };
            let (prepared, left) = foreign::here(answers, || prepared_scripts(site, route, script));
            match left {
                None => script.pools.prepare(prepared, &script.settings, resources),
                Some(share) => look_up(share, config, place, lookups),
            }
        }
    }
}

fn look_up(share: Share, config: &HeldConfig, place: (usize, usize), lookups: &Rc<Lookups>) {
    lookups.0.borrow_mut().insert(place, None);
    let (config, lookups) = (config.shared(), Rc::clone(lookups));
    let make = move || {
        let config = config.clone();
        move || {
            let site = config.site(place.0);
            let route = &site.routes[place.1];
            route.script().map(|script| prepared_scripts(site, route, script))
        }
    };
    tokio::task::spawn_local(async move {
        let noted = foreign::noted(share, WHAT, make).await;
        // A configuration that has replaced this one asks other questions.
        lookups.0.borrow_mut().insert(place, Some(noted.unwrap_or_default()));
    });
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
            let located = answered(Question::Script, route.number, path, Result::clone, || {
                locate(site, route, script, path, "")
            });
            match located {
                Ok(found) => prepared.push(started(found)),
                // It is asked for once more with the answers of another thread.
                Err(_) if foreign::has_left() => {}
                Err(fault) => script.pools.warn_once(&format!("min: {fault}")),
            }
        }
        ScriptSource::Directory(_) | ScriptSource::Root => {}
    }
    for path in &script.settings.proctor {
        match proctored(site, script, path) {
            Ok(Some(asked)) => prepared.push(asked),
            Ok(None) | Err(_) if foreign::has_left() => {}
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
    Ok(is_own.then_some(Prepared { script, target: Some(target) }))
}
