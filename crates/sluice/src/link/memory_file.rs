//! Bytes that pass to another process in a memory file (memfd_create(2)), because a message has no room for so many.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Makes a file with these bytes, which nobody can change.
pub(crate) fn seal(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(name, flags)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// The bytes of such a file.
pub(crate) fn read(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(file.try_clone()?);
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    // Processes share the position of the file, so it is not used.
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
