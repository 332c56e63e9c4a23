//! Fuzz target: the field Authorization. The checks are in `sluice_fuzz::credentials`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::credentials::check(bytes));
