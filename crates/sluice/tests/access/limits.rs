//! Limits of script processes: what each key of a route forbids, what is said when a limit ends a script, and that nothing that a
//! script has started outlives it.
//!
//! As the user of the tests, and as an ordinary user where that makes a difference. Not here: each limit on its own, without a server
//! (sluice-launch), and bounds on the number of processes of a pool (`pools`).

mod descendants;
mod forged;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_testing::{
    Server, Setup, run, run_command, sluice_after, wait_until_within, warnings_and_errors, write_with_mode,
};

/// The reports, for this machine.
const REPORTS: &str =
    "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:127.0.0.0/8\"], allow_write = [\"net:127.0.0.0/8\"] }";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says why a test does nothing on this system.
fn skip(why: &str) {
    use std::io::Write;
    // Not eprintln!, which only the program may use.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Starts the server twice: as the user of the tests and, if that is root, as an ordinary user.
fn for_each_user(setup: impl Fn() -> Setup, test: impl Fn(&Server, bool)) {
    test(&setup().start(), is_root());
    if is_root() {
        test(&setup().start_after("become_ordinary_user()"), false);
    }
}

fn get(server: &Server, path: &str) -> String {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.response().text().to_owned()
}

#[test]
fn script_that_uses_its_processor_time_is_ended_and_the_limit_is_named() {
    let setup = || {
        Setup::new()
            .site("error_detail = true")
            .cgi("cpu_time = \"1s\"")
            .route(REPORTS)
            .script("spin", "while :; do :; done")
    };
    for_each_user(setup, |server, _| {
        let mut client = server.connect();
        client.get("/cgi-bin/spin");
        // A second of processor time may take long on a busy machine.
        let is_ended = || server.log().contains("status=502");
        assert!(
            wait_until_within(Duration::from_secs(120), is_ended),
            "{}",
            server.log()
        );
        let response = client.response();
        let reason = "the script used more than cpu_time = 1s (SIGXCPU)";
        assert_eq!(response.status, 502);
        assert!(response.text().contains(reason), "{}", response.text());
        let line = server.log_line("status=502");
        assert!(
            line.contains(&format!("ended by signal 24 (SIGXCPU): {reason}")),
            "{line}"
        );
        let page = get(server, "/-/scripts.json");
        assert!(page.contains("it used more than cpu_time = 1s (SIGXCPU)"), "{page}");
    });
}

#[test]
fn kept_process_is_replaced_before_it_has_used_its_processor_time() {
    let burn = "
import time
while accept():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    put(HEAD + b'%d' % os.getpid())
    finish()
";
    let server = Setup::new()
        .cgiplus("cpu_time = \"2s\", max = 1")
        .python("burn", burn)
        .start();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..8 {
        let response = server.get("/cgiplus-bin/burn");
        assert_eq!(response.status, 200, "{}", server.log());
        seen.insert(response.text().to_owned());
    }
    assert!(seen.len() > 1, "{seen:?}");
}

#[test]
fn limit_above_the_hard_limit_of_the_user_is_a_warning() {
    let setup = Setup::new().cgi("open_files = 1000");
    setup.write_configuration();
    let lowered = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500)); become_ordinary_user()";
    let mut check = sluice_after(setup.directory(), lowered);
    let checked = run_command(check.args(["check", "-c", "sluice.toml"]));
    let warning =
        "open_files: it is above this user's own hard limit of 500, so no script of this route can be started";
    assert!(checked.errors.contains(warning), "{}", checked.errors);
}

#[test]
fn file_that_grows_too_large_ends_its_script() {
    let server = Setup::new()
        .site("error_detail = true")
        .cgi("file_size = \"64KiB\", private_tmp = true")
        .script("fill", "exec head -c 1000000 /dev/zero > \"$TMPDIR/file\"")
        .start();
    let response = server.get("/cgi-bin/fill");
    assert_eq!(response.status, 502);
    let reason = "the script wrote a file larger than file_size = 64KiB (SIGXFSZ)";
    assert!(response.text().contains(reason), "{}", response.text());
}

