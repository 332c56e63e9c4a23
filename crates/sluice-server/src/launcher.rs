//! The plan of the launcher, which starts the scripts of a server: the settings that it needs, as values that can pass to another process.

use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_launch::{LauncherSettings, START_TIMEOUT, Service, ServiceSettings, UserPolicy, own_uid};
use sluice_settings::{ScriptUserSettings, Settings};

use crate::descriptors;
use crate::script_cgroups;

/// How many threads start scripts: half as many as there are workers, because the scripts themselves need the processor too.
const THREADS: RangeInclusive<usize> = 2..=4;

/// Script processes at once, for a server that is out of control: others have lower limits of their own.
const SCRIPTS_MAX: usize = 1 << 16;

/// The settings that a launcher needs. They come from the supervisor, never from the process that parses requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LauncherPlan {
    /// The number of threads that start scripts.
    pub threads: usize,
    /// The controllers that the cgroups of scripts need. `None`: scripts have no cgroups.
    pub controllers: Option<Vec<String>>,
    /// The directory below which are the directories for the temporary files of scripts.
    pub temporary_files: PathBuf,
    /// The users that scripts may have.
    pub users: ScriptUserSettings,
    /// The number of the user of the server process; `None`: the launcher's.
    pub server: Option<u32>,
    /// How long it may leave the supervisor's questions unanswered.
    pub answer_timeout: Duration,
}

impl LauncherPlan {
    /// The plan by these settings.
    #[must_use]
    pub fn of(settings: &Settings) -> LauncherPlan {
        LauncherPlan {
            threads: (settings.workers.get() / 2).clamp(*THREADS.start(), *THREADS.end()),
            controllers: script_cgroups::controllers(settings),
            temporary_files: settings.spool_directory.clone().unwrap_or_else(std::env::temp_dir),
            users: settings.script_users(),
            server: settings.users.server.as_ref().map(|user| user.credentials.uid),
            answer_timeout: settings.limits.launcher_timeout,
        }
    }

    /// Opens the cgroups, and logs which controllers they have. Returns the settings of a launcher in this process.
    #[must_use]
    pub fn open(self, policy: Arc<dyn UserPolicy>) -> ServiceSettings {
        ServiceSettings {
            launcher: LauncherSettings {
                threads: self.threads,
                start_timeout: START_TIMEOUT,
                cgroups: self
                    .controllers
                    .and_then(|controllers| script_cgroups::open_cgroups(&controllers)),
                temporary_files: self.temporary_files,
            },
            policy,
            server_uid: self.server.unwrap_or_else(own_uid),
            scripts_max: SCRIPTS_MAX,
        }
    }

    /// Prepares the launcher of a server at the other end of a socket, with its threads and cgroups.
    ///
    /// # Errors
    /// One line: the system has no more threads or descriptors.
    pub fn prepare(self, socket: OwnedFd, policy: Arc<dyn UserPolicy>) -> Result<Service, String> {
        // A descriptor for each script process; the scripts get the limit that the server says.
        let _ = descriptors::raise_limit();
        Service::prepare(socket, self.open(policy)).map_err(|error| error.to_string())
    }
}
