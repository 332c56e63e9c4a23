//! Fuzz target: the host of a request. The checks are in `sluice_fuzz::host`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::host::check(bytes));
