//! The values of a route: which requests it is for, and what it changes.
//!
//! | | |
//! |---|---|
//! | [`Pattern`] | which paths a route is for: with stars, or a regular expression |
//! | [`Conditions`] | the conditions besides the path: method, host, client, scheme, certificate, fields, parameters of the query |
//! | [`Replacement`] | the target of a redirect or rewrite, with places for captures |
//! | [`AccessSettings`] | who may have an answer |
//! | [`Adjustments`] | the changes of a route: header fields, expiry, limits, whether the exchange is logged |
//!
//! Each is parsed by a function whose error says what is wrong and what to write instead, so a value is always valid.

mod access;
mod change;
mod condition;
mod glob;
mod head_change;
mod names;
mod network;
mod pattern;
mod replacement;
mod throttle;

pub use access::{
    Access, AccessEntry, AccessRule, AccessSettings, AccessUse, AgentProgram, AgentSettings, Networks, OwnAgent,
    OwnAgentKind, Require, UserSource, is_read, split_name,
};
pub use change::{Adjustments, BodyBounds, CertificateUse};
pub use condition::{ClientCertificate, Conditions, Miss, RequestAttributes, Scheme, check_bracketed};
pub use head_change::{Expiry, FieldChange, HeadChanges};
pub use pattern::{Pattern, Wildcard, covers};
pub use replacement::Replacement;
pub use throttle::{LimitUse, RateSettings, ThrottlePer, ThrottleSettings};
