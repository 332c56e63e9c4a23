//! Giving up the privileges of root, for the server process: it gets a user, and no way back.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::syscall::checked;
use crate::users::credentials::Credentials;

/// Capabilities that the kernel may know; it knows 41 today (capabilities(7)).
const CAPABILITIES_MAX: libc::c_ulong = 64;

/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// Has the program of a command run as this user, with no capability and no way to get another user or a capability: not by a call, and
/// not by a set-user-ID program. The caller is root.
///
/// Spawning the command fails if any of this fails, or if going back is possible.
pub fn run_as(command: &mut Command, user: Credentials) {
    // SAFETY: the function makes system calls only, and reads memory that was allocated before the fork.
    unsafe { command.pre_exec(move || give_up(&user).map_err(io::Error::from_raw_os_error)) };
}

/// The order matters:
/// 1. The bounding set and the ambient set, while the process may change them. Nothing that it executes can add a capability any more.
/// 2. Groups, group, user: each needs a privilege that the change of the user removes.
/// 3. The capabilities that a change of user does not remove: the inheritable ones, and all if it was no change.
/// 4. `no_new_privs`, so that set-user-ID programs have no effect.
/// 5. The proof: no identity of root can be had again.
fn give_up(user: &Credentials) -> Result<(), i32> {
    if user.uid == 0 || user.gid == 0 {
        return Err(libc::EINVAL);
    }
    empty_bounding_set()?;
    let clear_all = libc::c_ulong::try_from(libc::PR_CAP_AMBIENT_CLEAR_ALL).unwrap_or(0);
    prctl(libc::PR_CAP_AMBIENT, clear_all)?;
    user.assume()?;
    drop_capabilities()?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    // SAFETY: takes numbers only.
    let back = unsafe { libc::syscall(libc::SYS_setresuid, 0, 0, 0) };
    // SAFETY: takes numbers only.
    let group_back = unsafe { libc::syscall(libc::SYS_setresgid, 0, 0, 0) };
    if back == 0 || group_back == 0 {
        return Err(libc::ENOTRECOVERABLE);
    }
    Ok(())
}

/// Has no program that this thread, or a later thread of it, starts get a capability or another user: not by files with capabilities, and
/// not by set-user-ID programs. What the process itself has stays.
///
/// # Errors
/// The system refuses it.
pub fn withhold_privileges_from_programs() -> io::Result<()> {
    empty_bounding_set()
        .and_then(|()| prctl(libc::PR_SET_NO_NEW_PRIVS, 1))
        .map_err(io::Error::from_raw_os_error)
}

pub(crate) fn has_bounding_set() -> bool {
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: takes numbers only.
    let has = |capability: libc::c_ulong| unsafe {
        libc::syscall(
            libc::SYS_prctl,
            libc::PR_CAPBSET_READ,
            capability,
            UNUSED,
            UNUSED,
            UNUSED,
        ) == 1
    };
    (0..CAPABILITIES_MAX).any(has)
}

/// Removes every capability that a program could get. Called in the child, too: system calls, nothing else.
pub(crate) fn empty_bounding_set() -> Result<(), i32> {
    for capability in 0..CAPABILITIES_MAX {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            // Beyond the last one; or without CAP_SETPCAP, as in some containers, which have a smaller set anyway.
            Ok(()) | Err(libc::EINVAL | libc::EPERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn prctl(operation: libc::c_int, argument: libc::c_ulong) -> Result<(), i32> {
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::syscall(libc::SYS_prctl, operation, argument, UNUSED, UNUSED, UNUSED) }).map(drop)
}

/// Empties the effective, permitted and inheritable sets.
fn drop_capabilities() -> Result<(), i32> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    const NONE: [u32; 6] = [0; 6];
    // SAFETY: the kernel reads a header and two sets of three words, which is what this version has.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw const header, NONE.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::own_user::own_uid;

    fn command(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn user() -> Credentials {
        Credentials {
            uid: 64_001,
            gid: 64_002,
            groups: vec![64_002, 64_003],
        }
    }

    #[test]
    fn nothing_of_root_is_left() {
        if own_uid() != 0 {
            return;
        }
        let mut command =
            command("id -u; id -g; id -G; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; cat /etc/shadow");
        run_as(&mut command, user());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["64001", "64002", "64002 64003"], "{text}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(lines.contains(&format!("{set}:\t0000000000000000").as_str()), "{text}");
        }
        assert!(lines.contains(&"NoNewPrivs:\t1"), "{text}");
        assert!(!output.status.success());
    }

    #[test]
    fn root_is_no_user_to_run_as_and_an_ordinary_user_cannot_change() {
        for user in [Credentials { uid: 0, ..user() }, Credentials { gid: 0, ..user() }] {
            let mut command = command("true");
            run_as(&mut command, user);
            assert_eq!(command.status().unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
        if own_uid() != 0 {
            let mut command = command("true");
            run_as(&mut command, user());
            assert_eq!(command.status().unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
    }
}
