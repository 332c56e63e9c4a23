//! The unit of systemd that comes with the program.

use std::path::Path;
use std::process::{Command, Stdio};

use super::note;
use sluice_testing::run_command;

/// The highest exposure level, in tenths (systemd-analyze(1)).
const EXPOSURE_MAX: &str = "--threshold=25";

#[test]
fn the_unit_is_hardened() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/sluice.service");
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager", EXPOSURE_MAX]);
    command.arg(unit).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Versions before 250 do not know --offline.
    let is_known = |help: &str| help.contains("--offline");
    let help = Command::new("systemd-analyze").arg("--help").output();
    if !help.is_ok_and(|help| is_known(&String::from_utf8_lossy(&help.stdout))) {
        return note("skipped: there is no systemd-analyze with --offline");
    }
    let ran = run_command(&mut command);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    assert!(ran.output.contains("Overall exposure level"), "{}", ran.output);
}
