//! The configuration as the server understands it: addresses, sites and routes, each with its place in the files.

use serde::Serialize;

/// The configuration in force. Values that may be secret are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Configuration {
    /// The files, the main one first; none if the command line says everything.
    pub files: Vec<String>,
    pub server: Vec<Setting>,
    pub sites: Vec<Site>,
    /// Probable mistakes, as `sluice check` reports them.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// The place in the files: `sluice.toml:12`.
    pub origin: String,
    /// The host names; none for any host.
    pub hosts: Vec<String>,
    pub settings: Vec<Setting>,
    /// The routes in their order, and the files for paths that no route matches.
    pub routes: Vec<Route>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    pub origin: String,
    pub path: String,
    pub action: String,
    /// The arguments of the action, and the changes that the route makes.
    pub with: String,
}
