//! Users of the machine: accounts, the identity of a process, and the user of this one.

pub(crate) mod accounts;
pub(crate) mod credentials;
pub(crate) mod own_user;
