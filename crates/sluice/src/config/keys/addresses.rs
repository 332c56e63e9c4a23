//! The keys about who the clients are.

use super::Fallback::{Said, Value};
use super::{Bounds, Key, Kind};

pub(super) const TRUSTED_PROXIES: Key = Key {
    name: "trusted_proxies",
    kind: Kind::Texts,
    default: Said("none"),
    text: "Proxies before this server whose word about their clients is taken: addresses, networks, and `unix:` for all who come \
           by a unix socket. Logs, scripts and rules then know the client, and no more the proxy. \
           [Addresses](../guides/addresses.md#behind-a-proxy) tells more.",
    example: "[\"10.0.0.0/8\", \"::1\", \"unix:\"]",
};

pub(super) const FORWARDED: Key = Key {
    name: "forwarded",
    kind: Kind::Choice(&["x-forwarded-for", "forwarded"]),
    default: Value("\"x-forwarded-for\""),
    text: "The field in which trusted proxies tell of their clients: `X-Forwarded-For` (with `X-Forwarded-Proto`), or `Forwarded`. \
           It must be one that the proxy writes itself; the other is not looked at.",
    example: "\"forwarded\"",
};

pub(super) const PROXY_PROTOCOL: Key = Key {
    name: "proxy_protocol",
    kind: Kind::Texts,
    default: Said("it is not spoken"),
    text: "Proxies that begin each connection with a header of the PROXY protocol, version 1 or 2, which names its client: addresses, \
           networks, `unix:`. Their connections without it are closed, and so are those of everybody else.",
    example: "[\"10.0.0.0/8\"]",
};

pub(super) const DNS_LOOKUP: Key = Key {
    name: "dns_lookup",
    kind: Kind::Flag,
    default: Value("false"),
    text: "Looks up the names of clients, for `REMOTE_HOST` and for `%h` in logs. Nothing waits for them but scripts, a little. \
           [Addresses](../guides/addresses.md#names-of-clients) tells more. As the two keys below, read when the server starts.",
    example: "true",
};

pub(super) const DNS_TIMEOUT: Key = Key {
    name: "dns_timeout",
    kind: Kind::Duration(Bounds {
        least: 0,
        most: 5000,
        mend: "a lookup is given up after that",
    }),
    default: Value("\"500ms\""),
    text: "How long a script may wait for the name of its client, from the first request of the client on. After it the script gets \
           the address.",
    example: "\"100ms\"",
};

pub(super) const DNS_SERVER: Key = Key {
    name: "dns_server",
    kind: Kind::Text,
    default: Said("those of `/etc/resolv.conf`"),
    text: "The name server that is asked: address, or address and port.",
    example: "\"192.0.2.53\"",
};
