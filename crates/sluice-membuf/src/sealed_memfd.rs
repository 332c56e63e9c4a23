//! Content that stays as it is, in memory that the kernel can send from without a copy: a memfd, filled once and sealed.
//!
//! Not here: buffers that a script fills (segment.rs). Nobody else ever has this descriptor, and no write through it is
//! possible once it is sealed, so that what is on its way to a client cannot change any more, also where the kernel holds
//! on to the pages (sendfile(2)) after the memory was let go here.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::mapping::DataView;
use crate::segment::{create_memfd, file_bytes_max};

/// Content in sealed memory, at least one byte.
#[derive(Debug)]
pub struct SealedMemfd {
    file: OwnedFd,
    view: DataView,
}

impl SealedMemfd {
    /// The first `bytes` bytes of a file, moved there by the kernel. The file's position stays.
    ///
    /// # Errors
    /// `UnexpectedEof`: the file has fewer. `InvalidInput`: no bytes at all, or more than the system lets a file have
    /// (RLIMIT_FSIZE). Else what the system says: no descriptors left, no memory; or that it cannot read this file, or not
    /// in this way (sendfile(2)).
    pub fn read(source: impl AsFd, bytes: u64) -> io::Result<SealedMemfd> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        SealedMemfd::fill(length, |file| copy(source.as_fd(), file.as_fd(), length))
    }

    /// A copy of these bytes.
    ///
    /// # Errors
    /// As there, but for what concerns a file.
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
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
        // SAFETY: F_ADD_SEALS takes an integer and touches no memory of ours.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // The seals come first: what is mapped from here on neither shrinks nor changes.
        let view = DataView::map_private(file.as_fd(), length)?;
        Ok(SealedMemfd {
            file: file.into(),
            view,
        })
    }

    /// Where a part of the content lies in it, if `part` is one: told by its address.
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
        // SAFETY: takes two open descriptors, and moves on the one number, which is ours.
        let copied = unsafe { libc::sendfile(target.as_raw_fd(), source.as_raw_fd(), &raw mut offset, left) };
        match usize::try_from(copied) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => left = left.saturating_sub(copied),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
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

/// To send from, by offset; reading and writing through it is not meant.
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
    fn bytes_are_copied_and_sealed_alike() {
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
    fn parts_are_known_by_their_address() {
        let [sealed, other] = [0, 1].map(|_| SealedMemfd::read(file(b"abcdef"), 6).unwrap());
        assert_eq!(sealed.offset_of(&sealed[2..4]), Some(2));
        assert_eq!(sealed.offset_of(&sealed[6..]), Some(6));
        assert_eq!(sealed.offset_of(b"cd"), None);
        assert_eq!(sealed.offset_of(&other), None);
    }
}
