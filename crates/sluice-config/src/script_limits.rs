//! The keys of `[[site.route]].script` that say what a process may use and reach.
//!
//! Not here: whether the system can apply them (`confinement_warnings`), and how many processes there may be (`script`).

use std::path::PathBuf;

use sluice_launch::IoPriority;
use sluice_settings::{PermittedFiles, ScriptLimits, ScriptSettings, ScriptSource};

use super::description::Fallback::{Value, Words};
use super::document::At;
use super::key::{Bounds, Key, Kind, at_least};
use super::script_draft::Draft;
use super::table::{Table, Written, expect_directory};

/// Descriptors that a program needs: its five, and some for libraries.
const OPEN_FILES_MIN: u64 = 16;

pub(super) const CPU_TIME: Key<Draft> = Key {
    name: "cpu_time",
    kind: Kind::Duration(at_least(1000, "it is counted in whole seconds"), |script, time| {
        // A part of a second counts as one, because the system counts whole ones.
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        confinement(script).limits.cpu_seconds_max = Some(seconds);
    }),
    default: Words("no limit"),
    text: "Processor time of a process, in all its requests (RLIMIT_CPU); each of its children may use as much again. After it the process gets SIGXCPU, \
           and SIGKILL a second later.",
    example: "\"10s\"",
};

pub(super) const MEMORY_MAX: Key<Draft> = Key {
    name: "memory_max",
    kind: Kind::Size(
        at_least(1 << 20, "no program starts with less; leave it out for no limit"),
        |script, size| confinement(script).limits.memory_bytes_max = Some(size),
    ),
    default: Words("no limit"),
    text: "Address space of a process (RLIMIT_AS). It includes libraries and reserved memory, so be generous.",
    example: "\"2GiB\"",
};

pub(super) const OPEN_FILES: Key<Draft> = Key {
    name: "open_files",
    kind: Kind::Number {
        unit: "files",
        bounds: at_least(OPEN_FILES_MIN, "no program starts with less"),
        set: |script, files| confinement(script).limits.open_files_max = Some(files),
    },
    default: Words("the limit that the server was started with"),
    text: "Open files of a process, its five descriptors included (RLIMIT_NOFILE).",
    example: "64",
};

pub(super) const USER_PROCESSES: Key<Draft> = Key {
    name: "user_processes",
    kind: Kind::Number {
        unit: "processes",
        bounds: at_least(1, "the script itself is one"),
        set: |script, processes| confinement(script).limits.processes_max = Some(processes),
    },
    default: Words("the server's own limit"),
    text: "Processes and threads of the script's *user*, other programs included, beyond which the script cannot start more \
           (RLIMIT_NPROC). Root has no such limit. `cgroup_processes` counts the processes of one script only.",
    example: "500",
};

pub(super) const FILE_SIZE: Key<Draft> = Key {
    name: "file_size",
    kind: Kind::Size(at_least(1, "to forbid files write = [] is better"), |script, size| {
        confinement(script).limits.file_bytes_max = Some(size);
    }),
    default: Words("no limit"),
    text: "Largest file that a process may write (RLIMIT_FSIZE). Writing more fails, and ends the process with SIGXFSZ unless it ignores \
           this signal.",
    example: "\"100MiB\"",
};

pub(super) const CGROUP_MEMORY: Key<Draft> = Key {
    name: "cgroup_memory",
    kind: Kind::Size(
        at_least(1 << 20, "no program starts with less; leave it out for no limit"),
        |script, size| confinement(script).cgroup.memory_bytes_max = Some(size),
    ),
    default: Words("no limit"),
    text: "Memory of a process with all its descendants, as the kernel counts it. Beyond it the kernel ends all of them. Needs a cgroup \
           ([limits](../guides/limits.md#cgroups)).",
    example: "\"512MiB\"",
};

pub(super) const CGROUP_PROCESSES: Key<Draft> = Key {
    name: "cgroup_processes",
    kind: Kind::Number {
        unit: "processes",
        bounds: at_least(1, "the script itself is one"),
        set: |script, processes| confinement(script).cgroup.processes_max = Some(processes),
    },
    default: Words("no limit"),
    text: "Processes and threads of a process with all its descendants. More cannot be started. Needs a cgroup.",
    example: "32",
};

pub(super) const CGROUP_CPU: Key<Draft> = Key {
    name: "cgroup_cpu",
    kind: Kind::Number {
        unit: "percent",
        bounds: Bounds {
            least: 1,
            most: 100_000,
            hint: "100 is one processor",
        },
        set: |script, percent| confinement(script).cgroup.cpu_percent = Some(percent),
    },
    default: Words("no limit"),
    text: "Processor time of a process with all its descendants, in percent of one processor; 200 is two. Processes that have used it \
           wait. Needs a \
           cgroup.",
    example: "50",
};

pub(super) const CGROUP_CPU_WEIGHT: Key<Draft> = Key {
    name: "cgroup_cpu_weight",
    kind: Kind::Number {
        unit: "shares",
        bounds: Bounds {
            least: 1,
            most: 10_000,
            hint: "others have 100",
        },
        set: |script, weight| confinement(script).cgroup.cpu_weight = Some(weight),
    },
    default: Words("as without a cgroup"),
    text: "Share of a process with all its descendants when the processors are busy: with 50, half as much as others get. Needs a cgroup.",
    example: "50",
};

