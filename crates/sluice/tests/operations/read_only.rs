//! Logs and spool files in a directory that is read-only for the server, as most are under a unit of systemd: the message says what permits it.

use std::fs;

use sluice_testing::{Setup, run, run_command, sluice_after};

/// Makes `sealed` read-only, in a mount namespace of its own. Ends with 99 where that is not permitted.
const SEAL: &str = "
import ctypes
libc = ctypes.CDLL(None)
def mount(source, target, flags):
    return libc.mount(source, target, None, flags, None)
if os.getuid() != 0 or libc.unshare(0x20000) != 0:
    os._exit(99)
if mount(None, b'/', 0x44000) != 0 or mount(b'sealed', b'sealed', 0x1000) != 0 or mount(None, b'sealed', 0x1021) != 0:
    os._exit(99)
";

#[test]
fn a_read_only_directory_is_explained_with_the_line_of_the_unit() {
    for (keys, of_server, what) in [
        ("access = \"sealed/access.log\"", "", "access log "),
        ("diagnostics = \"sealed/server.log\"", "", "sealed/server.log"),
        ("access = \"-\"", "spool_directory = \"sealed\"", "spool_directory "),
    ] {
        let setup = Setup::new().log(keys).server(of_server);
        fs::create_dir(setup.path("sealed")).unwrap();
        setup.write_configuration();
        let mut command = sluice_after(setup.directory(), SEAL);
        let ran = run_command(command.args(["run", "-c", "sluice.toml", "--allow-root"]));
        if ran.status.code() == Some(99) {
            return;
        }
        assert!(!ran.status.success());
        let line = format!("ReadWritePaths=-{}", setup.path("sealed").display());
        for words in [
            what,
            "Read-only file system",
            "user ",
            "systemctl edit sluice",
            &line,
            "systemctl restart sluice",
        ] {
            assert!(ran.errors.contains(words), "no {words} in {}", ran.errors);
        }
    }
}

#[test]
fn check_knows_the_read_only_mounts_of_the_running_server() {
    let setup = Setup::new().server("control = \"control.sock\"").file("a.txt", "a");
    fs::create_dir(setup.path("sealed")).unwrap();
    let mut command = sluice_after(setup.directory(), SEAL);
    if run_command(command.arg("--version")).status.code() == Some(99) {
        return;
    }
    let server = setup.start_after(SEAL);
    let (file, sealed) = (server.path("sluice.toml"), server.path("sealed"));
    let text = fs::read_to_string(&file).unwrap();
    let site = "\n[[site]]\nhosts = [\"old.example\"]\nroot = \"htdocs\"\nlog = { access = \"sealed/access.log\" }\n";
    fs::write(&file, text.clone() + site).unwrap();
    // Not in the mount namespace of the server.
    let check = || run(server.setup().directory(), &["check", "-c", "sluice.toml"]);
    let reloaded = run(server.setup().directory(), &["reload", "-c", "sluice.toml"]);
    let checked = check();
    assert!(
        !checked.status.success() && !reloaded.status.success(),
        "{}",
        checked.errors
    );
    let line = format!("ReadWritePaths=-{}", sealed.display());
    for words in ["access log ", "Read-only file system", &line] {
        for said in [&checked.errors, &reloaded.output] {
            assert!(said.contains(words), "no {words} in {said}");
        }
    }
    let spool = "control = \"control.sock\"\nspool_directory = \"sealed\"";
    fs::write(&file, text.replace("control = \"control.sock\"", spool)).unwrap();
    let checked = check();
    assert!(!checked.status.success());
    for words in ["spool_directory ", "Read-only file system", &line] {
        assert!(checked.errors.contains(words), "no {words} in {}", checked.errors);
    }
    fs::write(&file, text + &site.replace("sealed", "htdocs")).unwrap();
    let checked = check();
    assert!(checked.status.success(), "{}", checked.errors);
    assert!(!sealed.join("access.log").exists(), "a check makes no file");
}

#[test]
fn check_warns_of_a_spool_directory_on_a_full_file_system() {
    const FILL: &str = "
import ctypes, os
libc = ctypes.CDLL(None)
if os.getuid() != 0 or libc.unshare(0x20000) != 0 or libc.mount(None, b'/', None, 0x44000, None) != 0:
    os._exit(99)
if libc.mount(b'none', b'spool', b'tmpfs', 0, b'size=4096') != 0:
    os._exit(99)
with open('spool/file', 'wb') as file:
    file.write(bytes(4096))
";
    let setup = Setup::new().server("spool_directory = \"spool\"");
    fs::create_dir(setup.path("spool")).unwrap();
    setup.write_configuration();
    let mut command = sluice_after(setup.directory(), FILL);
    let checked = run_command(command.args(["check", "-c", "sluice.toml"]));
    if checked.status.code() == Some(99) {
        return;
    }
    assert!(checked.status.success(), "{}", checked.errors);
    assert!(
        checked.errors.contains("/spool: no storage space; "),
        "{}",
        checked.errors
    );
}
