//! The users of the server and of its scripts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_launch::Credentials;

use super::programs::{PlannedAgent, ProgramSettings, ProgramSource};
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptUser {
    /// The user of all scripts.
    #[default]
    Usual,
    /// A named user.
    Named(User),
    /// The owner of the script's file.
    Owner,
    /// A user who is not known on this machine, at a start that goes on all the same: the scripts do not run.
    Unknown {
        /// The name in the configuration.
        name: String,
        /// The fault, for the log.
        fault: String,
    },
}

/// The users that scripts may have, and their programs, as the launcher needs to know them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptUserSettings {
    /// The user of scripts whose route names none; `None`: the launcher's.
    pub usual: Option<User>,
    /// The users that routes name.
    pub named: Vec<User>,
    /// Whose scripts may run as the owners of their files.
    pub owners: Option<OwnerSettings>,
    /// The programs of all routes, with their limits: the launcher starts no others.
    pub programs: Vec<ProgramSettings>,
    /// The authentication agents that come with the server.
    pub agents: Vec<PlannedAgent>,
    /// The paths whose file systems did not answer when the configuration was read.
    #[serde(default)]
    pub silent: Vec<PathBuf>,
}

impl ScriptUserSettings {
    /// Adds what the scripts of a route need.
    pub(crate) fn add_route(&mut self, source: ProgramSource, script: &ScriptSettings) {
        if let ScriptUser::Named(user) = &script.confinement.user {
            self.named.push(user.clone());
        }
        self.add_programs(&ProgramSettings::of(source, script));
        remove_copies(&mut self.named);
    }

    pub(crate) fn add_agent(&mut self, agent: PlannedAgent) {
        self.agents.push(agent);
        remove_copies(&mut self.agents);
    }

    /// Permits also what other settings permit, but their owners.
    pub fn add(&mut self, other: &ScriptUserSettings) {
        self.named.extend(other.named.iter().cloned());
        self.agents.extend(other.agents.iter().cloned());
        self.silent.extend(other.silent.iter().cloned());
        other.programs.iter().for_each(|programs| self.add_programs(programs));
        remove_copies(&mut self.named);
        remove_copies(&mut self.agents);
        remove_copies(&mut self.silent);
    }

    /// Adds programs. Those that differ only in where they are become one entry.
    fn add_programs(&mut self, more: &ProgramSettings) {
        match self.programs.iter_mut().find(|programs| programs.is_like(more)) {
            Some(same) => {
                for source in &more.sources {
                    if !same.sources.contains(source) {
                        same.sources.push(source.clone());
                    }
                }
            }
            None => self.programs.push(more.clone()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::script::ScriptSource;

    /// A route with scripts in this directory.
    fn add(users: &mut ScriptUserSettings, directory: &str, change: impl Fn(&mut ScriptSettings)) {
        let mut script = ScriptSettings::cgi(ScriptSource::Directory(directory.into()));
        change(&mut script);
        let source = ProgramSource {
            source: script.source.clone(),
            root: None,
            follows_links: false,
        };
        users.add_route(source, &script);
    }

    #[test]
    fn routes_that_differ_only_in_their_place_are_one_entry() {
        let mut users = ScriptUserSettings::default();
        add(&mut users, "/a", |_| {});
        add(&mut users, "/b", |_| {});
        add(&mut users, "/b", |script| {
            script.timeouts.deadline = Some(std::time::Duration::ZERO);
        });
        add(&mut users, "/a", |script| script.confinement.is_offline = true);
        add(&mut users, "/a", |script| script.passes_arguments = true);
        let places = |users: &ScriptUserSettings| -> Vec<usize> {
            users.programs.iter().map(|programs| programs.sources.len()).collect()
        };
        assert_eq!(places(&users), [2, 1, 1]);
        // As in a reload, which adds the old ones to the new ones.
        let mut newer = ScriptUserSettings::default();
        add(&mut newer, "/c", |_| {});
        newer.add(&users);
        assert_eq!(places(&newer), [3, 1, 1]);
        let before = newer.clone();
        newer.add(&users);
        assert_eq!(newer, before);
    }
}
