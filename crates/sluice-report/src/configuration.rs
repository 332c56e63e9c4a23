//! The configuration as the server understands it: addresses, sites and routes, each with its place in the files.

use serde::Serialize;

/// The configuration in force. Values that may be secret are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Configuration {
    /// The files, the main one first; none if the command line says everything.
    pub files: Vec<String>,
    /// What holds for the whole server.
    pub server: Vec<Setting>,
    /// The sites in their order.
    pub sites: Vec<Site>,
    /// What it probably does not mean, as `sluice check` says it.
    pub warnings: Vec<String>,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Its place in the files: `sluice.toml:12`.
    pub origin: String,
    /// Its host names; none for any host.
    pub hosts: Vec<String>,
    /// What holds for the whole site.
    pub settings: Vec<Setting>,
    /// Its routes in their order, and the files for paths that no route matches.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Its place in the files.
    pub origin: String,
    /// The pattern of its paths.
    pub path: String,
    /// What it does.
    pub action: String,
    /// With what, and what it changes.
    pub with: String,
}
