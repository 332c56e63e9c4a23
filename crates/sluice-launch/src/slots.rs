//! Five reserved descriptor numbers of a launcher thread, low ones, through which a child gets its descriptors.
//!
//! Why not from wherever they are: a child begins with the server's descriptor table. To copy it and to close the copy
//! costs more than all the rest of a start once the server has thousands of connections. So the child shares the table
//! and its first act is to leave it, taking along only the numbers below [`Filled::beyond`]; and that what it needs is
//! there whatever the server has open, the numbers are taken when the launcher starts. They are above 4, so that
//! none is in the way of the places 0 to 4 where the child puts them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// How many descriptors a script process has (0 to 4); the first number that it must not have.
pub(crate) const SCRIPT_DESCRIPTORS: u8 = 5;

/// The reserved numbers. At rest each is another name of `/dev/null`.
#[derive(Debug)]
pub(crate) struct Slots {
    numbers: [OwnedFd; SCRIPT_DESCRIPTORS as usize],
    null: Arc<OwnedFd>,
}

/// Slots that stand for the descriptors of one script; dropped, they rest again.
#[derive(Debug)]
pub(crate) struct Filled<'a>(&'a Slots);

impl Slots {
    /// Takes five numbers, the lowest that are free above 4.
    pub(crate) fn reserve(null: Arc<OwnedFd>) -> io::Result<Slots> {
        let another = || {
            let least = libc::c_int::from(SCRIPT_DESCRIPTORS);
            // SAFETY: takes an open descriptor and numbers.
            let number = unsafe { libc::fcntl(null.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the kernel has just made it, and nobody else knows it.
            Ok(unsafe { OwnedFd::from_raw_fd(number) })
        };
        let numbers = [another()?, another()?, another()?, another()?, another()?];
        Ok(Slots { numbers, null })
    }

    /// Makes the slots stand for these descriptors until the answer is dropped.
    pub(crate) fn fill(&mut self, ends: [&OwnedFd; 5]) -> io::Result<Filled<'_>> {
        // Made first: if a duplicate fails, dropping it clears those that were made.
        let filled = Filled(self);
        for (slot, end) in self.numbers.iter().zip(ends) {
            duplicate(end, slot)?;
        }
        Ok(filled)
    }
}

impl Filled<'_> {
    /// The numbers, in the order of the places 0 to 4.
    pub(crate) fn numbers(&self) -> [RawFd; 5] {
        self.0.numbers.each_ref().map(AsRawFd::as_raw_fd)
    }

    /// The least number above all of them.
    pub(crate) fn beyond(&self) -> RawFd {
        self.numbers().into_iter().fold(0, |most, number| most.max(number + 1))
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        for slot in &self.0.numbers {
            // Cannot fail: both are open, and a slot is below the limit of descriptors since it was reserved.
            let _ = duplicate(&self.0.null, slot);
        }
    }
}

/// Makes the number `to` another name of what `from` names; what it named before is closed.
fn duplicate(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    // SAFETY: both are open and owned by us; what `to` named before is not used under this number any more.
    if unsafe { libc::dup3(from.as_raw_fd(), to.as_raw_fd(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
