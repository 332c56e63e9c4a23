//! Finds the versions of the compiler and of some libraries, for the page of the environment (`reports::environment`).

use std::process::Command;

/// Libraries, and the variables for their versions.
const LIBRARIES: [(&str, &str); 4] = [
    ("rustls", "SLUICE_RUSTLS"),
    ("aws-lc-rs", "SLUICE_AWS_LC_RS"),
    ("hyper", "SLUICE_HYPER"),
    ("tokio", "SLUICE_TOKIO"),
];

/// The versions that are locked, from this crate.
const LOCK: &str = "../../Cargo.lock";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={LOCK}");
    let lock = std::fs::read_to_string(LOCK).unwrap_or_default();
    for (library, variable) in LIBRARIES {
        println!("cargo:rustc-env={variable}={}", version(&lock, library));
    }
    let compiler = std::env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    let compiler = compiler.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!(
        "cargo:rustc-env=SLUICE_RUSTC={}",
        compiler.unwrap_or_else(|| "an unknown compiler".to_owned())
    );
}

/// The version of a package in a lock file.
fn version<'a>(lock: &'a str, package: &str) -> &'a str {
    let name = format!("name = \"{package}\"\nversion = \"");
    let after = lock.split_once(&name).map(|(_, after)| after);
    after.and_then(|after| after.split('"').next()).unwrap_or("unknown")
}
