//! The page of the file cache. Its entries are listed by a thread, because there may be many.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use sluice_files::cache::{CacheEntry, FileCache as Files};
use sluice_report::cache::{Entry, FileCache};

use crate::dispatch::Config;
use crate::operator::reports::page::{Collected, Wanted, later};

const ENTRIES_MAX: usize = 50;

pub(super) fn collect(wanted: &Wanted) -> Collected {
    let config = wanted.context.config().shared();
    later(move || cache(&config))
}

fn cache(config: &Arc<Config>) -> FileCache {
    let counters = config.cache.as_deref().map(Files::counters).unwrap_or_default();
    let mut entries = config.cache.as_deref().map(Files::entries).unwrap_or_default();
    let directories: HashMap<_, _> = config
        .sites()
        .flat_map(|site| site.directories())
        .map(|directory| (directory.id(), directory.path().to_owned()))
        .collect();
    let shown = |entry: &CacheEntry| Entry {
        path: match directories.get(&entry.directory) {
            Some(directory) => directory.join(&entry.name).display().to_string(),
            // The directory of files that scripts name, or of a configuration that was replaced.
            None => entry.name.clone(),
        },
        coding: entry.coding,
        bytes: entry.bytes,
        hits: entry.hits,
        checked_seconds_ago: entry.checked_seconds_ago,
    };
    entries.sort_unstable_by_key(|entry| Reverse(entry.bytes));
    let largest = entries.iter().take(ENTRIES_MAX).map(shown).collect();
    entries.sort_unstable_by_key(|entry| Reverse(entry.hits));
    let used = entries.iter().filter(|entry| entry.hits > 0);
    FileCache {
        is_on: config.cache.is_some(),
        hits: counters.hits,
        unchanged: counters.unchanged,
        misses: counters.misses,
        changed: counters.changed,
        too_large: counters.too_large,
        just_changed: counters.just_changed,
        evicted: counters.evicted,
        files: counters.files,
        bytes: counters.bytes,
        largest,
        most_used: used.take(ENTRIES_MAX).map(shown).collect(),
    }
}
