//! Masking of secrets: their values in heads, queries, bodies, and in the bytes of a connection.
//!
//! Whether something is a secret follows from its name ([`Masks`]). The sentinels of a script are masked where they are known.

mod body;
mod fields;
mod json;
mod masks;
mod message;
mod pairs;
mod parts;
mod xml;

pub use body::BodyMask;
pub use masks::{Masks, hidden};
pub use message::HeadMask;
