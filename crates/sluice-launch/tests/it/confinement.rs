//! The limits of a confined process: each on its own, as far as the user of the tests may set it.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use sluice_launch::{
    CgroupLimits, Cgroups, Confinement, Exit, FileRules, IoPriority, LaunchError, Launcher, LauncherSettings, Program,
    Stage, landlock_version,
};

use crate::harness::{exit_of, output_of, program, read_line, read_to_end, shell, start, start_with, wait_readable};

fn confined(mut program: Program, confinement: Confinement) -> Program {
    program.confinement = Some(Arc::new(confinement));
    program
}

fn text(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
pub(crate) fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn umask_and_priorities_are_those_of_the_confinement() {
    let own = output_of(shell("nice; umask"));
    let confinement = Confinement {
        nice: 5,
        io_priority: Some(IoPriority::Idle),
        umask: Some(0o077),
        ..Confinement::default()
    };
    let output = output_of(confined(shell("nice; umask; ionice -p $$"), confinement));
    let nice = |output: &str| output.lines().next().unwrap().trim().parse::<i32>().unwrap();
    assert_eq!(nice(&output), (nice(&own) + 5).min(19));
    assert!(own.ends_with("0022\n"), "{own}");
    assert!(output.ends_with("0077\nidle\n"), "{output}");
}

#[test]
fn a_process_without_network_has_local_sockets_only() {
    const TRY: &str = "
import socket, errno
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        print('made')
    except OSError as error:
        print(errno.errorcode[error.errno])
a, b = socket.socketpair()
print(open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0])
";
    let mut python = program("/usr/bin/python3", &["python3", "-c", TRY]);
    python.environment = b"PATH=/usr/bin:/bin\0".to_vec();
    let confinement = Confinement { is_offline: true, ..Confinement::default() };
    assert_eq!(
        output_of(confined(python, confinement)),
        "made\nEAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\n1\n"
    );
}

