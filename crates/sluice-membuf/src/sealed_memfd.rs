//! Immutable content in a memfd that is filled once and sealed, from which the kernel can send without a copy (sendfile(2)).
//!
//! No other process ever gets this descriptor. The seals forbid every write, so content that is being sent cannot change, even if the kernel still uses the pages
//! after the memory was released here.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{SealFlags, fcntl_add_seals, sendfile};
use rustix::io::retry_on_intr;

use crate::mapping::DataView;
use crate::mem_file::{create_memfd, file_bytes_max};

/// Immutable content of at least one byte, in a sealed memfd.
#[derive(Debug)]
pub struct SealedMemfd {
    file: OwnedFd,
    view: DataView,
}

impl SealedMemfd {
    /// A copy of the first `bytes` bytes of a file, made by the kernel (sendfile(2)). The file's position does not change.
    ///
    /// # Errors
    /// `UnexpectedEof`: the file is shorter. `InvalidInput`: `bytes` is 0, or more than RLIMIT_FSIZE permits a file. Otherwise what the system says: no
    /// descriptors left, no memory, or sendfile(2) cannot read the file.
    pub fn read(source: impl AsFd, bytes: u64) -> io::Result<SealedMemfd> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        SealedMemfd::fill(length, |file| copy(source.as_fd(), file.as_fd(), length))
    }

    /// A copy of these bytes.
    ///
    /// # Errors
    /// As [`SealedMemfd::read`], except those about the file.
    pub fn copy_of(content: &[u8]) -> io::Result<SealedMemfd> {
        SealedMemfd::fill(content.len(), |mut file| file.write_all(content))
    }

    fn fill(length: usize, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<SealedMemfd> {
        // The kernel would signal SIGXFSZ.
        if length == 0 || length as u64 > file_bytes_max() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = File::from(create_memfd(c"sluice-content")?);
        fill(&file)?;
        fcntl_add_seals(
            &file,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
        )?;
        // Mapped after sealing, so the mapping neither shrinks nor changes.
        let view = DataView::map_private(file.as_fd(), length)?;
        Ok(SealedMemfd { file: file.into(), view })
    }

    /// The offset of `part` in the content; `None` if it is not a slice of this memory. Decided by its address.
    #[must_use]
    pub fn offset_of(&self, part: &[u8]) -> Option<u64> {
        let offset = part.as_ptr().addr().checked_sub(self.as_ptr().addr())?;
        let is_within = offset <= self.len() && part.len() <= self.len() - offset;
        is_within.then_some(offset as u64)
    }
}

fn copy(source: BorrowedFd<'_>, target: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let (mut offset, mut left) = (0, bytes);
    while left > 0 {
        match retry_on_intr(|| sendfile(target, source, Some(&mut offset), left))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            copied => left = left.saturating_sub(copied),
        }
    }
    Ok(())
}

impl Deref for SealedMemfd {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.view.slice(0, self.view.bytes())
    }
}

impl AsRef<[u8]> for SealedMemfd {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The memfd, for sending from it by offset (sendfile(2)); not for reading or writing.
impl AsFd for SealedMemfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = File::from(create_memfd(c"test").unwrap());
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn content_is_read_from_the_start_and_never_changes() {
        let mut source = file(b"0123456789");
        let sealed = SealedMemfd::read(&source, 8).unwrap();
        assert_eq!(&sealed[..], b"01234567");
        source.rewind().unwrap();
        source.write_all(b"XXXXXXXXXX").unwrap();
        assert_eq!(&sealed[..], b"01234567");
        let mut memory = File::from(sealed.as_fd().try_clone_to_owned().unwrap());
        memory.rewind().unwrap();
        assert!(memory.write(b"x").is_err());
        assert!(memory.set_len(1).is_err());
    }

    #[test]
    fn copied_bytes_are_sealed_too() {
        let sealed = SealedMemfd::copy_of(b"0123456789").unwrap();
        assert_eq!(&sealed[..], b"0123456789");
        let mut memory = File::from(sealed.as_fd().try_clone_to_owned().unwrap());
        assert!(memory.write(b"x").is_err());
        assert!(memory.set_len(1).is_err());
        let error = SealedMemfd::copy_of(b"").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_file_that_is_too_short_or_empty_is_an_error() {
        let kind = |bytes| SealedMemfd::read(file(b"abc"), bytes).unwrap_err().kind();
        assert_eq!(kind(4), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(0), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn parts_are_identified_by_their_address() {
        let [sealed, other] = [0, 1].map(|_| SealedMemfd::read(file(b"abcdef"), 6).unwrap());
        assert_eq!(sealed.offset_of(&sealed[2..4]), Some(2));
        assert_eq!(sealed.offset_of(&sealed[6..]), Some(6));
        assert_eq!(sealed.offset_of(b"cd"), None);
        assert_eq!(sealed.offset_of(&other), None);
    }
}
