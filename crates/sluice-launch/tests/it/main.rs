//! Real processes, started through the public interface.
//!
//! What a program inherits (`inheritance`), what it may use and reach (`confinement`), its channels (`channels`), starts that fail (`failures`), how processes end
//! (`exits`), and tests that inspect the whole process and so need one of their own (`isolated`).

// Raw calls create descriptors without close-on-exec, or with a certain number.
#![allow(unsafe_code)]
// The helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod channels;
mod confinement;
mod exits;
mod failures;
mod harness;
mod held;
mod inheritance;
mod isolated;
