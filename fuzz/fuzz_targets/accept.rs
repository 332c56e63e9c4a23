//! Fuzz target: the field Accept. The checks are in `sluice_fuzz::accept`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::accept::check(bytes));
