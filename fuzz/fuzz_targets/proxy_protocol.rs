//! Fuzz target: the header of the PROXY protocol. The checks are in `sluice_fuzz::proxy_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sluice_fuzz::proxy_protocol::check(bytes));
