//! Fuzz target: the log format strings. The checks are in `sluice_fuzz::log_format`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::log_format::check(bytes));
