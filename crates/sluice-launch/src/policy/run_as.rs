//! The user of a script process: the wish of the server, and the decision of the launcher.
//!
//! The server is not trusted with this: it names a user, and the launcher decides by a policy that it has from the supervisor.

use std::ffi::{CStr, CString};
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::confine::confinement::Confinement;
use crate::confine::limits::ProcessLimits;
use crate::policy::share::Share;
use crate::users::credentials::Credentials;
use crate::users::own_user::own_uid;

/// The wished user of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunAs {
    /// The user of scripts that the policy has; without one, the launcher's own.
    #[default]
    Usual,
    /// The user of this name, as in the configuration.
    User(String),
    /// The owner of this file, the script, by its absolute path.
    Owner(CString),
}

/// A program, as far as a policy judges it.
#[derive(Clone, Copy, Debug)]
pub struct WishedProgram<'a> {
    /// The wished user.
    pub run_as: &'a RunAs,
    /// The file to execute, below the root.
    pub path: &'a CStr,
    /// The arguments, `argv[0]` included.
    pub arguments: &'a [CString],
    /// The working directory, below the root.
    pub directory: &'a CStr,
    /// The resource limits.
    pub limits: &'a ProcessLimits,
    /// The other restrictions, the root of the process among them.
    pub confinement: Option<&'a Confinement>,
}

impl WishedProgram<'_> {
    /// The root of the process, if it is another one.
    pub(crate) fn root(&self) -> Option<&CStr> {
        self.confinement?.chroot.as_deref()
    }
}

/// The decision about a program that may start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// The user; `None`: the launcher's.
    pub credentials: Option<Credentials>,
    /// Entries `NAME=value` that the program may have although they name code (`LD_PRELOAD`). `None`: any.
    pub variables: Option<Vec<Vec<u8>>>,
}

/// Why a program may not run as the wished user: the check that failed, for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Decides the user of a program. It belongs to the launcher, and never comes from the server.
pub trait UserPolicy: fmt::Debug + Send + Sync {
    /// Decides about a program. Called on a thread that starts programs, so it may read files.
    ///
    /// # Errors
    /// The program may not run as the wished user, not so, or not with so few limits.
    fn decide(&self, wished: &WishedProgram<'_>) -> Result<Decided, Refusal>;

    /// The share of a program that is to run so. Opens no file.
    fn share(&self, run_as: &RunAs) -> Share;
}

/// The policy of a launcher that is in the server process, and is no boundary: every program runs, as the launcher.
#[derive(Clone, Copy, Debug, Default)]
pub struct SameUser;

impl UserPolicy for SameUser {
    fn decide(&self, wished: &WishedProgram<'_>) -> Result<Decided, Refusal> {
        match wished.run_as {
            RunAs::Usual => Ok(Decided::default()),
            RunAs::User(name) => Err(Refusal(format!(
                "this server runs no scripts as another user (user {name})"
            ))),
            RunAs::Owner(_) => Err(Refusal(
                "this server runs no scripts as another user (the owner of the script)".to_owned(),
            )),
        }
    }

    fn share(&self, run_as: &RunAs) -> Share {
        match run_as {
            RunAs::Usual => Share::User(own_uid()),
            RunAs::User(_) | RunAs::Owner(_) => Share::Refused,
        }
    }
}