#[test]
fn limits_and_priorities_are_those_of_the_route() {
    let keys = "open_files = 20, file_size = \"1MiB\", memory_max = \"4GiB\", user_processes = 4000, umask = \"077\", nice = 7, \
                io_priority = \"idle\", working_directory = \"htdocs\"";
    let setup = || {
        Setup::new().cgi(keys).script(
            "shows",
            "printf 'Content-Type: text/plain\\n\\n'\numask; ulimit -n; ulimit -f; ulimit -v; nice; ionice -p $$\n\
             basename \"$(pwd)\"; cat /proc/self/limits | grep processes",
        )
    };
    let own = rustix::process::getpriority_process(None).unwrap();
    let nice = (own + 7).min(19);
    for_each_user(setup, |server, _| {
        let text = server.get("/cgi-bin/shows").text().to_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        // The shell counts blocks of 512 bytes.
        assert_eq!(
            lines[..7],
            ["0077", "20", "2048", "4194304", &nice.to_string(), "idle", "htdocs"],
            "{text}"
        );
        assert!(
            lines[7].starts_with("Max processes             4000                 4000"),
            "{text}"
        );
    });
}

#[test]
fn script_without_network_has_local_sockets_only() {
    let text = r#"
import socket
def attempt(family):
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
        return "made"
    except OSError as error:
        return error.strerror
put(HEAD + ", ".join(attempt(family) for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)).encode())
"#;
    let refused = "Address family not supported by protocol";
    for_each_user(
        || Setup::new().cgi("network = false").python("try", text),
        |server, _| {
            assert_eq!(server.get("/cgi-bin/try").text(), format!("made, {refused}, {refused}"));
        },
    );
}

#[test]
fn script_reaches_only_the_files_that_its_route_names() {
    let setup = || {
        let setup = Setup::new()
            .cgi("read = [\"htdocs/pages\"], write = [\"data\"], private_tmp = true")
            .file("pages/a.txt", "page ")
            .file("other/b.txt", "other ")
            .script(
                "try",
                "printf 'Content-Type: text/plain\\n\\n'\n\
                 cat ../pages/a.txt; cat ../other/b.txt 2>/dev/null || printf 'hidden '\n\
                 (echo > ../pages/new) 2>/dev/null || printf 'read-only '\n\
                 echo 'kept ' > ../../data/kept && printf 'written '\n\
                 echo > \"$TMPDIR/own\" && printf 'temporary '\n\
                 cat /etc/shadow 2>/dev/null || printf 'secret '\n\
                 ls / > /dev/null 2>&1 || printf 'root '\n\
                 kill -0 \"$(cut -d' ' -f4 /proc/$$/stat)\" 2>/dev/null && printf 'signalled '\n\
                 head -c 100 \"$0\" > /dev/null && printf 'itself'",
            );
        std::fs::create_dir(setup.path("data")).unwrap();
        setup
    };
    if !has_landlock() {
        let server = setup().start();
        assert_eq!(
            server.get("/cgi-bin/try").status,
            500,
            "never without the rules that it was promised"
        );
        return;
    }
    for_each_user(setup, |server, _| {
        let text = server.get("/cgi-bin/try").text().to_owned();
        // Landlock can keep it from signalling the server since version 6.
        let text = text.replace("signalled ", "");
        assert_eq!(
            text,
            "page hidden read-only written temporary secret root itself",
            "{}",
            server.log()
        );
        assert_eq!(std::fs::read_to_string(server.path("data/kept")).unwrap(), "kept \n");
    });
}

/// Asks the server under test, whose warnings name the kernel's lack.
fn has_landlock() -> bool {
    let setup = Setup::new().cgi("read = []");
    setup.write_configuration();
    !run(setup.directory(), &["check", "-c", "sluice.toml"])
        .errors
        .contains("has no Landlock")
}

