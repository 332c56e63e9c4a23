//! Whether root can make and change files in a directory without being led elsewhere by a link that another user puts there, or in a directory above.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The changes that other users may make in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// None: all files there belong to root.
    Nothing,
    /// Add names, and remove their own (the sticky bit): what root creates there stays.
    AddNames,
}

/// The path of a directory without links, if it and all directories above it belong to root, and others may do in it no more than this. Those
/// above it may be sticky, because what leads on belongs to root. `None` also if there is no such directory.
#[must_use]
pub fn directory_of_root(path: &Path, others: Others) -> Option<PathBuf> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let path = path.canonicalize().ok()?;
    let is_roots = |directory: &Path| {
        let may_be_sticky = others == Others::AddNames || directory != path;
        let is_closed = |mode: u32| mode & WRITABLE_BY_OTHERS == 0 || mode & STICKY != 0 && may_be_sticky;
        let about = directory.symlink_metadata();
        about.is_ok_and(|about| about.uid() == 0 && is_closed(about.mode()))
    };
    path.ancestors().all(is_roots).then_some(path)
}
