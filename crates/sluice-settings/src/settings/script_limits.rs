//! Limits on what a script process of a route may use and reach.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_launch::{CgroupLimits, IoPriority, ProcessLimits};

use super::users::ScriptUser;
use crate::notation::format_size;

/// Limits on what a script process may use and reach. `Default`: the same as the server, as far as the user of the process may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLimits {
    /// The user of the process.
    pub user: ScriptUser,
    /// The limits of a process, without its children.
    pub limits: ProcessLimits,
    /// The limits of a process with all its descendants.
    pub cgroup: CgroupLimits,
    /// Added to the server's nice value.
    pub nice: u8,
    /// The priority for disks, if it is not the server's.
    pub io_priority: Option<IoPriority>,
    /// The permissions that new files do not get; `None`: 022.
    pub umask: Option<u32>,
    /// `None`: the directory of the script or of the application.
    pub working_directory: Option<PathBuf>,
    /// Whether each process has a directory for temporary files of its own.
    pub has_private_tmp: bool,
    /// The directory that becomes the root of a process.
    pub chroot: Option<PathBuf>,
    /// The files that a process may use; `None`: all that its user may.
    pub files: Option<PermittedFiles>,
    /// Whether it may create no sockets but local ones.
    pub is_offline: bool,
}

/// The files that a process may use, beside those of its program and of the system's libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermittedFiles {
    /// For reading and executing: files, and directories with all that is below them.
    pub read: Vec<PathBuf>,
    /// For reading and writing.
    pub write: Vec<PathBuf>,
}

impl ScriptLimits {
    /// The limits that are set, each as in the configuration: `cpu_time = 2s`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let (limits, cgroup) = (&self.limits, &self.cgroup);
        let size = |bytes: Option<u64>| bytes.map(format_size);
        let paths = |paths: &[PathBuf]| {
            let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            (!shown.is_empty()).then(|| shown.join(" "))
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let files = self.files.as_ref();
        let user = match &self.user {
            ScriptUser::Usual => None,
            ScriptUser::Named(user) => Some(user.name.clone()),
            ScriptUser::Owner => Some("owner".to_owned()),
            ScriptUser::Unknown { name, .. } => Some(name.clone()),
        };
        let set = [
            ("user", user),
            ("cpu_time", limits.cpu_seconds_max.map(|seconds| format!("{seconds}s"))),
            ("memory_max", size(limits.memory_bytes_max)),
            ("open_files", limits.open_files_max.map(|number| number.to_string())),
            ("user_processes", limits.processes_max.map(|number| number.to_string())),
            ("file_size", size(limits.file_bytes_max)),
            ("cgroup_memory", size(cgroup.memory_bytes_max)),
            (
                "cgroup_processes",
                cgroup.processes_max.map(|number| number.to_string()),
            ),
            ("cgroup_cpu", cgroup.cpu_percent.map(|percent| percent.to_string())),
            ("cgroup_cpu_weight", cgroup.cpu_weight.map(|weight| weight.to_string())),
            ("nice", (self.nice > 0).then(|| self.nice.to_string())),
            (
                "io_priority",
                self.io_priority.map(|priority| match priority {
                    IoPriority::Low => "low".to_owned(),
                    IoPriority::Idle => "idle".to_owned(),
                }),
            ),
            ("umask", self.umask.map(|umask| format!("{umask:03o}"))),
            ("working_directory", path(&self.working_directory)),
            ("private_tmp", self.has_private_tmp.then(|| "true".to_owned())),
            ("chroot", path(&self.chroot)),
            ("read", files.and_then(|files| paths(&files.read))),
            // Without a path it forbids every change.
            (
                "write",
                files.map(|files| paths(&files.write).unwrap_or_else(|| "[]".to_owned())),
            ),
            ("network", self.is_offline.then(|| "false".to_owned())),
        ];
        set.into_iter()
            .filter_map(|(name, value)| Some(format!("{name} = {}", value?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_shown_as_in_the_configuration() {
        let confinement = ScriptLimits {
            limits: ProcessLimits {
                cpu_seconds_max: Some(2),
                memory_bytes_max: Some(64 << 20),
                ..ProcessLimits::default()
            },
            umask: Some(0o27),
            files: Some(PermittedFiles {
                read: vec!["/srv/a".into(), "/srv/b".into()],
                write: Vec::new(),
            }),
            is_offline: true,
            ..ScriptLimits::default()
        };
        let expected = [
            "cpu_time = 2s",
            "memory_max = 64MiB",
            "umask = 027",
            "read = /srv/a /srv/b",
            "write = []",
            "network = false",
        ];
        assert_eq!(confinement.lines(), expected);
        assert_eq!(ScriptLimits::default().lines(), Vec::<String>::new());
    }
}
