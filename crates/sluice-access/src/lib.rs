//! Access control: users, passwords, and who may have what. Floor 4, safe Rust.
//!
//! ```text
//! credentials   a name and a password of a request          rules      whether a client satisfies a rule: pure
//! users, hash   what a users file says, and the hashes      control    verified passwords, wrong ones, what a thread must hash
//! store         the files, read again when they change      verifier   the threads that hash; failures: the counters of wrong passwords
//! waiting       the requests that wait for a password
//! throttle      requests at once, and a queue               rate       requests of a client in a time
//! ```
#![forbid(unsafe_code)]

mod apr1;
pub mod control;
pub mod credentials;
pub mod failures;
mod fair_queue;
pub mod hash;
pub mod rate;
pub mod rules;
pub mod store;
pub mod throttle;
pub mod users;
mod verifier;
mod waiting;

pub use verifier::QueueFull;
