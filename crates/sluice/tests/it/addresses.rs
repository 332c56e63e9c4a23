//! Where the server listens, and who its clients are: unix sockets, proxies whose word is taken.

mod ipv6;
mod names;
mod proxies;
mod proxy_protocol;
mod unix;
