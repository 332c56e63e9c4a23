//! The users of the server and of its scripts.
//!
//! Not here: whether a script may run as the owner of its file (`sluice_launch`), and the lookup of names (the configuration).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_launch::Credentials;

/// A user of processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name or number in the configuration.
    pub name: String,
    /// The user and its groups, as numbers.
    pub credentials: Credentials,
    /// The login name. `None` if there is no account.
    pub login: Option<String>,
    /// The home directory. `None` if there is no account.
    pub home: Option<PathBuf>,
}

/// The users of the processes of a server. `Default`: all run as the user who starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// The user of the server process.
    pub server: Option<User>,
    /// The user of scripts whose route names none; `None`: the user of the server process.
    pub scripts: Option<User>,
    /// The owners of files who may be the users of their scripts; `None`: no owner may.
    pub owners: Option<OwnerSettings>,
}

/// The owners who may be the users of their scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerSettings {
    /// The lowest number of an owner.
    pub uid_min: u32,
    /// Whether every user with an account may.
    pub is_for_all: bool,
    /// These users.
    pub users: Vec<User>,
    /// The members of these groups, as numbers.
    pub groups: Vec<u32>,
    /// Their scripts lie below one of these directories, which are absolute.
    pub directories: Vec<PathBuf>,
}

/// The user of the scripts of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScriptUser {
    /// The user of all scripts.
    #[default]
    Usual,
    /// A named user.
    Named(User),
    /// The owner of the script's file.
    Owner,
}

/// The users that scripts may have, as the launcher needs to know them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptUserSettings {
    /// The user of scripts whose route names none; `None`: the launcher's.
    pub usual: Option<User>,
    /// The users that routes name.
    pub named: Vec<User>,
    /// Whose scripts may run as the owners of their files.
    pub owners: Option<OwnerSettings>,
}

impl Default for OwnerSettings {
    fn default() -> OwnerSettings {
        OwnerSettings {
            // Where the accounts of people begin (UID_MIN in login.defs(5)).
            uid_min: 1000,
            is_for_all: false,
            users: Vec::new(),
            groups: Vec::new(),
            directories: Vec::new(),
        }
    }
}
