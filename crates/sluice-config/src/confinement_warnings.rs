//! Warnings about limits of scripts that this system, or this user, cannot apply: their scripts would not be started.
//!
//! `check` may be run by another user than the server, so these are warnings.

use std::path::Path;

use sluice_launch::{CgroupLimits, cgroup_problem, deadline, is_root, landlock_version, may_change_root, may_mount};
use sluice_settings::{RouteSettings, ScriptLimits, ScriptSettings, ScriptSource, ScriptUser, Settings};

/// One line for each route whose limits cannot be applied.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let confined = settings.scripts();
    let confined = confined.filter(|(_, script)| script.confinement != ScriptLimits::default());
    let each = |(route, script): (&RouteSettings, &ScriptSettings)| {
        let confinement = &script.confinement;
        let mut problems = Vec::new();
        problems.extend(outside_of_owners(settings, script));
        problems.extend(shared_tmp(confinement));
        problems.extend(forbidden_chroot(confinement));
        problems.extend(above_hard_limits(confinement));
        problems.extend(no_landlock(confinement));
        problems.extend(missing_paths(confinement));
        problems.extend(cgroup_limits(settings, confinement));
        problems.extend(processes_of_root(confinement));
        problems
            .into_iter()
            .map(|problem| format!("{}: {problem}", route.origin))
            .collect::<Vec<_>>()
    };
    confined.flat_map(each).collect()
}

/// Scripts that are to run as their owners, and are below none of the directories of `[server.script_owners]`.
fn outside_of_owners(settings: &Settings, script: &ScriptSettings) -> Option<String> {
    let owners = settings.users.owners.as_ref()?;
    let place = match &script.source {
        _ if script.confinement.user != ScriptUser::Owner => return None,
        ScriptSource::Directory(path) | ScriptSource::File(path) => path,
        ScriptSource::App { directory, .. } => directory,
        ScriptSource::Root => return None,
    };
    let real = |path: &Path| deadline::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_within =
        |path: &Path, directory: &Path| path.starts_with(directory) || real(path).starts_with(real(directory));
    let is_permitted = |directory: &Path| is_within(place, directory) || is_within(directory, place);
    if owners.directories.iter().any(|directory| is_permitted(directory)) {
        return None;
    }
    Some(format!(
        "user = \"owner\": {} is below none of the directories of [server.script_owners], so no script of this route can be started: add it there",
        place.display()
    ))
}

fn shared_tmp(confinement: &ScriptLimits) -> Option<String> {
    (confinement.has_private_tmp && is_root() && !may_mount()).then_some(())?;
    Some("private_tmp: this user is root without CAP_SYS_ADMIN, so /tmp would stay shared, and no script of this route can be started: add it to CapabilityBoundingSet= of the unit or to the container, or remove this".to_owned())
}

fn forbidden_chroot(confinement: &ScriptLimits) -> Option<String> {
    confinement.chroot.as_ref()?;
    if is_root() {
        let why = "chroot: this user is root without CAP_SYS_CHROOT, so no script of this route can be started: add it to CapabilityBoundingSet= of the unit or to the container, or remove this";
        return (!may_change_root()).then(|| why.to_owned());
    }
    Some("chroot: only root may change the root of a script, so no script of this route can be started: run the server as root, or remove this".to_owned())
}

fn above_hard_limits(confinement: &ScriptLimits) -> Vec<String> {
    let hard = confinement.limits.refused_above();
    let above = [
        ("memory_max", hard.memory_bytes_max),
        ("cpu_time", hard.cpu_seconds_max),
        ("open_files", hard.open_files_max),
        ("user_processes", hard.processes_max),
        ("file_size", hard.file_bytes_max),
    ];
    let above = above.into_iter().filter_map(|(key, hard)| Some((key, hard?)));
    let problem = |(key, hard): (&str, u64)| {
        format!(
            "{key}: it is above this user's own hard limit of {hard}, so no script of this route can be started: lower it, or raise that limit \
             (LimitNOFILE= and so on of systemd.exec(5), ulimit -H)"
        )
    };
    above.map(problem).collect()
}

fn no_landlock(confinement: &ScriptLimits) -> Option<String> {
    confinement.files.as_ref().filter(|_| landlock_version() == 0)?;
    Some("read, write: this kernel has no Landlock, so no script of this route can be started: Linux 5.13 or later is needed, with landlock in /sys/kernel/security/lsm".to_owned())
}

/// A path that does not exist when a process is started cannot be used by it.
fn missing_paths(confinement: &ScriptLimits) -> Vec<String> {
    let files = confinement.files.iter();
    let named = files.flat_map(|files| [("read", &files.read), ("write", &files.write)]);
    let paths = named.flat_map(|(name, paths)| paths.iter().map(move |path| (name, path)));
    let root = confinement.chroot.as_deref();
    let is_missing = |path: &std::path::Path| {
        let seen = root.map_or(path.to_owned(), |root| {
            root.join(path.strip_prefix("/").unwrap_or(path))
        });
        deadline::metadata(&seen).is_err_and(|error| !deadline::is_unanswered(&error))
    };
    let missing = paths.filter(|(_, path)| is_missing(path));
    missing
        .map(|(name, path)| {
            format!(
                "{name}: {} does not exist: a script that is started before it does cannot use it",
                path.display()
            )
        })
        .collect()
}

fn cgroup_limits(settings: &Settings, confinement: &ScriptLimits) -> Option<String> {
    let limits = confinement.cgroup;
    (limits != CgroupLimits::default()).then_some(())?;
    let why = match settings.limits.has_cgroups {
        true => cgroup_problem(&limits)?.to_string(),
        false => "limits.cgroups is false".to_owned(),
    };
    let keys = [
        ("cgroup_memory", limits.memory_bytes_max.is_some()),
        ("cgroup_processes", limits.processes_max.is_some()),
        ("cgroup_cpu", limits.cpu_percent.is_some()),
        ("cgroup_cpu_weight", limits.cpu_weight.is_some()),
    ];
    let keys: Vec<_> = keys.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| *key).collect();
    Some(format!(
        "{} cannot be applied here, so no script of this route can be started: {why}; run the server as a service with Delegate=yes \
         (systemd.resource-control(5)), or remove what needs it",
        keys.join(", ")
    ))
}

fn processes_of_root(confinement: &ScriptLimits) -> Option<String> {
    confinement.limits.processes_max.filter(|_| is_root())?;
    Some("user_processes does not hold for root: use cgroup_processes".to_owned())
}
