//! Fuzz target: the field Accept-Encoding. The checks are in `sluice_fuzz::accept_encoding`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::accept_encoding::check(bytes));
