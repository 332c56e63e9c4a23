//! The policy of a launcher: which users, programs and limits it permits, whatever a server process asks for.

pub(crate) mod code_variables;
pub(crate) mod current_users;
pub(crate) mod owned_script;
pub(crate) mod route_programs;
pub(crate) mod run_as;
pub(crate) mod share;
pub(crate) mod user_policy;
