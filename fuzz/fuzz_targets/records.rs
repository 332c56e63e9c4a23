//! Fuzz target: the record formats of VMS. The checks are in `sluice_fuzz::records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::records::check(bytes));
