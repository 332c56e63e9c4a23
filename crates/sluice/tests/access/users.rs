//! Users of the processes: a server that root starts and that gives up everything of root, scripts with users of their own, and scripts
//! that run as the owners of their files.
//!
//! As root, with users that need no account; an ordinary user changes no user, which is tested by giving up root first.

mod hanging;
mod isolation;
mod locked_logs;
mod others_files;
mod owners;
mod permissions;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

use sluice_testing::{Authority, Server, Setup, TlsClient, run, run_command, signal, sluice_after, wait_until};

/// The user of the server, and two users of scripts.
const SERVER: u32 = 64_001;
const ALICE: u32 = 64_011;
const BOB: u32 = 64_012;

/// Says as whom it runs, and where its home is.
const WHOAMI: &str = "printf 'Content-Type: text/plain\\n\\n'\necho \"$(id -u):$(id -g):$(id -G):$HOME:$USER\"";

/// Whether this process may change users. Says so if not.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        use std::io::Write;
        // Not eprintln!, which only the program may use.
        let _ = writeln!(std::io::stderr(), "skipped: only root can change users");
    }
    is_root
}

/// A setup whose files other users can read.
fn open_setup() -> Setup {
    let setup = Setup::new();
    set_mode(setup.directory(), 0o755);
    setup
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
}

/// The values of a line of /proc/PID/status.
fn status_of(pid: u32, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")))
        .unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn assert_unprivileged(server: &Server) {
    let pid = server.server_pid();
    let user = SERVER.to_string();
    assert_eq!(status_of(pid, "Uid"), [user.as_str(); 4]);
    assert_eq!(status_of(pid, "Gid"), [user.as_str(); 4]);
    assert_eq!(status_of(pid, "Groups"), [user.as_str()]);
    assert_eq!(status_of(pid, "NoNewPrivs"), ["1"]);
    // A filter of system calls, for all threads.
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        assert!(status.is_empty() || status.contains("\nSeccomp:\t2\n"), "{status}");
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status_of(pid, set), ["0000000000000000"], "{set}");
    }
    // It belongs to root because nobody may read the memory of the server, also no process of its user (proc(5)).
    assert_eq!(fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid(), 0);
}

#[test]
fn a_server_of_root_runs_as_its_user_without_any_privilege() {
    if !is_root() {
        return;
    }
    let server = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .script("whoami", WHOAMI)
        .script(
            "rights",
            "printf 'Content-Type: text/plain\\n\\n'; exec cat /proc/self/status",
        )
        .start();
    assert_eq!(status_of(server.pid(), "Uid"), ["0"; 4]);
    assert_unprivileged(&server);
    let response = server.get("/cgi-bin/whoami");
    assert_eq!(response.text().trim(), format!("{SERVER}:{SERVER}:{SERVER}:/:"));
    let response = server.get("/cgi-bin/rights");
    let rights = response.text();
    for expected in ["CapBnd:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(rights.contains(expected), "{rights}");
    }
    assert_eq!(server.post("/cgi-bin/whoami", vec![b'x'; 1 << 20]).status, 200);
    assert_eq!(server.get("/health.txt").text(), "well");
    // The one after it, too.
    let died = server.server_pid();
    assert!(signal(died, "KILL"));
    assert!(wait_until(
        || server.server_pid() != died && server.get("/health.txt").status == 200
    ));
    assert_unprivileged(&server);
    server.signal("HUP");
    server.log_line("is in force");
    server.stop();
}

#[test]
fn scripts_of_another_user_have_no_directories_of_the_one_who_has_started_the_server_in_their_path() {
    if !is_root() {
        return;
    }
    let server = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .environment("HOME", "/root")
        .environment("PATH", "/root/bin:/usr/bin:/root/.cargo/bin:.:/bin")
        .script("path", "printf 'Content-Type: text/plain\\n\\n%s' \"$PATH\"")
        .start();
    assert_eq!(server.get("/cgi-bin/path").text(), "/usr/bin:/bin");
    server.stop();
}

