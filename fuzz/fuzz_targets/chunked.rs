//! Fuzz target: the chunks of a reply that has framed its body. The checks are in `sluice_fuzz::chunked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::chunked::check(bytes));
