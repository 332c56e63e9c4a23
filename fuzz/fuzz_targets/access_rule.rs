//! Fuzz target: the entries of access rules. The checks are in `sluice_fuzz::access_rule`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::access_rule::check(bytes));
