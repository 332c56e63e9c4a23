//! Fuzz target: the lines of authentication agents. The checks are in `sluice_fuzz::agent_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::agent_answer::check(bytes));