pub(super) const NICE: Key<Draft> = Key {
    name: "nice",
    kind: Kind::Number {
        unit: "steps",
        bounds: Bounds {
            least: 0,
            most: 19,
            hint: "a script cannot have a higher priority than the server",
        },
        // Within the bounds.
        set: |script, nice| confinement(script).nice = u8::try_from(nice).unwrap_or(19),
    },
    default: Value("0"),
    text: "Lowers the priority of a process for the processor: added to the nice value of the server (nice(2)).",
    example: "10",
};

pub(super) const IO_PRIORITY: Key<Draft> = Key {
    name: "io_priority",
    kind: Kind::Choice(&[
        ("low", |script| {
            confinement(script).io_priority = Some(IoPriority::Low);
        }),
        ("idle", |script| {
            confinement(script).io_priority = Some(IoPriority::Idle);
        }),
    ]),
    default: Words("the server's"),
    text: "Priority of a process for disks: `low` is the lowest usual priority, `idle` waits for all others (ioprio_set(2); not every \
           scheduler of disks honours it).",
    example: "\"idle\"",
};

pub(super) const UMASK: Key<Draft> = Key {
    name: "umask",
    kind: Kind::Text(|script, text, _| {
        let umask = u32::from_str_radix(&text, 8).ok().filter(|umask| *umask <= 0o777);
        let umask = umask.ok_or("needs three octal digits, as in \"027\"")?;
        confinement(script).umask = Some(umask);
        Ok(())
    }),
    default: Words("`022`"),
    text: "Permission bits removed from new files, in octal (umask(2)).",
    example: "\"027\"",
};

pub(super) const WORKING_DIRECTORY: Key<Draft> = Key {
    name: "working_directory",
    kind: Kind::Path(|script, path, written| {
        expect_directory(written.document(), written.name, &written.at(path.clone()));
        confinement(script).working_directory = Some(path);
        Ok(())
    }),
    default: Words("the directory of the script, or of the application"),
    text: "Directory in which a process is started.",
    example: "\"data\"",
};

pub(super) const PRIVATE_TMP: Key<Draft> = Key {
    name: "private_tmp",
    kind: Kind::Flag(|script, is_on| confinement(script).has_private_tmp = is_on),
    default: Value("false"),
    text: "Whether each process has a fresh directory of its own for temporary files. TMPDIR names it, and it is removed when the \
           process has ended. If the server runs as root, the process also sees it as `/tmp` and `/var/tmp`.",
    example: "true",
};

pub(super) const CHROOT: Key<Draft> = Key {
    name: "chroot",
    kind: Kind::Path(|script, path, written| {
        expect_directory(written.document(), written.name, &written.at(path.clone()));
        confinement(script).chroot = Some(path);
        Ok(())
    }),
    default: Words("none"),
    text: "Directory that becomes the root of a process (chroot(2)). The scripts must be below it, with everything that they need: \
           interpreters, libraries, `/dev/null`. Needs a server that runs as root; not in mode `rte`.",
    example: "\"jail\"",
};

pub(super) const READ: Key<Draft> = Key {
    name: "read",
    kind: Kind::Texts(|script, paths, written| {
        let paths = read_paths("read", paths, written);
        files(script).read = paths;
        Ok(())
    }),
    default: Words("every file that the user of the script may read, unless there is `write`"),
    text: "Files, and directories with all that is below them, that a process may read and execute, by Landlock (landlock(7)). With \
           `read` or `write` it can use no other files except its own directory, the programs and libraries of the system, and a few \
           devices \
           ([limits](../guides/limits.md#files)). Also, it can signal only processes that it has started (Linux 6.12), and set-user-ID programs have \
           no effect.",
    example: "[\"/srv/wiki/pages\"]",
};

pub(super) const WRITE: Key<Draft> = Key {
    name: "write",
    kind: Kind::Texts(|script, paths, written| {
        let paths = read_paths("write", paths, written);
        files(script).write = paths;
        Ok(())
    }),
    default: Words("every file that the user of the script may write, unless there is `read`"),
    text: "Files, and directories with all that is below them, that a process may read, change, create and remove; see `read`. `[]`: none.",
    example: "[\"/var/lib/wiki\"]",
};

pub(super) const NETWORK: Key<Draft> = Key {
    name: "network",
    kind: Kind::Flag(|script, is_on| confinement(script).is_offline = !is_on),
    default: Value("true"),
    text: "Whether a process may use the network. With `false` a filter of system calls (seccomp(2)) lets it create only local sockets \
           (unix(7)); \
           io_uring and programs of 32 bits are refused, and set-user-ID programs have no effect.",
    example: "false",
};

fn confinement(script: &mut Draft) -> &mut ScriptLimits {
    &mut script.settings.confinement
}

fn files(script: &mut Draft) -> &mut PermittedFiles {
    confinement(script).files.get_or_insert_default()
}

fn read_paths(name: &str, paths: Vec<At<String>>, written: &Written<'_>) -> Vec<PathBuf> {
    let document = written.document();
    let mut all = Vec::new();
    for path in paths {
        if path.value.is_empty() || path.value.contains('\0') {
            let message = format!("{name}: needs the path of a file or directory, as in \"/srv/wiki\"");
            document.report(path.line, message);
        } else {
            all.push(document.resolve(path.line, &path.value));
        }
    }
    all
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
