//! Output regions: parts of a script's memfd for the body of a large reply, behind the memory buffer.
//!
//! A script copies its output into the region that the server announced with the request, and names each part in a callout. The server sends from there, and
//! announces another region until the client has all of it. So the process is free for its next request at once. A part may be filled again when it was sent.
//!
//! ```text
//!   0 … memory buffer (segment.rs) …   length of the buffer     + REGION_BYTES            + 2 * REGION_BYTES
//!   |--------------------------------------|---- region 0 ------------|---- region 1 ------------|
//! ```
//! The pages of a region are allocated by the script's first write there, and are the script's memory like its own. They are not
//! cleared between exchanges: the library that uses them names exactly the bytes that it has copied there.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::mapping::DataView;

/// Bytes in a region. 512 KiB: replies of that size need not wait for room, and both regions fit the processor's cache.
pub const REGION_BYTES: u64 = REGION_LENGTH as u64;

/// The same, for slices.
const REGION_LENGTH: usize = 512 << 10;

/// Regions of a process. Two: one is being sent while the next request is answered.
const REGIONS: usize = 2;

pub(crate) const AREA_BYTES: u64 = REGION_BYTES * REGIONS as u64;

/// Parts of one region that may be in flight, each an allocation of the server. 64: a region has 32 parts of 16 KiB, the smallest that libraries name.
pub const PARTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct OutputRegions {
    /// Start of the first region, bytes from the start of the file; a multiple of the page size.
    start: u64,
    area: Arc<Area>,
}

/// A region that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRegion {
    index: usize,
    /// The start, in bytes from the start of the memfd.
    pub offset: u64,
}

impl OutputRegion {
    /// Whether all of a part lies in it: so many bytes, from this one of the region on.
    #[must_use]
    pub fn has(self, offset: u64, bytes: u64) -> bool {
        part_of(offset, bytes).is_some()
    }
}

/// The mapping and its use, which chunks in flight hold.
#[derive(Debug, Default)]
struct Area {
    /// Mapped at the first use.
    view: OnceLock<DataView>,
    in_flight: Mutex<InFlight>,
}

#[derive(Debug, Default)]
struct InFlight {
    /// The parts of each region, in bytes from its start.
    parts: [Vec<Range<usize>>; REGIONS],
    /// The task that waits until a part was sent.
    waker: Option<Waker>,
}

impl Area {
    /// The lock also orders the last read of a part before the script's next write there.
    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputRegions {
    /// Regions from `start` on; nothing is mapped yet.
    pub(crate) fn new(start: u64) -> OutputRegions {
        OutputRegions { start, area: Arc::default() }
    }

    /// Whether the memory of the regions can be released: none is being sent.
    pub(crate) fn can_be_released(&self) -> bool {
        Arc::strong_count(&self.area) == 1
    }

    /// Whether bytes of a region were sent.
    pub(crate) fn is_mapped(&self) -> bool {
        self.area.view.get().is_some()
    }

    pub(crate) fn free(&self) -> Option<OutputRegion> {
        let index = self.area.in_flight().parts.iter().position(Vec::is_empty)?;
        Some(OutputRegion {
            index,
            offset: self.start + index as u64 * REGION_BYTES,
        })
    }

    /// A part of a region, without a copy. It may be refilled when the last clone is dropped. `None`: no such part, or too many in flight.
    pub(crate) fn output(
        &self,
        fd: BorrowedFd<'_>,
        region: OutputRegion,
        offset: u64,
        bytes: u64,
    ) -> io::Result<Option<Bytes>> {
        let Some(part) = part_of(offset, bytes) else {
            return Ok(None);
        };
        if self.area.view.get().is_none() {
            let view = DataView::map_at(fd, self.start, REGION_LENGTH * REGIONS)?;
            // Only the exchange that has the segment comes here, so nothing else has set it meanwhile.
            let _ = self.area.view.set(view);
        }
        let parts = &mut self.area.in_flight().parts[region.index];
        if parts.len() == PARTS_MAX {
            return Ok(None);
        }
        parts.push(part.clone());
        Ok(Some(Bytes::from_owner(Output {
            area: Arc::clone(&self.area),
            index: region.index,
            part,
        })))
    }

    /// Ready when no byte of this part is being sent; otherwise the task is woken when one of the region's parts was.
    pub(crate) fn poll_free(&self, region: OutputRegion, offset: u64, bytes: u64, context: &Context<'_>) -> Poll<()> {
        let Some(wanted) = part_of(offset, bytes) else {
            return Poll::Ready(());
        };
        let mut in_flight = self.area.in_flight();
        let overlaps = |part: &Range<usize>| part.start < wanted.end && wanted.start < part.end;
        if !in_flight.parts[region.index].iter().any(overlaps) {
            in_flight.waker = None;
            return Poll::Ready(());
        }
        match &mut in_flight.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// The part as a range. `None` if a region does not have all of it.
fn part_of(offset: u64, bytes: u64) -> Option<Range<usize>> {
    let end = offset.checked_add(bytes).filter(|end| *end <= REGION_BYTES)?;
    Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

struct Output {
    area: Arc<Area>,
    index: usize,
    part: Range<usize>,
}

impl AsRef<[u8]> for Output {
    fn as_ref(&self) -> &[u8] {
        let view = self.area.view.get().expect("mapped before the output was made");
        view.slice(self.index * REGION_LENGTH + self.part.start, self.part.len())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut in_flight = self.area.in_flight();
        let parts = &mut in_flight.parts[self.index];
        if let Some(at) = parts.iter().position(|part| *part == self.part) {
            parts.remove(at);
        }
        let waker = in_flight.waker.take();
        drop(in_flight);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