#[test]
fn files_of_root_are_read_and_made_for_the_server() {
    if !is_root() {
        return;
    }
    let setup = open_setup();
    let secret = setup.path("secret");
    fs::create_dir(&secret).unwrap();
    fs::create_dir(setup.path("logs")).unwrap();
    let authority = Authority::new();
    let (certificate, key) = authority.issue(&["localhost"]);
    fs::write(secret.join("cert.pem"), certificate).unwrap();
    fs::write(secret.join("key.pem"), key).unwrap();
    set_mode(&secret.join("key.pem"), 0o600);
    set_mode(&secret, 0o700);
    let server = setup
        .listeners(
            "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"secret/cert.pem\", key = \"secret/key.pem\" }",
        )
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .log("access = \"logs/access.log\"")
        .start();
    let config = Arc::new(authority.client(rustls::ALL_VERSIONS));
    let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
    assert!(client.get("/health.txt", "localhost").unwrap().contains("well"));
    let log = server.path("logs/access.log");
    let about = |path: &Path| fs::metadata(path).map(|about| (about.uid(), about.mode() & 0o777));
    assert_eq!(about(&log).unwrap(), (SERVER, 0o640));
    assert_eq!(about(&server.path("state")).unwrap(), (SERVER, 0o700));
    assert!(wait_until(|| fs::read_to_string(&log).unwrap().contains("/health.txt")));
    // As logrotate does: the server may not write the directory, and the supervisor makes the new file.
    fs::rename(&log, server.path("logs/access.log.1")).unwrap();
    server.signal("USR1");
    server.log_line("the logs are opened again");
    server.get("/after");
    assert!(wait_until(
        || fs::read_to_string(&log).is_ok_and(|text| text.contains("/after"))
    ));
    assert_eq!(about(&log).unwrap().0, SERVER);
    // The command does the same.
    fs::rename(&log, server.path("logs/access.log.2")).unwrap();
    let ran = run(server.setup().directory(), &["log", "reopen"]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    assert_eq!(about(&log).unwrap(), (SERVER, 0o640));
    server.stop();
}

#[test]
fn a_log_that_cannot_be_opened_again_fails_the_command() {
    let setup = Setup::new().log("access = \"logs/access.log\"");
    fs::create_dir(setup.path("logs")).unwrap();
    let server = setup.start();
    fs::rename(server.path("logs"), server.path("old")).unwrap();
    let ran = run(server.setup().directory(), &["log", "reopen"]);
    assert!(!ran.status.success());
    let message = "logs/access.log: No such file or directory (os error 2); the file opened before stays in use";
    assert!(ran.output.contains(message), "{}{}", ran.output, ran.errors);
    assert!(!ran.output.contains("are opened again"), "{}", ran.output);
    fs::rename(server.path("old"), server.path("logs")).unwrap();
    let ran = run(server.setup().directory(), &["log", "reopen"]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
}

/// Writes the configuration with another user of the server.
fn change_user(server: &Server, old: u32, new: u32) {
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let changed = text.replace(&format!("\"{old}:{old}\""), &format!("\"{new}:{new}\""));
    assert_ne!(changed, text);
    fs::write(server.path("sluice.toml"), changed).unwrap();
}

#[test]
fn logs_are_given_to_another_user_of_the_server() {
    if !is_root() {
        return;
    }
    let setup = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .log("access = \"logs/access.log\"");
    fs::create_dir(setup.path("logs")).unwrap();
    let server = setup.start();
    let log = server.path("logs/access.log");
    let owner = || fs::metadata(&log).unwrap().uid();
    assert_eq!(owner(), SERVER);
    let upgrade = || run(server.setup().directory(), &["upgrade"]);
    let old = server.server_pid();
    change_user(&server, SERVER, ALICE);
    // The state directory is the administrator's affair.
    give(&server.path("state"), ALICE);
    let ran = upgrade();
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    assert!(wait_until(|| server.server_pid() != old));
    assert_eq!(owner(), ALICE);
    // A directory of another user is not root's affair.
    give(&server.path("logs"), ALICE);
    change_user(&server, ALICE, BOB);
    let ran = upgrade();
    assert!(!ran.status.success());
    let message = format!("it belongs to user {ALICE}, and the server runs as user {BOB}: chown {BOB}:{BOB} ");
    assert!(ran.output.contains(&message), "{}{}", ran.output, ran.errors);
    assert_eq!(owner(), ALICE);
    server.get("/health.txt");
    server.stop();
}

#[test]
fn a_server_whose_user_is_removed_does_not_become_one_of_root() {
    if !is_root() {
        return;
    }
    let server = open_setup().server(&format!("user = \"{SERVER}:{SERVER}\"")).start();
    let old = server.server_pid();
    let give = |command| run(server.setup().directory(), &[command]);
    change_user(&server, SERVER, ALICE);
    let reloaded = give("reload");
    let advice = "user is unchanged: this change takes effect when the server is restarted or upgraded (\"systemctl restart sluice\", or \"sluice upgrade\")";
    assert!(reloaded.status.success() && (reloaded.output + &reloaded.errors).contains(advice));
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let without = text.replace(&format!("user = \"{ALICE}:{ALICE}\""), "");
    assert_ne!(without, text);
    fs::write(server.path("sluice.toml"), without).unwrap();
    for command in ["reload", "upgrade"] {
        let ran = give(command);
        let said = ran.output + &ran.errors;
        assert!(!ran.status.success(), "{said}");
        assert!(
            said.contains("running as root is refused") && said.contains("nothing has changed"),
            "{said}"
        );
    }
    assert_eq!(server.server_pid(), old);
    assert_eq!(status_of(old, "Uid")[0], SERVER.to_string());
}

#[test]
fn a_state_directory_of_root_is_given_to_the_server_if_nothing_else_is_in_it() {
    if !is_root() {
        return;
    }
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    let setup = open_setup();
    let state = setup.path("state");
    fs::create_dir(&state).unwrap();
    // As systemd leaves it at each start of a unit of root.
    fs::write(state.join("activity.ring"), "").unwrap();
    set_mode(&state.join("activity.ring"), 0o600);
    let server = setup.server(&format!("user = \"{SERVER}:{SERVER}\"")).start();
    assert_eq!(owner(&server.path("state")), SERVER, "{}", server.log());
    assert_eq!(owner(&server.path("state/activity.ring")), SERVER);
    assert!(!server.log().contains("activity.ring"), "{}", server.log());
    server.stop();

    let setup = open_setup();
    let state = setup.path("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("activity.ring"), "").unwrap();
    fs::write(state.join("other"), "").unwrap();
    let server = setup.server(&format!("user = \"{SERVER}:{SERVER}\"")).start();
    assert_eq!(owner(&server.path("state")), 0, "it may be used by others");
    assert_eq!(owner(&server.path("state/other")), 0);
    server.stop();
}

#[test]
fn a_route_with_a_user_below_root_has_no_privilege() {
    if !is_root() {
        return;
    }
    // Scripts of root itself keep what root has; those of the route must not get it.
    let route = format!("directory = \"htdocs/cgi-bin\", user = \"{BOB}:{BOB}\"");
    let server = open_setup()
        .script(
            "rights",
            "printf 'Content-Type: text/plain\\n\\n'; exec cat /proc/self/status",
        )
        .script_route("/bob/*", &route)
        .start();
    let response = server.get("/bob/rights");
    let rights = response.text();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(rights.contains(&format!("{set}:\t0000000000000000")), "{rights}");
    }
    assert!(rights.contains("NoNewPrivs:\t1"), "{rights}");
    let of_root = server.get("/cgi-bin/rights");
    assert!(of_root.text().contains("NoNewPrivs:\t0"), "{}", of_root.text());
    server.stop();
}

#[test]
fn owners_whose_scripts_lie_elsewhere_are_a_warning() {
    let setup = Setup::new();
    for directory in ["home", "elsewhere"] {
        fs::create_dir(setup.path(directory)).unwrap();
    }
    let check = |directory: &str| {
        let text = format!(
            "[server.script_owners]\nusers = [\"{ALICE}:{ALICE}\"]\ndirectories = [\"home\"]\n[[site]]\nroot = \"htdocs\"\n\
             [[site.route]]\npath = \"/a/*\"\nscript = {{ directory = \"{directory}\", user = \"owner\" }}\n"
        );
        fs::write(setup.path("sluice.toml"), text).unwrap();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
        ran.errors
    };
    let warned = check("elsewhere");
    let expected = "elsewhere is below none of the directories of [server.script_owners]";
    assert!(
        warned.contains("sluice.toml:6: ") && warned.contains(expected),
        "{warned}"
    );
    for directory in ["home", "."] {
        let warned = check(directory);
        assert!(!warned.contains("is below none"), "{warned}");
    }
}

#[test]
fn root_makes_no_files_where_another_user_could_put_a_link() {
    if !is_root() {
        return;
    }
    let setup = open_setup();
    fs::create_dir(setup.path("logs")).unwrap();
    fs::write(setup.path("victim"), "of root").unwrap();
    std::os::unix::fs::symlink(setup.path("victim"), setup.path("logs/error.log")).unwrap();
    give(&setup.path("logs"), SERVER);
    let server = setup
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .log("access = \"logs/access.log\"")
        .start();
    server.get("/health.txt");
    let log = server.path("logs/access.log");
    assert!(wait_until(
        || fs::metadata(&log).is_ok_and(|about| about.uid() == SERVER && about.len() > 0)
    ));
    assert_eq!(fs::metadata(server.path("victim")).unwrap().uid(), 0);
    server.stop();
}

#[test]
fn an_ordinary_user_changes_no_user_and_needs_not() {
    if !is_root() {
        return;
    }
    let server = Setup::new()
        .server("user = \"65534:65534\"\nscript_user = \"65534:65534\"")
        .script("whoami", WHOAMI)
        .start_after("become_ordinary_user()");
    assert!(server.get("/cgi-bin/whoami").text().starts_with("65534:65534:"));
    server.stop();
    for (keys, named) in [
        ("user = \"64001:64001\"", "user = \"64001:64001\""),
        ("script_user = \"64002:64002\"", "script_user = \"64002:64002\""),
    ] {
        let setup = Setup::new().server(keys);
        setup.write_configuration();
        let ran =
            run_command(sluice_after(setup.directory(), "become_ordinary_user()").args(["run", "-c", "sluice.toml"]));
        let message = format!(
            "{named}: only root can change users, and this is user 65534: start the server as root, or remove this"
        );
        assert!(ran.errors.contains(&message), "{}", ran.errors);
        assert_eq!(ran.status.code(), Some(1));
    }
}

#[test]
fn users_that_cannot_be_are_refused_with_their_line() {
    let setup = Setup::new();
    for (keys, message) in [
        ("user = \"root\"", "user = \"root\": is root: name another user"),
        ("user = \"0:0\"", "user = \"0:0\": is root"),
        (
            "user = \"64001\"",
            "has no account on this machine, so its group is not known: write it, as in \"64001:64001\"",
        ),
        (
            "script_user = \"rooot\"",
            "there is no user \"rooot\" on this machine; did you mean \"root\"?",
        ),
        ("script_user = \"64001:0\"", "has the group of root"),
        ("script_owners = { users = [\"1:1\"] }", "lacks directories"),
        ("script_owners = { directories = [\"/home\"] }", "permits nobody"),
        (
            "script_owners = { users = \"*\", uid_min = 0, directories = [\"/home\"] }",
            "must be at least 1",
        ),
    ] {
        let text = format!("[server]\n{keys}\n[[site]]\nroot = \"htdocs\"\n");
        fs::write(setup.path("sluice.toml"), text).unwrap();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        let is_located = ran.errors.contains("sluice.toml:2: ");
        assert!(ran.errors.contains(message) && is_located, "{keys}\n{}", ran.errors);
    }
    let owner = |more: &str| {
        format!(
            "[[site]]\nroot = \"htdocs\"\n[[site.route]]\npath = \"/a/*\"\nscript = {{ directory = \"htdocs\", user = \"owner\"{more} }}\n"
        )
    };
    for (text, message) in [
        (owner(""), "nobody is permitted yet: add [server.script_owners]"),
        (
            owner(", mode = \"rte\", engine = \"python\""),
            "the processes of an engine run the scripts of all owners",
        ),
    ] {
        fs::write(setup.path("sluice.toml"), text).unwrap();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(ran.errors.contains(message), "{}", ran.errors);
    }
}

#[test]
fn root_without_a_user_is_refused_and_the_message_names_the_key() {
    if !is_root() {
        return;
    }
    let setup = Setup::new();
    setup.write_configuration();
    let mut command = sluice_testing::sluice(setup.directory());
    let ran = run_command(command.args(["run", "-c", "sluice.toml"]));
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.errors.contains("user = \"www-data\" in [server]"), "{}", ran.errors);
    let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(
        checked.errors.contains("user = \"www-data\" in [server]"),
        "{}",
        checked.errors
    );
}

#[test]
fn scripts_run_as_the_user_of_all_scripts_or_of_their_route() {
    if !is_root() {
        return;
    }
    for server in ["", &format!("user = \"{SERVER}:{SERVER}\"\n")] {
        assert_users_of_scripts(server);
    }
}

fn assert_users_of_scripts(server: &str) {
    let route = format!("directory = \"htdocs/cgi-bin\", user = \"{BOB}:64099\"");
    let server = open_setup()
        .server(&format!("{server}script_user = \"{ALICE}:{ALICE}\""))
        .script("whoami", WHOAMI)
        .script_route("/bob/*", &route)
        .start();
    let text = |path: &str| server.get(path).text().trim().to_owned();
    assert_eq!(text("/cgi-bin/whoami"), format!("{ALICE}:{ALICE}:{ALICE}:/:"));
    assert_eq!(text("/bob/whoami"), format!("{BOB}:64099:64099:/:"));
    // The same file, and a process for each user.
    assert_eq!(text("/cgi-bin/whoami"), format!("{ALICE}:{ALICE}:{ALICE}:/:"));
    // A reload adds a user, and takes one away.
    let configuration = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let changed = configuration.replace(&format!("{BOB}:64099"), "64013:64013");
    fs::write(server.path("sluice.toml"), changed).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert!(wait_until(|| text("/bob/whoami").starts_with("64013:64013")));
    server.stop();
}
