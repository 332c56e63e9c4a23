//! Scripts that need more than a shell: Python scripts with a small kit, and compiled ones that use the C library.
//!
//! The kit (`programs/kit.py`) speaks CGIPLUSIN, sentinels and callouts byte by byte, so that a test controls every
//! byte. `bulk` (`programs/bulk.c`) and the demonstrator `membufdemo` write to memory buffers through the C library;
//! `quote` (`programs/quote.c`) prints the text of a client; `lines` and `twice` are in the style of OpenVMS.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::program::{binary, spawn, write_script};
use crate::setup::Setup;

/// The kit that these scripts import.
pub const KIT: &str = include_str!("../programs/kit.py");

impl Setup {
    /// Adds a Python script to cgi-bin, and the kit beside it.
    pub fn python(self, name: &str, text: &str) -> Setup {
        write_script(&self.path("htdocs/cgi-bin").join(name), &python(text));
        self.file("cgi-bin/kit.py", KIT)
    }

    /// Adds the programs that use the C library: `bulk`, `quote`, `lines`, `twice`, and those of the demo.
    pub fn c_programs(mut self) -> Setup {
        self.both_routes += "follow_links = true\n";
        for program in c_programs() {
            let name = program.file_name().unwrap();
            symlink(program, self.path("htdocs/cgi-bin").join(name)).unwrap();
        }
        self
    }
}

/// The text of a Python script that imports the kit.
pub fn python(text: &str) -> String {
    format!("#!/usr/bin/env -S python3 -SE\nfrom kit import *\n{text}\n")
}

/// Built once by each test binary that needs them.
fn c_programs() -> &'static [PathBuf] {
    static BUILT: OnceLock<Vec<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sdk = here.ancestors().nth(2).unwrap().join("sdk/c");
        let library = "build/libsluice.a";
        let demo = ["build/membufdemo", "build/cgipluscallout", "build/printenv"];
        run_to_success(
            Command::new("make")
                .arg("--silent")
                .current_dir(&sdk)
                .arg(library)
                .args(demo),
        );
        let strict: &[&str] = &[
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "-I",
            "include",
        ];
        // As the README of sdk/c says.
        let wasd: &[&str] = &["-std=gnu89", "-I", "wasd", "-I", "include"];
        let compiled = [
            ("bulk", strict),
            ("large", strict),
            ("quote", strict),
            ("lines", wasd),
            ("twice", wasd),
        ];
        let compiled = compiled.map(|(name, options)| compile(name, options, &sdk, library));
        compiled.into_iter().chain(demo.map(|name| sdk.join(name))).collect()
    })
}

/// Compiles a program of `programs/` with the C library, in its directory.
fn compile(name: &str, options: &[&str], sdk: &Path, library: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = binary().with_file_name("test-programs");
    std::fs::create_dir_all(&directory).unwrap();
    // Compile to a new file and rename it, because another test run may be executing the existing one.
    let (program, new) = (
        directory.join(name),
        directory.join(format!("{name}-{}", std::process::id())),
    );
    run_to_success(
        Command::new("cc")
            .current_dir(sdk)
            .args(options)
            .args([Path::new("-o"), &new])
            .args([&here.join(format!("programs/{name}.c")), &sdk.join(library)]),
    );
    std::fs::rename(new, &program).unwrap();
    program
}

fn run_to_success(command: &mut Command) {
    let status = spawn(command).unwrap().wait().unwrap();
    assert!(status.success(), "{command:?}");
}
