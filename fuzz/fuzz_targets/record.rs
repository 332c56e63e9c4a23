//! Fuzz target: the request record of CGIplus. The checks are in `sluice_fuzz::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::record::check(bytes));
