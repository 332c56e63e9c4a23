//! `[cache]`: the file cache. What a site or a route says about it is with their keys (`site`, `route`).

use sluice_settings::CacheSettings;

use super::key::{ANY, Key, Section, at_least};
use super::section::to_usize;

pub(super) static CACHE: Section<CacheSettings> = Section {
    title: "[cache]",
    keys: &[
        Key::size("size", ANY, |cache, size| cache.bytes_max = size),
        Key::number(
            "files",
            "files",
            at_least(1, "size = 0 switches the cache off"),
            |cache, files| cache.entries_max = to_usize(files),
        ),
        Key::size("file_size", ANY, |cache, size| cache.file_bytes_max = size),
        Key::duration("revalidate", ANY, |cache, after| cache.revalidate_after = after),
        Key::duration(
            "compression_time",
            at_least(1, "files = \"stored\" in [compression] compresses nothing"),
            |cache, time| cache.compression_time_per_minute = time,
        ),
    ],
};