/// Copies the engine for Python to the directory of a test, because an ordinary user may not enter that of the checkout (`mktemp -d`, `/root`).
fn copy_engine(setup: &Setup) {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python");
    copy_tree(&engine, &setup.path("sdk/python"));
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &copy),
            false => drop(fs::copy(entry.path(), copy).unwrap()),
        }
    }
}

#[test]
fn kept_processes_are_confined_too_and_engines_find_their_programs() {
    if !has_landlock() {
        return;
    }
    let kept = "
count = 0
while accept():
    count += 1
    try:
        open(os.environ['TEST_DIR'] + '/sluice.toml').close()
        put(HEAD + b'open')
    except PermissionError:
        put(HEAD + b'closed %d' % count)
    finish()
";
    let engine = "import os\nprint('Content-Type: text/plain\\n')\ntry:\n    open('/etc/shadow').close()\n    print('open')\nexcept PermissionError:\n    print('closed')\n";
    let setup = || {
        let setup = Setup::new();
        copy_engine(&setup);
        setup
            .server("sdk = \"sdk\"")
            // A python3 elsewhere, such as pyenv's, would need its directory in `read`.
            .environment("PATH", "/usr/bin:/bin")
            .cgiplus("read = [], network = false, max = 1")
            .python("kept", kept)
            .script_route(
                "/py/*",
                "directory = \"htdocs/py\", mode = \"rte\", engine = \"python\", read = [], network = false",
            )
            .file("py/a.py", engine)
    };
    for_each_user(setup, |server, _| {
        for count in 1..=3 {
            assert_eq!(
                server.get("/cgiplus-bin/kept").text(),
                format!("closed {count}"),
                "{}",
                server.log()
            );
            assert_eq!(server.get("/py/a.py").text(), "closed\n", "{}", server.log());
        }
    });
}

/// Root without CAP_SYS_ADMIN, as in many containers, and without CAP_SYS_CHROOT, as in many units.
const FEWER_CAPABILITIES: &str = "
import ctypes
PR_CAPBSET_DROP, CAP_SYS_CHROOT, CAP_SYS_ADMIN = 24, 18, 21
for capability in (CAP_SYS_CHROOT, CAP_SYS_ADMIN):
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0
";

#[test]
fn what_root_lacks_a_capability_for_refuses_the_start_and_names_it() {
    if !is_root() {
        return skip("only root has a capability to lose");
    }
    // A script below /tmp, where tests have theirs, keeps the /tmp of the machine.
    let server = Setup::new()
        .site("error_detail = true")
        .script_route("/tmp", "file = \"/usr/bin/env\", private_tmp = true")
        .script_route("/root", "file = \"/usr/bin/env\", chroot = \"/usr\"")
        .start_after(FEWER_CAPABILITIES);
    server.log_line("private_tmp: this user is root without CAP_SYS_ADMIN");
    server.log_line("chroot: this user is root without CAP_SYS_CHROOT");
    for (path, named) in [
        ("/tmp", "the server lacks CAP_SYS_ADMIN, so /tmp would stay shared"),
        ("/root", "needs CAP_SYS_CHROOT"),
    ] {
        let response = server.get(path);
        assert_eq!(response.status, 500, "{}", response.text());
        assert!(response.text().contains(named), "{}", response.text());
    }
}

#[test]
fn check_shows_limits_that_forbid_everything_and_those_of_pools() {
    let setup = Setup::new().cgiplus(
        "write = [], requests = 500, lifetime = \"1h\", memory_soft = \"64MiB\", queue = 5, proctor = [\"/cgiplus-bin/x\"], min = 1",
    );
    setup.write_configuration();
    let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    let shown = "requests = 500, lifetime = 1h, memory_soft = 64MiB, queue = 5, proctor = /cgiplus-bin/x, write = []";
    assert!(ran.output.contains(shown), "{}{}", ran.output, ran.errors);
}

