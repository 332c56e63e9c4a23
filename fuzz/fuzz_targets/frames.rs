//! Fuzz target: the frames of HTTP/2 as WATCH shows them. The checks are in `sluice_fuzz::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::frames::check(bytes));
