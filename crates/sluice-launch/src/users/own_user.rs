//! The passwd entry of the server's user.

use crate::users::accounts::{Account, account_by_number};

/// The effective user of this process; for the start, because a directory server may be asked (nsswitch.conf(5)). `None` if it has no entry.
#[must_use]
pub fn own_user() -> Option<Account> {
    account_by_number(own_uid())
}

/// The effective user of this process.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_name_is_that_of_id() {
        // It fails if the user has no entry.
        let id = Command::new("id").arg("-un").output().unwrap();
        let name = id.status.success().then(|| id.stdout.trim_ascii_end().to_vec());
        assert_eq!(own_user().map(|user| user.name), name);
    }

    #[test]
    fn the_entry_is_that_of_passwd() {
        let number = own_uid().to_string();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let home = passwd.lines().find_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            (fields.get(2) == Some(&number.as_str())).then(|| fields[5].as_bytes().to_vec())
        });
        if home.is_some() {
            assert_eq!(own_user().map(|user| user.home), home);
        }
    }
}
