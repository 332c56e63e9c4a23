//! The committed corpora, through the checks of their targets: what was found once stays fixed. Needs no fuzzing engine.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use sluice_fuzz::TARGETS;

/// Inputs of one target, and bytes of one input: the corpora are examples, and stay small enough to be read.
const INPUTS_MAX: usize = 24;
const INPUT_BYTES_MAX: u64 = 4096;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The entries of a directory, sorted.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn stems(paths: &[PathBuf]) -> BTreeSet<String> {
    let stems = paths.iter().filter_map(|path| path.file_stem());
    stems.map(|stem| stem.to_string_lossy().into_owned()).collect()
}

#[test]
fn every_committed_input_passes_the_check_of_its_target() {
    let mut failed = Vec::new();
    for (name, check) in TARGETS {
        let inputs = entries(&root().join("corpus").join(name));
        for path in inputs {
            let bytes = fs::read(&path).expect("an input");
            if catch_unwind(AssertUnwindSafe(|| check(&bytes))).is_err() {
                failed.push(path);
            }
        }
    }
    assert!(
        failed.is_empty(),
        "these inputs fail, for the reasons above: {failed:#?}"
    );
}

#[test]
fn every_target_has_a_program_and_a_small_corpus() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems(&entries(&root().join("fuzz_targets"))), names);
    assert_eq!(stems(&entries(&root().join("corpus"))), names);
    for name in names {
        let inputs = entries(&root().join("corpus").join(&name));
        assert!(
            (1..=INPUTS_MAX).contains(&inputs.len()),
            "{name} has {} inputs",
            inputs.len()
        );
        for path in inputs {
            let bytes = fs::metadata(&path).expect("an input").len();
            assert!(bytes <= INPUT_BYTES_MAX, "{} has {bytes} bytes", path.display());
        }
    }
}

#[test]
fn every_check_takes_any_bytes() {
    let mut state: u64 = 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
        for (_, check) in TARGETS {
            check(&bytes);
        }
    }
}
