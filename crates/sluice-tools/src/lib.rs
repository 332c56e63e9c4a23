//! Tools beside the server: a client that measures (`sluice workout`), a rating of the machine (`sluice rate`), and the passwords of a users file
//! (`sluice passwd`). Floor 5, safe Rust.
//!
//! Each has its options, which the command line includes, and a function that runs it. Nothing here knows the server: `rate` is given one
//! by the program. Not here: commands to a running server (the program's `control`, `top`).
#![forbid(unsafe_code)]

pub mod passwd;
pub mod rate;
pub mod workout;
