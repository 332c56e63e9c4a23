//! Descriptors and objects of processes that are not trusted: sockets that bring them, and threads that wait for them.
//!
//! A process can send descriptors along with its bytes over an AF_UNIX socket (SCM_RIGHTS, unix(7)). Whoever closes the last one of an object may wait
//! for as long as the sender wishes: a TCP socket with SO_LINGER, a file of a file system in user space. A receiver that uses read(2), or that closes a
//! socket with unread bytes, closes such descriptors without having seen them.

pub(crate) mod answer;
pub mod deadline;
pub(crate) mod elsewhere;
pub(crate) mod files;
pub(crate) mod owners;
pub(crate) mod received;
pub(crate) mod refuse;
pub(crate) mod user_threads;
