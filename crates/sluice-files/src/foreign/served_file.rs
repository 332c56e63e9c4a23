//! A file open to be served. If another process or machine serves it, it is read and closed on threads that may be lost: close(2) waits, too (FUSE_FLUSH).

use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;

use sluice_launch::close_file_elsewhere;

use crate::body::{WHOLE_BYTES_MAX, read_part};
use crate::foreign::file_system::{Share, learn};
use crate::foreign::own_share;

/// An open file.
#[derive(Debug)]
pub struct ServedFile {
    /// `None` while it is dropped.
    file: Option<File>,
    foreign: Option<Box<Foreign>>,
}

/// Knowledge of a file in a file system that another process or machine serves.
#[derive(Clone, Debug)]
struct Foreign {
    share: Share,
    /// All of a small file, read when it was opened.
    content: Option<Vec<u8>>,
}

impl ServedFile {
    /// A file in a local file system.
    pub(crate) fn local(file: File) -> ServedFile {
        ServedFile { file: Some(file), foreign: None }
    }

    /// A file whose file system is asked what it is, by a thread that may be lost.
    pub(crate) fn anywhere(file: File) -> ServedFile {
        if learn(&file) {
            return ServedFile::local(file);
        }
        ServedFile {
            file: Some(file),
            foreign: Some(Box::new(Foreign { share: own_share(), content: None })),
        }
    }

    /// Reads a small file of another process or machine now, so that nobody has to wait for it later.
    pub(crate) fn read_ahead(&mut self, metadata: &Metadata) {
        if let (Some(foreign), Some(file)) = (&mut self.foreign, &self.file)
            && metadata.is_file()
            && metadata.len() <= WHOLE_BYTES_MAX
            && let Ok(content) = read_part(file, 0, metadata.len())
            && let Ok(now) = file.metadata()
            && (now.len(), now.mtime(), now.mtime_nsec()) == (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
        {
            foreign.content = Some(content.into());
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<ServedFile> {
        Ok(ServedFile {
            file: Some((**self).try_clone()?),
            foreign: self.foreign.clone(),
        })
    }

    /// The share of the threads that read it, if another process or machine serves it.
    pub(crate) fn share(&self) -> Option<Share> {
        self.foreign.as_ref().map(|foreign| foreign.share)
    }

    /// The content of a small file that another process or machine serves, if it was read when it was opened.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        self.foreign.as_ref()?.content.as_deref()
    }

    /// Whether reading it may wait for another process or machine.
    pub(crate) fn may_wait(&self) -> bool {
        self.foreign.is_some() && self.content().is_none()
    }
}

impl Deref for ServedFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("it is only taken when it is dropped")
    }
}

impl Drop for ServedFile {
    fn drop(&mut self) {
        if let (Some(foreign), Some(file)) = (&self.foreign, self.file.take()) {
            close_file_elsewhere(foreign.share.number(), file.into());
        }
    }
}
