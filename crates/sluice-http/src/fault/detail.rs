//! What the kinds of a fault hold of the types of other crates.

use std::fmt::{Debug, Display};

/// What another crate knows about a fault: its own type, which can be displayed.
pub trait Detail: Debug + Display + Send + Sync {}

impl<T: Debug + Display + Send + Sync> Detail for T {}
