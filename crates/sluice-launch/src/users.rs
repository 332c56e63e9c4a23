//! Users of the machine: accounts, the identity of a process, and the user of this one.
//!
//! Not here: the change of the user in the child (`start::child`), and which user a program gets (`policy`).

pub(crate) mod accounts;
pub(crate) mod credentials;
pub(crate) mod own_user;
