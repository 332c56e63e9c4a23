//! Fuzz target: the conditional fields. The checks are in `sluice_fuzz::conditions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::conditions::check(bytes));
