//! Users and groups of this machine: passwd(5) and group(5), or what nsswitch.conf(5) names instead.
//!
//! A lookup may ask a directory server, so it is for the start of a server and for the threads that start scripts, not for an event loop.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr;

use libc::c_char;

const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Groups of one user that are read; the kernel allows no more (NGROUPS_MAX).
const GROUPS_MAX: usize = 1 << 16;

/// A user, as passwd(5) has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: Vec<u8>,
    /// The number of the user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// The home directory.
    pub home: Vec<u8>,
}

impl Account {
    /// The groups of the user: the primary one, and the groups of group(5).
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        let Ok(name) = CString::new(self.name.as_slice()) else {
            return vec![self.gid];
        };
        let mut groups: Vec<libc::gid_t> = vec![0; 64];
        loop {
            let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
            // SAFETY: the name ends with a NUL, and the count is that of the groups that there is room for.
            let done = unsafe { libc::getgrouplist(name.as_ptr(), self.gid, groups.as_mut_ptr(), &raw mut count) };
            if done < 0 && groups.len() < GROUPS_MAX {
                groups.resize(2 * groups.len(), 0);
                continue;
            }
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return groups;
        }
    }
}

/// The user with this name. `None` if there is none.
#[must_use]
pub fn account_by_name(name: &str) -> Option<Account> {
    let name = CString::new(name).ok()?;
    look_up(account_of, |entry, buffer, found| {
        // SAFETY: the pointers are valid for the call, the name ends with a NUL, and the length is that of the buffer.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

/// The user with this number. `None` if there is none, as often in containers.
#[must_use]
pub fn account_by_number(uid: u32) -> Option<Account> {
    look_up(account_of, |entry, buffer, found| {
        // SAFETY: the pointers are valid for the call, and the length is that of the buffer.
        unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

/// The number of the group with this name. `None` if there is none.
#[must_use]
pub fn group_by_name(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let number = |entry: &libc::group| entry.gr_gid;
    look_up(number, |entry, buffer, found| {
        // SAFETY: the pointers are valid for the call, the name ends with a NUL, and the length is that of the buffer.
        unsafe { libc::getgrnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

/// Calls a function of the C library until it has found an entry, or not. `read` is called while the entry and the buffer with its texts are there.
fn look_up<E, T>(
    read: impl Fn(&E) -> T,
    find: impl Fn(*mut E, &mut [c_char], *mut *mut E) -> libc::c_int,
) -> Option<T> {
    let mut buffer: Vec<c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<E>::uninit();
        let mut found = ptr::null_mut();
        match find(entry.as_mut_ptr(), &mut buffer, &raw mut found) {
            0 if found.is_null() => return None,
            // SAFETY: success with a result: the entry is filled in.
            0 => return Some(read(unsafe { entry.assume_init_ref() })),
            libc::ERANGE if buffer.len() < ENTRY_BYTES_MAX => buffer.resize(2 * buffer.len(), 0),
            libc::EINTR => {}
            _ => return None,
        }
    }
}

/// For `look_up` alone, which has the texts of the entry in its buffer.
fn account_of(entry: &libc::passwd) -> Account {
    // SAFETY: the C library has filled the entry in; its texts end with a NUL, and are valid during the call.
    let text = |text| unsafe { bytes(text) };
    Account {
        name: text(entry.pw_name),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        home: text(entry.pw_dir),
    }
}

/// The bytes of a text of the C library; none if there is no text.
///
/// # Safety
/// The pointer is null, or that of a text with a NUL at its end that is valid during the call.
unsafe fn bytes(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_number() {
        let root = account_by_number(0).expect("root");
        assert_eq!(account_by_name("root").as_ref(), Some(&root));
        assert!(root.groups().contains(&root.gid));
        assert_eq!(account_by_name("sluice-test-no-such-user"), None);
        assert_eq!(account_by_number(u32::MAX - 17), None);
    }

    #[test]
    fn groups_are_found_by_name() {
        assert_eq!(group_by_name("root"), Some(0));
        assert_eq!(group_by_name("sluice-test-no-such-group"), None);
    }
}