#[test]
fn a_process_reaches_only_the_files_of_its_rules() {
    if landlock_version() == 0 {
        skip("this kernel has no Landlock");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for name in ["read", "write", "other"] {
        fs::create_dir(directory.path().join(name)).unwrap();
        fs::write(directory.path().join(name).join("file"), name).unwrap();
    }
    let script = r"
        cat read/file; echo
        cat other/file 2>/dev/null || echo hidden
        echo x 2>/dev/null > read/new || echo read-only
        echo new > write/new && cat write/new && mkdir write/below && mv write/new write/below && rm -r write/below && echo changed
        echo > /dev/null && echo null
        (cat /etc/passwd > /dev/null) && echo users
        (cat /proc/self/fd/0 > /dev/null) && echo input
        kill -0 $PPID 2>/dev/null || echo shielded
        sh -c 'cat other/file' 2>/dev/null || echo inherited
    ";
    let mut program = shell(script);
    program.directory = text(directory.path());
    let rules = FileRules {
        read: vec![text(&directory.path().join("read")), c"/nowhere".to_owned()],
        write: vec![text(&directory.path().join("write"))],
    };
    let confinement = Confinement { files: Some(rules), ..Confinement::default() };
    let output = output_of(confined(program, confinement));
    let shielded = if landlock_version() >= 6 { "shielded\n" } else { "" };
    assert_eq!(
        output,
        format!("read\nhidden\nread-only\nnew\nchanged\nnull\nusers\ninput\n{shielded}inherited\n")
    );
}

#[test]
fn interpreters_run_with_no_files_but_the_base() {
    if landlock_version() == 0 {
        skip("this kernel has no Landlock");
        return;
    }
    let confinement = || Confinement {
        files: Some(FileRules::default()),
        is_offline: true,
        ..Confinement::default()
    };
    for (path, arguments) in [
        (
            "/usr/bin/python3",
            ["-c", "import ssl, json, sqlite3, ctypes; print('fine')"],
        ),
        ("/usr/bin/perl", ["-e", "use POSIX; use Socket; print qq(fine\\n)"]),
        ("/bin/sh", ["-c", "echo $(date +%Y >/dev/null; echo fine)"]),
    ] {
        if Path::new(path).exists() {
            let program = program(path, &[path, arguments[0], arguments[1]]);
            assert_eq!(output_of(confined(program, confinement())), "fine\n", "{path}");
        }
    }
}

#[test]
fn a_process_that_may_write_nowhere_cannot_change_attributes_either() {
    const TRY: &str = "
import os, errno, sys
path = sys.argv[1]
file = os.open('/etc/passwd', os.O_RDONLY)
def attempt(name, call, *arguments):
    try:
        call(*arguments)
        print(name)
    except OSError as error:
        print(name, errno.errorcode[error.errno])
attempt('chmod', os.chmod, path, 0o777)
attempt('fchmod', os.chmod, file, 0o644)
attempt('chown', os.chown, path, -1, -1)
attempt('lchown', os.lchown, path, -1, -1)
attempt('utime', os.utime, path)
attempt('setxattr', os.setxattr, path, 'user.a', b'b')
attempt('removexattr', os.removexattr, path, 'user.a')
attempt('stat', os.stat, path)
";
    if landlock_version() == 0 || !Path::new("/usr/bin/python3").exists() {
        skip("no Landlock, or no Python");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "").unwrap();
    let output = |files: FileRules| {
        let program = program("/usr/bin/python3", &["python3", "-c", TRY, path.to_str().unwrap()]);
        output_of(confined(
            program,
            Confinement { files: Some(files), ..Confinement::default() },
        ))
    };
    let refused =
        "chmod EPERM\nfchmod EPERM\nchown EPERM\nlchown EPERM\nutime EPERM\nsetxattr EPERM\nremovexattr EPERM\nstat\n";
    assert_eq!(output(FileRules::default()), refused);
    let write = vec![text(directory.path())];
    let permitted = output(FileRules { write, ..FileRules::default() });
    assert!(permitted.starts_with("chmod\n"), "{permitted}");
}

#[test]
fn a_process_without_network_takes_no_sockets_from_others() {
    const TRY: &str = "
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for number in NUMBERS:
    libc.syscall(number, 0, 0, 0, 0, 0, 0)
    print(errno.errorcode[ctypes.get_errno()])
";
    if !Path::new("/usr/bin/python3").exists() {
        skip("no Python");
        return;
    }
    let numbers = [libc::SYS_pidfd_getfd, libc::SYS_ptrace, libc::SYS_process_vm_writev];
    let text = TRY.replace("NUMBERS", &format!("{numbers:?}"));
    let program = program("/usr/bin/python3", &["python3", "-c", &text]);
    let confinement = Confinement { is_offline: true, ..Confinement::default() };
    assert_eq!(output_of(confined(program, confinement)), "EPERM\nEPERM\nEPERM\n");
}

#[test]
fn temporary_files_are_private_and_gone_afterwards() {
    let private = || Confinement {
        has_private_tmp: true,
        covers_tmp: true,
        ..Confinement::default()
    };
    let parent = tempfile::tempdir().unwrap();
    let launcher = Launcher::start_with(LauncherSettings {
        threads: 1,
        start_timeout: sluice_launch::START_TIMEOUT,
        cgroups: None,
        temporary_files: parent.path().to_owned(),
    })
    .unwrap();
    let mut program = shell(
        "touch $TMPDIR/sluice-own; mktemp >/dev/null; stat -c %a $TMPDIR/; ls $TMPDIR | wc -l; ls -d /tmp/sluice-own /var/tmp/sluice-own; env | grep -c TMP",
    );
    program.environment = b"PATH=/usr/bin:/bin\0TMPDIR=/nowhere\0".to_vec();
    let started = start_with(&launcher, confined(program, private())).unwrap();
    let output = read_to_end(&started.mailbox);
    // The directory is itself below /tmp.
    let at_tmp = if is_root() {
        "/tmp/sluice-own\n/var/tmp/sluice-own\n"
    } else {
        ""
    };
    assert_eq!(
        output,
        format!("700\n2\n{at_tmp}1\n"),
        "{}",
        read_to_end(&started.stderr)
    );
    exit_of(&started);
    let path = started.temporary.as_ref().unwrap().path().to_owned();
    assert!(path.join("sluice-own").exists() && !Path::new("/tmp/sluice-own").exists());
    drop(started);
    assert!(!path.exists());
    drop(launcher);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn the_root_is_changed_by_root_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut shell = program("/bin/busybox", &["sh", "-c", "pwd; ls /"]);
    let confinement = Confinement {
        chroot: Some(text(root.path())),
        ..Confinement::default()
    };
    shell.directory = c"/below".to_owned();
    if !is_root() {
        let refused = LaunchError { stage: Stage::Chroot, errno: libc::EPERM };
        assert_eq!(start(confined(shell, confinement)).unwrap_err(), refused);
        return;
    }
    // Its directory is below the new root.
    let error = start(confined(
        program("/bin/true", &["true"]),
        Confinement {
            chroot: Some(c"/nowhere".to_owned()),
            ..Confinement::default()
        },
    ));
    assert_eq!(error.unwrap_err().stage, Stage::Chroot);
    fs::create_dir_all(root.path().join("below")).unwrap();
    let mut missing = program("/bin/sh", &["sh"]);
    missing.directory = c"/tmp".to_owned();
    let error = start(confined(missing, confinement.clone())).unwrap_err();
    assert_eq!(error.stage, Stage::Directory);
    let mut missing = program("/bin/sh", &["sh"]);
    missing.directory = c"/below".to_owned();
    let error = start(confined(missing, confinement)).unwrap_err();
    assert_eq!(
        (error.stage, error.errno),
        (Stage::Exec, libc::ENOENT),
        "the program is not below the root"
    );
}

#[test]
fn limits_of_cgroups_are_refused_without_cgroups() {
    let confinement = Confinement {
        cgroup: CgroupLimits { processes_max: Some(10), ..CgroupLimits::default() },
        ..Confinement::default()
    };
    let error = start(confined(shell("exit"), confinement)).unwrap_err();
    assert_eq!(error.stage, Stage::Cgroup);
    assert!(error.to_string().contains("Delegate=yes"), "{error}");
}

/// Starts a process in a session of its own that ignores signals, without its parent's environment, and prints its number.
const DAEMON: &str = r#"
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        print(os.getpid(), flush=True)
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
os.wait()
"#;

#[test]
fn a_daemon_is_killed_by_its_cgroup() {
    let cgroups = match Cgroups::open() {
        Ok(cgroups) => cgroups,
        Err(why) => {
            skip(&why.to_string());
            return;
        }
    };
    let path = cgroups.path().to_owned();
    let launcher = Launcher::start_with(LauncherSettings {
        threads: 1,
        start_timeout: sluice_launch::START_TIMEOUT,
        cgroups: Some(cgroups),
        temporary_files: std::env::temp_dir(),
    })
    .unwrap();
    for _ in 0..3 {
        let started = start_with(&launcher, program("/usr/bin/python3", &["python3", "-c", DAEMON])).unwrap();
        let daemon = read_line(&started.mailbox);
        wait_readable(started.pidfd.as_fd());
        let own = started.cgroup.as_ref().unwrap();
        assert!(own.has_processes());
        own.end().unwrap();
        assert_eq!(exit_of(&started), Exit::Code(0));
        let left = fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap_or_default();
        assert!(left.is_empty() || left.contains(") Z "), "{left}");
    }
    // Without a daemon it is used again.
    let names: Vec<String> = (0..3)
        .map(|_| {
            let started = start_with(&launcher, program("/bin/cat", &["cat", "/proc/self/cgroup"])).unwrap();
            let output = read_to_end(&started.mailbox);
            assert_eq!(exit_of(&started), Exit::Code(0));
            assert!(!started.cgroup.as_ref().unwrap().has_processes());
            output.lines().find(|line| line.starts_with("0::")).unwrap().to_owned()
        })
        .collect();
    let own = path.file_name().unwrap().to_str().unwrap();
    assert!(names[0].contains(own), "{names:?}");
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    drop(launcher);
    assert!(!path.exists());
}
