//! The link between supervisor and server process, as both see it: the channel, and what is said over it.

pub(crate) mod channel;
pub(crate) mod memory_file;
pub(crate) mod message;
