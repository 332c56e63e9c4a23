//! Fuzz target: the mailbox scanner. The checks are in `sluice_fuzz::scanner`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::scanner::check(bytes));
