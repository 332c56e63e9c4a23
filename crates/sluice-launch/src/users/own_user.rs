//! The passwd entry of the server's user.

use crate::users::accounts::{Account, account_by_number};

/// Looks up the effective user of this process. It may ask a directory server (nsswitch.conf(5)), so it is for the start. `None` if
/// the user has no entry, as in some containers.
#[must_use]
pub fn own_user() -> Option<Account> {
    account_by_number(own_uid())
}

/// The effective user of this process.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