#[test]
fn temporary_files_of_a_process_are_its_own_and_removed_with_it() {
    let setup = || {
        Setup::new().cgi("private_tmp = true").script(
            "try",
            "mktemp > /dev/null\nprintf 'Content-Type: text/plain\\n\\n'; ls \"$TMPDIR\" | wc -l; stat -c %a \"$TMPDIR\"; echo \"$TMPDIR\"",
        )
    };
    for_each_user(setup, |server, _| {
        let mut seen = Vec::new();
        for _ in 0..3 {
            let text = server.get("/cgi-bin/try").text().to_owned();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines[..2], ["1", "700"], "{text}");
            let path = lines[2].to_owned();
            assert!(sluice_testing::wait_until(|| !Path::new(&path).exists()), "{path}");
            assert!(!seen.contains(&path));
            seen.push(path);
        }
    });
}

/// More levels than the server has descriptors.
const LEVELS: u32 = 700;
const DESCRIPTORS: u32 = 600;

#[test]
fn temporary_files_are_removed_whatever_a_script_makes_of_them() {
    let deep = format!(
        "base = os.environ['TMPDIR']\nfor name in ('closed', 'deep'):\n    os.mkdir(base + '/' + name)\n\
         open(base + '/closed/file', 'w').close()\nos.chmod(base + '/closed', 0)\nos.chdir(base + '/deep')\n\
         for level in range({LEVELS}):\n    os.mkdir('d')\n    os.chdir('d')\nput(HEAD + base.encode())"
    );
    let setup = || Setup::new().cgi("private_tmp = true").python("deep", &deep);
    let limit = format!("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))");
    let users = if is_root() {
        &["pass", "become_ordinary_user()"][..]
    } else {
        &["pass"]
    };
    for user in users {
        let server = setup().start_after(&format!("{limit}\n{user}"));
        let path = server.get("/cgi-bin/deep").text().to_owned();
        assert!(path.contains("sluice-tmp."), "{path}{}", server.log());
        let is_gone = || !Path::new(&path).exists();
        assert!(
            wait_until_within(Duration::from_secs(120), is_gone),
            "{path}\n{}",
            server.log()
        );
        assert!(
            !server.log().contains("temporary files of a script are left"),
            "{}",
            server.log()
        );
    }
}

/// Copies /bin/sh with its libraries below a directory: the files that are mapped in its memory.
fn copy_shell(root: &Path) {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "while read -r line; do echo \"$line\"; done < /proc/$$/maps"]);
    let mapped = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let names = mapped.lines().filter_map(|line| line.split_whitespace().nth(5));
    let files = names.filter(|name| name.starts_with('/')).map(PathBuf::from);
    // The loader is named in the program by a path that leads there by links.
    let loader = PathBuf::from("/lib64/ld-linux-x86-64.so.2");
    for file in files
        .chain([PathBuf::from("/bin/sh"), loader])
        .filter(|file| file.exists())
    {
        let to = root.join(file.strip_prefix("/").unwrap());
        write_with_mode(&to, &std::fs::read(file).unwrap(), 0o755);
    }
    // Libraries are searched below /lib, too, which may be a link on this system.
    std::os::unix::fs::symlink("usr/lib", root.join("lib")).ok();
}

