//! The part of the table of keys that says how files are kept in the cache: those of a site or of a route, and how changes of
//! them are noticed.

use super::{ANY, Fallback, Key, Kind};
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

pub(super) const WATCH: Key = Key {
    name: "watch",
    kind: Kind::Flag,
    default: Value("true"),
    text: "Whether the folders of files in the cache are watched (inotify), where the file system is a local one: a file in a \
           folder in which nothing happens is looked at as seldom as `revalidate_watched` says.",
    example: "false",
};

pub(super) const REVALIDATE_WATCHED: Key = Key {
    name: "revalidate_watched",
    kind: Kind::Duration(ANY),
    default: Value("\"5s\""),
    text: "How long a file is believed to be unchanged as long as nothing happens in its folder. Changes of which a watch does \
           not learn are seen after so long: by memory mapped for writing, by another name of the same file.",
    example: "\"1m\"",
};
