//! Fuzz target: the callouts of a script. The checks are in `sluice_fuzz::callout`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::callout::check(bytes));
