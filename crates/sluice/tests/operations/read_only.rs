//! Logs and spool files in a directory that is read-only for the server, as most are under a unit of systemd: the message says what permits it.

use std::fs;

use sluice_testing::{Setup, run_command, sluice_after};

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
