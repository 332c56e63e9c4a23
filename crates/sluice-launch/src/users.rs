//! The user of a program: users and groups of the machine, owners of scripts, and the policy that decides.
//!
//! Not here: the change of the user in the child (`start::child`).

pub(crate) mod accounts;
pub(crate) mod credentials;
pub(crate) mod own_user;
pub(crate) mod owned_program;
pub(crate) mod owned_script;
pub(crate) mod run_as;
pub(crate) mod share;
pub(crate) mod user_policy;
