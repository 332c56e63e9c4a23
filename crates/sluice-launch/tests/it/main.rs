//! Real processes, started through the public interface.
//!
//! What a program finds (`inheritance`), its channels (`channels`), starts that fail (`failures`), how processes end
//! (`ends`), and what needs a process of its own to be told apart from the other tests (`alone`).

// Descriptors that are left without close-on-exec, or put in a certain place, are made by raw calls.
#![allow(unsafe_code)]
// A test's own helpers are tests too.
#![allow(clippy::unwrap_used)]

mod alone;
mod channels;
mod ends;
mod failures;
mod inheritance;
mod scene;
