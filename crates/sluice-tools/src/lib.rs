//! Tools beside the server: a client that measures (`sluice workout`), a rating of the machine (`sluice rate`), the passwords of a users file
//! (`sluice passwd`), the commands to a running server (`control`), and a terminal monitor (`sluice top`). Floor 5, safe Rust.
//!
//! Each has its options, which the command line includes, and a function that runs it. Nothing here knows the server: `rate` is given one by the program.
#![forbid(unsafe_code)]

pub mod control;
pub mod passwd;
pub mod rate;
pub mod top;
pub mod workout;
