//! Fuzz target: users files and group files. The checks are in `sluice_fuzz::users_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::users_file::check(bytes));
