//! The first stage: sockets, the protocol on them, and the path of one exchange through all other stages (`serve`).

pub(crate) mod client;
pub(crate) mod explain;
mod files;
pub(crate) mod forwarded;
pub(crate) mod front;
pub(crate) mod gather;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod listener;
pub(crate) mod places;
pub(crate) mod protocol;
pub(crate) mod proxy_protocol;
mod pulse;
pub(crate) mod security;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod transport;
pub(crate) mod unix;
