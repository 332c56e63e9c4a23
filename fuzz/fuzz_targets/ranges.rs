//! Fuzz target: the field Range. The checks are in `sluice_fuzz::ranges`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::ranges::check(bytes));
