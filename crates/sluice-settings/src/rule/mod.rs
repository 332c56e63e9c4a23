//! What a rule of a site says, as values that were read once: which requests it is for, and what it does to them.
//!
//! | | |
//! |---|---|
//! | [`Pattern`] | which paths a rule is for: with stars, or a regular expression |
//! | [`Conditions`] | what must hold beside the path: method, host, client, scheme, fields, parameters of the query |
//! | [`Replacement`] | the text that a redirect or a rewriting makes of what a pattern has captured |
//! | [`Changes`] | what a rule changes for whatever answers: fields of the head, its expiry, bounds, the log |
//!
//! Each is made from text, by a function that says what is wrong with the text and what to write instead; so whoever holds
//! one holds a good one. Not here: the order of rules and the way of a request through them (`dispatch::walk`).

mod change;
mod condition;
mod glob;
mod network;
mod pattern;
mod replacement;

pub use change::{Adjustments, HeadChanges};
pub use change::{BodyBounds, Changes, Expiry, FieldChange};
pub use condition::{Conditions, Scheme, check_bracketed};
pub use condition::{Miss, RequestAttributes};
pub use pattern::{Pattern, Wildcard, covers};
pub use replacement::Replacement;
