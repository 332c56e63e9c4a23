//! Dispatch: the site of a host, the route of a path, and the script file of a script route.
//!
//! It comes after the request head is read and before `serve::decide`, which says what the route found here answers with.

pub(crate) mod config;
pub(crate) mod exposed_programs;
pub(crate) mod found_script;
mod kept_processes;
pub(crate) mod known_hosts;
mod limit_tables;
pub(crate) mod locate;
mod map;
mod own_agents;
mod paths_below;
mod program;
pub(crate) mod resolve;
pub(crate) mod route;
pub(crate) mod script_sources;
pub(crate) mod site;
pub(crate) mod suffix_scripts;
pub(crate) mod withheld;

pub(crate) use config::Config;
pub(crate) use site::Site;
