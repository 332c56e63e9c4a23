//! The unit of systemd that comes with the program.

use std::path::Path;
use std::process::{Command, Stdio};

use super::note;
use sluice_testing::run_command;

/// The highest exposure level, in tenths (systemd-analyze(1)), of the unit alone: everything runs as one user without rights.
const EXPOSURE_MAX: u32 = 25;

/// The highest one with the drop-in that separates the users: the supervisor may change users.
const SEPARATED_EXPOSURE_MAX: u32 = 36;

#[test]
fn the_unit_is_hardened() {
    let help = Command::new("systemd-analyze").arg("--help").output();
    // Versions before 250 do not know --offline.
    let is_known = |help: &str| help.contains("--offline");
    if !help.is_ok_and(|help| is_known(&String::from_utf8_lossy(&help.stdout))) {
        return note("skipped: there is no systemd-analyze with --offline");
    }
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    // systemd-analyze reads the drop-ins beside a unit.
    let alone = tempfile::tempdir().unwrap();
    let unit = alone.path().join("sluice.service");
    std::fs::copy(packaging.join("sluice.service"), &unit).unwrap();
    assert_exposure(&unit, EXPOSURE_MAX);
    assert_exposure(&packaging.join("sluice.service"), SEPARATED_EXPOSURE_MAX);
}

fn assert_exposure(unit: &Path, max: u32) {
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager"]);
    command.arg(format!("--threshold={max}")).arg(unit);
    let ran = run_command(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    assert!(ran.output.contains("Overall exposure level"), "{}", ran.output);
}
