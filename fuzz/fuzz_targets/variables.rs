//! Fuzz target: the variables of a script's request. The checks are in `sluice_fuzz::variables`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::variables::check(bytes));
