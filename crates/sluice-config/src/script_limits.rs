//! The keys of `[[site.route]].script` that say what a process may use and reach.

use std::path::PathBuf;

use sluice_launch::IoPriority;
use sluice_settings::{PermittedFiles, ScriptLimits, ScriptSettings, ScriptSource};

use super::document::At;
use super::key::{Key, at_least, between};
use super::script_draft::Draft;
use super::table::{Table, Written, set_directory};

/// Descriptors that a program needs: its five, and some for libraries.
const OPEN_FILES_MIN: u64 = 16;

pub(super) const CPU_TIME: Key<Draft> = Key::duration(
    "cpu_time",
    at_least(1000, "it is counted in whole seconds"),
    |script, time| {
        // A part of a second counts as one, because the system counts whole ones.
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        confinement(script).limits.cpu_seconds_max = Some(seconds);
    },
);

pub(super) const MEMORY_MAX: Key<Draft> = Key::size(
    "memory_max",
    at_least(1 << 20, "no program starts with less; leave it out for no limit"),
    |script, size| confinement(script).limits.memory_bytes_max = Some(size),
);

pub(super) const OPEN_FILES: Key<Draft> = Key::number(
    "open_files",
    "files",
    at_least(OPEN_FILES_MIN, "no program starts with less"),
    |script, files| confinement(script).limits.open_files_max = Some(files),
);

pub(super) const USER_PROCESSES: Key<Draft> = Key::number(
    "user_processes",
    "processes",
    at_least(1, "the script itself is one"),
    |script, processes| confinement(script).limits.processes_max = Some(processes),
);

pub(super) const FILE_SIZE: Key<Draft> = Key::size(
    "file_size",
    at_least(1, "to forbid files write = [] is better"),
    |script, size| {
        confinement(script).limits.file_bytes_max = Some(size);
    },
);

pub(super) const CGROUP_MEMORY: Key<Draft> = Key::size(
    "cgroup_memory",
    at_least(1 << 20, "no program starts with less; leave it out for no limit"),
    |script, size| confinement(script).cgroup.memory_bytes_max = Some(size),
);

pub(super) const CGROUP_PROCESSES: Key<Draft> = Key::number(
    "cgroup_processes",
    "processes",
    at_least(1, "the script itself is one"),
    |script, processes| confinement(script).cgroup.processes_max = Some(processes),
);

pub(super) const CGROUP_CPU: Key<Draft> = Key::number(
    "cgroup_cpu",
    "percent",
    between(1, 100_000, "100 is one processor"),
    |script, percent| confinement(script).cgroup.cpu_percent = Some(percent),
);

pub(super) const CGROUP_CPU_WEIGHT: Key<Draft> = Key::number(
    "cgroup_cpu_weight",
    "shares",
    between(1, 10_000, "others have 100"),
    |script, weight| confinement(script).cgroup.cpu_weight = Some(weight),
);

pub(super) const NICE: Key<Draft> = Key::number(
    "nice",
    "steps",
    between(0, 19, "a script cannot have a higher priority than the server"),
    |script, nice| confinement(script).nice = u8::try_from(nice).unwrap_or(19),
);

pub(super) const IO_PRIORITY: Key<Draft> = Key::choice(
    "io_priority",
    &[
        ("low", |script| {
            confinement(script).io_priority = Some(IoPriority::Low);
        }),
        ("idle", |script| {
            confinement(script).io_priority = Some(IoPriority::Idle);
        }),
    ],
);

pub(super) const UMASK: Key<Draft> = Key::text("umask", |script, text, _| {
    let umask = u32::from_str_radix(&text, 8).ok().filter(|umask| *umask <= 0o777);
    let umask = umask.ok_or("needs three octal digits, as in \"027\"")?;
    confinement(script).umask = Some(umask);
    Ok(())
});

pub(super) const WORKING_DIRECTORY: Key<Draft> = Key::path("working_directory", |script, path, written| {
    set_directory(&mut confinement(script).working_directory, path, written)
});

pub(super) const PRIVATE_TMP: Key<Draft> = Key::flag("private_tmp", |script, is_on| {
    confinement(script).has_private_tmp = is_on;
});

pub(super) const CHROOT: Key<Draft> = Key::path("chroot", |script, path, written| {
    set_directory(&mut confinement(script).chroot, path, written)
});

pub(super) const READ: Key<Draft> = Key::texts("read", |script, paths, written| {
    let paths = read_paths("read", paths, written);
    files(script).read = paths;
    Ok(())
});

pub(super) const WRITE: Key<Draft> = Key::texts("write", |script, paths, written| {
    let paths = read_paths("write", paths, written);
    files(script).write = paths;
    Ok(())
});

pub(super) const NETWORK: Key<Draft> = Key::flag("network", |script, is_on| confinement(script).is_offline = !is_on);

fn confinement(script: &mut Draft) -> &mut ScriptLimits {
    &mut script.settings.confinement
}

fn files(script: &mut Draft) -> &mut PermittedFiles {
    confinement(script).files.get_or_insert_default()
}

fn read_paths(name: &str, paths: Vec<At<String>>, written: &Written<'_>) -> Vec<PathBuf> {
    written.each(paths, |path, line| match path.is_empty() || path.contains('\0') {
        true => Err(format!(
            "{name}: needs the path of a file or directory, as in \"/srv/wiki\""
        )),
        false => Ok(written.document().resolve(line, path)),
    })
}

/// Reports values that do not go together.
pub(super) fn check_confinement(script: &ScriptSettings, table: &Table<'_>) {
    let Some(root) = &script.confinement.chroot else {
        return;
    };
    if script.mode.has_engine() {
        let message = "the engine and its library are not below it: remove it, or write mode = \"cgiplus\"";
        table.refuse("chroot", message);
        return;
    }
    let is_outside = |path: &PathBuf| !path.starts_with(root);
    let source = match &script.source {
        ScriptSource::Directory(path) | ScriptSource::File(path) => Some(path),
        ScriptSource::App { .. } | ScriptSource::Root => None,
    };
    if let Some(path) = source.filter(|path| is_outside(path)) {
        let message = format!(
            "{} is not below it, so it could not be run: move it there",
            path.display()
        );
        table.refuse("chroot", &message);
    }
    if let Some(path) = script
        .confinement
        .working_directory
        .as_ref()
        .filter(|path| is_outside(path))
    {
        let message = format!("{} is not below chroot = \"{}\"", path.display(), root.display());
        table.refuse("working_directory", &message);
    }
}
