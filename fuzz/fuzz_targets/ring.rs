//! Fuzz target: the ring counters of a memory buffer. The checks are in `sluice_fuzz::ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::ring::check(bytes));
