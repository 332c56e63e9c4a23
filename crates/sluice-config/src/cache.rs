//! `[cache]`: the file cache. What a site or a route says about it is with their keys (`site`, `route`).

use sluice_settings::CacheSettings;

use super::description::Fallback::Value;
use super::key::{ANY, Key, Kind, Section, at_least};
use super::section::to_usize;

pub(super) static CACHE: Section<CacheSettings> = Section {
    title: "[cache]",
    text: "Files kept in memory, for all sites and workers together. The files that are requested least make room for others.",
    keys: &[
        Key {
            name: "size",
            kind: Kind::Size(ANY, |cache, size| cache.bytes_max = size),
            default: Value("\"256MiB\""),
            text: "Memory for the content of files, allocated as files are requested. 0 switches the cache off: then every request \
                   reads its file from disk.",
            example: "\"1GiB\"",
        },
        Key {
            name: "files",
            kind: Kind::Number {
                unit: "files",
                bounds: at_least(1, "size = 0 switches the cache off"),
                set: |cache, files| cache.entries_max = to_usize(files),
            },
            default: Value("20000"),
            text: "Greatest number of files in the cache.",
            example: "100000",
        },
        Key {
            name: "file_size",
            kind: Kind::Size(ANY, |cache, size| cache.file_bytes_max = size),
            default: Value("\"8MiB\""),
            text: "Largest file that is cached.",
            example: "\"1MiB\"",
        },
        Key {
            name: "revalidate",
            kind: Kind::Duration(ANY, |cache, after| cache.revalidate_after = after),
            default: Value("\"100ms\""),
            text: "How long a cached file is served without checking whether it has changed. Then it is checked, and read again if \
                   it has changed. `0s` checks for every request.",
            example: "\"10s\"",
        },
        Key {
            name: "compression_time",
            kind: Kind::Duration(
                at_least(1, "files = \"stored\" in [compression] compresses nothing"),
                |cache, time| cache.compression_time_per_minute = time,
            ),
            default: Value("\"10s\""),
            text: "Time in each minute for compressing files, of all threads together; time that is not used is saved for up to ten minutes. \
                   When it is used up, files are sent uncompressed, and the log says so: variants that do not fit the cache would otherwise \
                   be compressed at every request. The default is a sixth of one processor.",
            example: "\"1m\"",
        },
    ],
};
