//! Limits on what a script process, or the server itself, may use and reach: resources, cgroups, files, network, system calls.
//!
//! Everything is prepared before the clone.

pub(crate) mod attributes;
pub(crate) mod cgroup;
pub(crate) mod cgroup_limits;
pub(crate) mod confinement;
pub(crate) mod file_rules;
pub(crate) mod limits;
pub(crate) mod network;
pub(crate) mod own_directory;
pub(crate) mod priority;
pub(crate) mod privileges;
pub(crate) mod root_and_tmp;
pub(crate) mod root_directory;
pub(crate) mod server_filter;
pub(crate) mod temporary;
pub(crate) mod weaker;