#[test]
fn root_of_a_script_is_changed_if_the_server_runs_as_root() {
    let setup = || {
        let setup = Setup::new().script_route("/jail/*", "directory = \"jail/cgi-bin\", chroot = \"jail\"");
        let root = setup.path("jail");
        copy_shell(&root);
        let text =
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; echo /*; pwd; echo $SCRIPT_FILENAME $SCRIPT_NAME $0\n";
        write_with_mode(&root.join("cgi-bin/where"), text.as_bytes(), 0o755);
        setup
    };
    for_each_user(setup, |server, is_root| {
        let response = server.get("/jail/where");
        if is_root {
            let text = response.text();
            assert!(text.starts_with("/bin /cgi-bin"), "{text}{}", server.log());
            assert!(
                text.ends_with("\n/cgi-bin\n/cgi-bin/where /jail/where /cgi-bin/where\n"),
                "{text}"
            );
        } else {
            assert_eq!(response.status, 500);
            let line = server.log_line("status=500");
            assert!(
                line.contains("cannot change its root (chroot): that needs CAP_SYS_CHROOT: start the server as root"),
                "{line}"
            );
        }
    });
}

#[test]
fn limits_that_cannot_be_applied_are_reported_before_a_script_misses_them() {
    let setup = Setup::new()
        .limits("cgroups = false")
        .cgi("cgroup_memory = \"64MiB\", read = [\"nowhere\"]")
        .cgiplus("chroot = \"htdocs\", cpu_time = \"2s\"")
        .script("a", "printf 'Content-Type: text/plain\\n\\nran'");
    setup.write_configuration();
    let mut check = sluice_after(setup.directory(), "become_ordinary_user()");
    let checked = run_command(check.args(["check", "-c", "sluice.toml"]));
    for text in [
        "cgroup_memory cannot be applied here, so no script of this route can be started: limits.cgroups is false",
        "Delegate=yes",
        "/nowhere does not exist",
        "chroot: only root may change the root of a script",
    ] {
        assert!(checked.errors.contains(text), "{text}: {}", checked.errors);
    }
    assert!(
        checked.output.contains("cgroup_memory = 64MiB, read = "),
        "{}",
        checked.output
    );
    let arguments = ["check", "-c", "sluice.toml", "--explain", "/cgiplus-bin/a"];
    let explained = run(setup.directory(), &arguments);
    let limits = format!("; limits: cpu_time = 2s, chroot = {}", setup.path("htdocs").display());
    assert!(explained.output.contains(&limits), "{}", explained.output);
    let server = setup.start();
    let response = server.get("/cgi-bin/a");
    assert_eq!(response.status, 500);
    let line = server.log_line("status=500");
    assert!(
        line.contains("cannot set the limits of its cgroup") && line.contains("Delegate=yes"),
        "{line}"
    );
}

#[test]
fn limits_of_cgroups_hold_where_the_controllers_are_delegated() {
    let setup = || {
        Setup::new()
            .site("error_detail = true")
            .cgi("cgroup_memory = \"64MiB\", cgroup_processes = 20, cgroup_cpu = 90, cgroup_cpu_weight = 50")
            .python("fill", "data = []\nwhile True:\n    data.append(b'x' * (1 << 20))")
            .python(
                "fork",
                "import time\npids = []\nwhile True:\n    pid = os.fork()\n    if pid == 0:\n        time.sleep(1000)",
            )
    };
    let prepared = setup();
    prepared.write_configuration();
    let checked = run(prepared.directory(), &["check", "-c", "sluice.toml"]);
    if let Some(warning) = checked
        .errors
        .lines()
        .find(|line| line.contains("cannot be applied here"))
    {
        skip(warning);
        return;
    }
    let server = prepared.start();
    let response = server.get("/cgi-bin/fill");
    assert!(
        response.text().contains("used more than cgroup_memory = 64MiB"),
        "{}",
        response.text()
    );
    let response = server.get("/cgi-bin/fork");
    let reason = "could start no more processes than cgroup_processes = 20";
    assert!(response.text().contains(reason), "{}", response.text());
    server.assert_idle();
}

#[test]
fn without_these_keys_nothing_is_different() {
    for_each_user(
        || {
            Setup::new().script(
                "shows",
                "printf 'Content-Type: text/plain\\n\\n'; umask; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; echo \"[$TMPDIR]\"",
            )
        },
        |server, _| {
            let text = server.get("/cgi-bin/shows").text().to_owned();
            let own = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = |name: &str| own.lines().find(|line| line.starts_with(name)).unwrap();
            let expected = format!("0022\n{}\n{}\n[]\n", line("NoNewPrivs:"), line("Seccomp:"));
            assert_eq!(text, expected);
            assert_eq!(warnings_and_errors(&server.log()), Vec::<String>::new());
        },
    );
}
