//! The users of the server and of its scripts.
//!
//! Not here: whether a script may run as the owner of its file (`sluice_launch`), and the lookup of names (the configuration).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_launch::Credentials;

use super::script::ScriptSettings;

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
    /// The roots of scripts (`chroot`) that routes name.
    pub roots: Vec<PathBuf>,
    /// The programs of routes whose scripts run as the owners of their files.
    pub owned: OwnedScriptSettings,
}

/// The programs of routes whose scripts run as the owners of their files: the launcher runs no others as owners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedScriptSettings {
    /// Suffixes, each with the name or path of its interpreter.
    pub interpreters: Vec<(String, String)>,
    /// Working directories beside that of the script.
    pub directories: Vec<PathBuf>,
    /// Variables that routes set.
    pub variables: Vec<(String, String)>,
    /// Variables that routes take from the environment of the server.
    pub inherited: Vec<String>,
}

impl ScriptUserSettings {
    /// Adds what the scripts of a route need.
    pub(crate) fn add_route(&mut self, script: &ScriptSettings) {
        let confinement = &script.confinement;
        self.roots.extend(confinement.chroot.clone());
        match &confinement.user {
            ScriptUser::Usual => {}
            ScriptUser::Named(user) => self.named.push(user.clone()),
            ScriptUser::Owner => {
                let interpreters = script.interpreters.clone();
                self.owned.interpreters.extend(interpreters);
                self.owned.directories.extend(confinement.working_directory.clone());
                self.owned.variables.extend(script.variables.added.clone());
                self.owned.inherited.extend(script.variables.inherited.clone());
            }
        }
        self.remove_copies();
    }

    /// Permits also what other settings permit, but their owners.
    pub fn add(&mut self, other: &ScriptUserSettings) {
        self.named.extend(other.named.iter().cloned());
        self.roots.extend(other.roots.iter().cloned());
        let (own, more) = (&mut self.owned, other.owned.clone());
        own.interpreters.extend(more.interpreters);
        own.directories.extend(more.directories);
        own.variables.extend(more.variables);
        own.inherited.extend(more.inherited);
        self.remove_copies();
    }

    fn remove_copies(&mut self) {
        remove_copies(&mut self.named);
        remove_copies(&mut self.roots);
        remove_copies(&mut self.owned.interpreters);
        remove_copies(&mut self.owned.directories);
        remove_copies(&mut self.owned.variables);
        remove_copies(&mut self.owned.inherited);
    }
}

/// Keeps the first of equal values.
fn remove_copies<T: PartialEq>(list: &mut Vec<T>) {
    let all = std::mem::take(list);
    for value in all {
        if !list.contains(&value) {
            list.push(value);
        }
    }
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
