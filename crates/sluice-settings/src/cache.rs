//! The settings of the file cache: its limits, and which files it keeps.

use std::time::Duration;

/// The limits of the file cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Memory for content, bytes. Beyond it, the least requested entries are evicted.
    pub bytes_max: u64,
    /// Number of files. Beyond it, entries are evicted as for `bytes_max`.
    pub entries_max: usize,
    /// Largest cached file, bytes. Larger files are read for every request.
    pub file_bytes_max: u64,
    /// How long an entry is fresh before its file is checked again, and so how long a change may stay unnoticed.
    pub revalidate_after: Duration,
    /// Time a minute, of all threads together, for compressing variants. Beyond it, files are sent uncompressed.
    pub compression_time_per_minute: Duration,
}

impl Default for CacheSettings {
    fn default() -> Self {
        CacheSettings {
            bytes_max: 256 << 20,
            entries_max: 20_000,
            file_bytes_max: 8 << 20,
            revalidate_after: Duration::from_millis(100),
            compression_time_per_minute: Duration::from_secs(10),
        }
    }
}

/// Whether files are kept in the file cache, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Within the limits of the cache, and checked again after a while.
    #[default]
    On,
    /// Not at all.
    Off,
    /// Within the limits of the cache, and not checked again before the cache is purged.
    Permanent,
}
