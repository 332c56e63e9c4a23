//! The policy of a launcher: which users, programs and limits it permits, whatever a server process asks for.
//!
//! Not here: users of the machine (`users`), the limits themselves (`confine`), and their effect on a child (`start`).

pub(crate) mod code_variables;
pub(crate) mod current_users;
pub(crate) mod owned_script;
pub(crate) mod route_programs;
pub(crate) mod run_as;
pub(crate) mod share;
pub(crate) mod user_policy;
