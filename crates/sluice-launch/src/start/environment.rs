//! The environment of a program: the list that execve(2) takes, and the variables that only the launcher knows.

use std::ffi::{CString, c_char};
use std::ptr;

use memchr::memchr;

use crate::policy::run_as::RunAs;
use crate::start::launch_error::{LaunchError, Stage};
use crate::start::prepared::Temporary;
use crate::start::program::Program;
use crate::users::accounts::account_by_number;

/// The list that execve(2) takes: a pointer to each entry, then a null pointer.
///
/// An entry that is not `NAME=value` and a NUL is refused with `EINVAL`. That includes an empty entry, the sign of a
/// NUL inside a value. A directory for temporary files takes the place of another TMPDIR.
pub(crate) fn environment_pointers(
    environment: &[u8],
    temporary: Option<&Temporary>,
) -> Result<Vec<*const c_char>, LaunchError> {
    let mut pointers = Vec::with_capacity(64);
    let variable = temporary.map(|temporary| temporary.variable.as_slice());
    pointers.extend(variable.map(|variable| variable.as_ptr().cast()));
    let mut rest = environment;
    while !rest.is_empty() {
        let entry = memchr(0, rest).map(|end| &rest[..=end]);
        // Names are short.
        let is_entry = |entry: &&[u8]| entry.iter().position(|byte| *byte == b'=').is_some_and(|at| at > 0);
        let entry = entry
            .filter(is_entry)
            .ok_or(LaunchError { stage: Stage::Environment, errno: libc::EINVAL })?;
        rest = &rest[entry.len()..];
        if variable.is_none() || !entry.starts_with(b"TMPDIR=") {
            pointers.push(entry.as_ptr().cast());
        }
    }
    pointers.push(ptr::null());
    Ok(pointers)
}

/// HOME, USER and LOGNAME of a program that runs as the owner of its file, whom only this process knows. Variables that its environment has are kept.
pub(crate) fn owner_variables(program: &Program) -> Vec<CString> {
    let (RunAs::Owner(_), Some(user)) = (&program.run_as, &program.credentials) else {
        return Vec::new();
    };
    let values = match account_by_number(user.uid) {
        Some(account) => vec![
            ("HOME=", account.home),
            ("USER=", account.name.clone()),
            ("LOGNAME=", account.name),
        ],
        None => vec![("HOME=", b"/".to_vec())],
    };
    let entries = || program.environment.split(|byte| *byte == 0);
    let missing = values
        .iter()
        .filter(|(start, _)| !entries().any(|entry| entry.starts_with(start.as_bytes())));
    missing
        .filter_map(|(start, value)| CString::new([start.as_bytes(), value].concat()).ok())
        .collect()
}
