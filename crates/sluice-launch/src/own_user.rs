//! The passwd entry of the server's user, as whom scripts run.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

/// Bytes of the largest entry that is read.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// A user, as passwd(5) has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnUser {
    /// The login name.
    pub name: Vec<u8>,
    /// The home directory.
    pub home: Vec<u8>,
}

/// Looks up the effective user of this process. It may ask a directory server (nsswitch.conf(5)), so it is for the start. `None` if
/// the user has no entry, as in some containers.
#[must_use]
pub fn own_user() -> Option<OwnUser> {
    // SAFETY: takes no argument and cannot fail.
    let user = unsafe { libc::geteuid() };
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: the pointers are valid for the call, and the length is that of the buffer.
        let error = unsafe {
            libc::getpwuid_r(
                user,
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        match error {
            0 if found.is_null() => return None,
            0 => {
                // SAFETY: success with a result: the entry is filled in, and its texts lie in the buffer, which outlives this block.
                let (name, home) = unsafe {
                    let entry = entry.assume_init();
                    (bytes(entry.pw_name), bytes(entry.pw_dir))
                };
                return Some(OwnUser { name, home });
            }
            libc::ERANGE if buffer.len() < ENTRY_BYTES_MAX => buffer.resize(2 * buffer.len(), 0),
            libc::EINTR => {}
            _ => return None,
        }
    }
}

/// The bytes of a text of the C library; none if there is no text.
///
/// # Safety
/// The pointer is null, or that of a text with a NUL at its end that is valid during the call.
unsafe fn bytes(text: *const libc::c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
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
        // SAFETY: takes no argument and cannot fail.
        let number = unsafe { libc::geteuid() }.to_string();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = passwd.lines().find_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            (fields.get(2) == Some(&number.as_str())).then(|| OwnUser {
                name: fields[0].into(),
                home: fields[5].into(),
            })
        });
        if entry.is_some() {
            assert_eq!(own_user(), entry);
        }
    }
}
