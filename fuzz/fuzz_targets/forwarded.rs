//! Fuzz target: the fields Forwarded and X-Forwarded-For. The checks are in `sluice_fuzz::forwarded`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::forwarded::check(bytes));
