//! The file cache: how often it has the answer, and the files in it.

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct FileCache {
    pub is_on: bool,
    /// Requests answered from memory without checking the file.
    pub hits: u64,
    /// Requests answered from memory after the file was found unchanged.
    pub unchanged: u64,
    /// Requests for names that were not in memory.
    pub misses: u64,
    /// Files that had changed or were gone.
    pub changed: u64,
    /// Requests for files that are too large to keep.
    pub too_large: u64,
    /// Requests for files that had just changed.
    pub just_changed: u64,
    pub evicted: u64,
    pub files: u64,
    pub bytes: u64,
    pub largest: Vec<Entry>,
    pub most_used: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub path: String,
    /// The content coding, if the entry is a compressed variant.
    pub coding: Option<&'static str>,
    pub bytes: u64,
    /// About how often it was sent without checking the file; a multiple of 17.
    pub hits: u64,
    /// Seconds since it was last compared with the file.
    pub checked_seconds_ago: u64,
}
