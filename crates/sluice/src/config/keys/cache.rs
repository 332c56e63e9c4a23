//! The part of the table of keys that says how files are kept in the cache: those of a site or of a route.

use super::{Fallback, Key, Kind};
use Fallback::{Said, Value};

/// `on`, `off`, `permanent`.
const KIND: Kind = Kind::Choice(&["on", "off", "permanent"]);

pub(super) const CACHE_OF_SITE: Key = Key {
    name: "cache",
    kind: KIND,
    default: Value("\"on\""),
    text: "Whether files are kept in the [file cache](../guides/files.md#the-cache): `on`, looked at again as `[cache]` says; `off`, \
           read anew for every request; `permanent`, never looked at again before the cache is purged (SIGUSR2), for files that \
           never change.",
    example: "\"off\"",
};

pub(super) const CACHE_OF_ROUTE: Key = Key {
    name: "cache",
    kind: KIND,
    default: Said("as the site says"),
    text: "Whether the route's files are kept in the cache: `on`, `off` or `permanent`.",
    example: "\"permanent\"",
};
