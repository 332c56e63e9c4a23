//! The stamp of a file, which shows whether it is still the same.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file's identity, modification time and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

impl Stamp {
    /// A stamp that stands for no file.
    pub const NONE: Stamp = Stamp { device: 0, inode: 0, modified: (0, 0), bytes: 0 };

    /// The stamp of a file.
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        }
    }
}
