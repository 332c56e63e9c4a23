//! Fuzz target: the request target. The checks are in `sluice_fuzz::target`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::target::check(bytes));
