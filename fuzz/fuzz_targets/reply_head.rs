//! Fuzz target: the head of a script's reply. The checks are in `sluice_fuzz::reply_head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::reply_head::check(bytes));
