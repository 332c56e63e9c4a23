//! The second stage: what a request's target means. From the host to the site, from the path by its
//! rules to what answers, from a route to the script's file.

pub(crate) mod locate;
pub(crate) mod resolve;
pub(crate) mod route;
pub(crate) mod site;

pub(crate) use site::{Config, Site};
