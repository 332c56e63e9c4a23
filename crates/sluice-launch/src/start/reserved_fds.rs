//! Six low descriptor numbers that a launcher thread reserves, to pass a child its descriptors.
//!
//! Reason: a child starts with the server's descriptor table. With thousands of connections, copying the table and closing the copies costs more than
//! the rest of a start. So the child shares the table, and its first system call leaves it with a copy of the numbers below [`FilledFds::end`] only.
//! They are reserved when the launcher starts, so they are low whatever the server opens later; above 5, so that none collides with 0 to 5, where the
//! child moves them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};

/// Number of descriptors of a script process that is kept (0 to 5), so also the lowest number that it must not have. Other processes have one less.
pub(crate) const SCRIPT_DESCRIPTORS: u8 = 6;

/// The reserved numbers. Between two starts each is a duplicate of `/dev/null`.
#[derive(Debug)]
pub(crate) struct ReservedFds {
    numbers: Vec<OwnedFd>,
    null: Arc<OwnedFd>,
}

/// The reserved numbers as duplicates of one script's descriptors. Dropping it makes them duplicates of `/dev/null` again.
#[derive(Debug)]
pub(crate) struct FilledFds<'a> {
    reserved: &'a mut ReservedFds,
    /// Numbers that are filled.
    count: usize,
}

impl ReservedFds {
    /// Reserves the six lowest free numbers above 5.
    pub(crate) fn reserve(null: Arc<OwnedFd>) -> io::Result<ReservedFds> {
        let reserve_one = |_| fcntl_dupfd_cloexec(&null, SCRIPT_DESCRIPTORS.into());
        let numbers = (0..SCRIPT_DESCRIPTORS).map(reserve_one).collect::<Result<_, _>>()?;
        Ok(ReservedFds { numbers, null })
    }

    /// Makes the reserved numbers duplicates of these descriptors until the result is dropped.
    pub(crate) fn fill<'a>(&mut self, ends: impl Iterator<Item = &'a OwnedFd>) -> io::Result<FilledFds<'_>> {
        // Created first, so that dropping it after an error resets the duplicates made so far.
        let mut filled = FilledFds { reserved: self, count: 0 };
        for (number, end) in filled.reserved.numbers.iter_mut().zip(ends) {
            dup3(end, number, DupFlags::CLOEXEC)?;
            filled.count += 1;
        }
        Ok(filled)
    }
}

impl FilledFds<'_> {
    /// The numbers, in the order of the script's descriptors.
    pub(crate) fn numbers(&self) -> Vec<RawFd> {
        self.filled().map(AsRawFd::as_raw_fd).collect()
    }

    fn filled(&self) -> impl Iterator<Item = &OwnedFd> {
        self.reserved.numbers.iter().take(self.count)
    }

    /// The lowest number above all of them.
    pub(crate) fn end(&self) -> RawFd {
        self.filled().fold(0, |most, number| most.max(number.as_raw_fd() + 1))
    }
}

impl Drop for FilledFds<'_> {
    fn drop(&mut self) {
        let ReservedFds { numbers, null } = &mut *self.reserved;
        for number in numbers.iter_mut().take(self.count) {
            // Cannot fail: both are open, and the number was below the limit when it was reserved.
            let _ = dup3(&*null, number, DupFlags::CLOEXEC);
        }
    }
}
