//! Fuzz target: the masks of WATCH for the bytes of a connection. The checks are in `sluice_fuzz::message_mask`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::message_mask::check(bytes));
