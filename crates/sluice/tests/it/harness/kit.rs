//! Scripts that need more than a shell: in Python with a small kit, and the compiled ones that use the C library.
//!
//! The kit (`programs/kit.py`) speaks CGIPLUSIN, sentinels and callouts byte by byte, so that a test decides about every
//! byte. `bulk` (`programs/bulk.c`) and the demonstrator `membufdemo` write to rings as the C library does.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::program::{spawn, write_script};
use super::setup::Setup;

const KIT: &str = include_str!("../programs/kit.py");

impl Setup {
    /// A script in Python in cgi-bin, with the kit at hand.
    pub(crate) fn python(self, name: &str, text: &str) -> Setup {
        write_script(&self.path("htdocs/cgi-bin").join(name), &python(text));
        self.file("cgi-bin/kit.py", KIT)
    }

    /// The programs that use the C library: `bulk` and `membufdemo`.
    pub(crate) fn ring_programs(self) -> Setup {
        for program in ring_programs() {
            let name = program.file_name().unwrap();
            symlink(program, self.path("htdocs/cgi-bin").join(name)).unwrap();
        }
        self
    }
}

/// A script's text in Python, with the kit at hand.
pub(crate) fn python(text: &str) -> String {
    format!("#!/usr/bin/env -S python3 -SE\nfrom kit import *\n{text}\n")
}

/// Made once for all tests of a run.
fn ring_programs() -> &'static [PathBuf; 2] {
    static MADE: OnceLock<[PathBuf; 2]> = OnceLock::new();
    MADE.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sdk = here.ancestors().nth(2).unwrap().join("sdk/c");
        let (library, demonstrator) = ("build/libsluice.a", "build/membufdemo");
        made(
            Command::new("make")
                .arg("--silent")
                .current_dir(&sdk)
                .args([library, demonstrator]),
        );
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Another run of the tests may be using the one that is there.
        let (bulk, new) = (
            directory.join("bulk"),
            directory.join(format!("bulk-{}", std::process::id())),
        );
        made(
            Command::new("cc")
                .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2", "-I"])
                .args([&sdk.join("include"), Path::new("-o"), &new])
                .args([&here.join("tests/it/programs/bulk.c"), &sdk.join(library)]),
        );
        std::fs::rename(new, &bulk).unwrap();
        [bulk, sdk.join(demonstrator)]
    })
}

fn made(command: &mut Command) {
    let status = spawn(command).unwrap().wait().unwrap();
    assert!(status.success(), "{command:?}");
}
