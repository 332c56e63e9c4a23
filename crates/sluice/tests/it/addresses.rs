//! Listening addresses and the identity of clients: IPv6, unix sockets, trusted proxies, the PROXY protocol and
//! reverse DNS.

mod ipv6;
#[cfg(feature = "reverse-dns")]
mod names;
mod proxies;
mod proxy_protocol;
mod unix;
