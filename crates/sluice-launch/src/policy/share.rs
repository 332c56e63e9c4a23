//! Whose starts count together, so that those of one user leave threads of the launcher for the others.
//!
//! A share is known before the start, without opening any file: the owner is found by opening directories, which may hang as every other step may.

use std::ffi::CString;
use std::fmt;

/// Starts that count together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Programs of this user.
    User(u32),
    /// Programs of the owners of the files below this directory, such as a home directory.
    Below(CString),
    /// Programs that will be refused, because the policy does not permit their user.
    Refused,
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Share::User(uid) => write!(out, "user {uid}"),
            Share::Below(directory) => write!(out, "the owner of a file below {}", directory.to_string_lossy()),
            Share::Refused => out.write_str("a user whom the configuration does not name"),
        }
    }
}
