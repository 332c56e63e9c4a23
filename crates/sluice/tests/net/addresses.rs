//! Listening addresses and the identity of clients: IPv6, unix sockets, trusted proxies, the PROXY protocol and
//! reverse DNS.

mod ipv6;
mod names;
mod proxies;
mod proxy_protocol;
mod unix;

use sluice_testing::{Setup, run};

#[test]
fn an_address_in_use_is_reported_with_advice() {
    let server = Setup::new().file("a.txt", "hello").start();
    let address = server.address().to_string();
    let ran = run(server.setup().directory(), &["serve", "htdocs", "--listen", &address]);
    let expected = format!(
        "sluice: listen on {address}: Address already in use (os error 98); another program listens there (ss -ltnp shows it): end it, or \
         choose another port"
    );
    assert!(ran.errors.contains(&expected), "{}", ran.errors);
    assert_eq!(ran.status.code(), Some(1));
}
