//! Output regions: parts of a script's memfd for the end of a large reply, behind the memory buffer.
//!
//! A script that has collected its reply copies the body into the region that the server announced with the request, and names its
//! length in a callout. The server sends from there, and announces another region until the client has all of it. So the process is
//! free for its next request at once. Not here: the announcement and the callout (sluice-gateway, sluice-script).
//!
//! ```text
//!   0 … memory buffer (segment.rs) …   length of the buffer     + REGION_BYTES            + 2 * REGION_BYTES
//!   |--------------------------------------|---- region 0 ------------|---- region 1 ------------|
//! ```
//! The pages of a region are allocated by the script's first write there, and are the script's memory like its own. They are not
//! cleared between exchanges: the library that uses them names exactly the bytes that it has copied there.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::mapping::DataView;

/// Bytes in a region. 128 KiB: libsluice collects that much before it writes.
pub const REGION_BYTES: u64 = REGION_LENGTH as u64;

/// The same, for slices.
const REGION_LENGTH: usize = 128 << 10;

/// Regions of a process. Two: one is being sent while the next request is answered.
const REGIONS: usize = 2;

/// Bytes in all regions of a process.
pub(crate) const AREA_BYTES: u64 = REGION_BYTES * REGIONS as u64;

/// The regions of one memfd.
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
    /// Its start, bytes from the start of the memfd.
    pub offset: u64,
}

/// The mapping and its use, which chunks in flight hold.
#[derive(Debug, Default)]
struct Area {
    /// Mapped at the first use.
    view: OnceLock<DataView>,
    /// Regions whose bytes are being sent.
    in_use: [AtomicBool; REGIONS],
}

impl OutputRegions {
    /// Regions from `start` on; nothing is mapped yet.
    pub(crate) fn new(start: u64) -> OutputRegions {
        OutputRegions {
            start,
            area: Arc::default(),
        }
    }

    /// Whether the memory of the regions can be released: none is being sent.
    pub(crate) fn can_be_released(&self) -> bool {
        Arc::strong_count(&self.area) == 1
    }

    /// Whether bytes of a region were sent.
    pub(crate) fn is_mapped(&self) -> bool {
        self.area.view.get().is_some()
    }

    /// The first region that is free.
    pub(crate) fn free(&self) -> Option<OutputRegion> {
        // Acquire pairs with the Release of Output's drop: the last read of the region comes before the script writes there again.
        let index = self.area.in_use.iter().position(|used| !used.load(Ordering::Acquire))?;
        Some(OutputRegion {
            index,
            offset: self.start + index as u64 * REGION_BYTES,
        })
    }

    /// The first `bytes` bytes of a region, without a copy. The region is free again when the last clone is dropped. `None` if there are
    /// not that many.
    pub(crate) fn output(&self, fd: BorrowedFd<'_>, region: OutputRegion, bytes: u64) -> io::Result<Option<Bytes>> {
        let Some(bytes) = usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes as u64 <= REGION_BYTES)
        else {
            return Ok(None);
        };
        if self.area.view.get().is_none() {
            let view = DataView::map_at(fd, self.start, REGION_LENGTH * REGIONS)?;
            // Only the exchange that has the segment comes here, so nothing else has set it meanwhile.
            let _ = self.area.view.set(view);
        }
        self.area.in_use[region.index].store(true, Ordering::Relaxed);
        Ok(Some(Bytes::from_owner(Output {
            area: Arc::clone(&self.area),
            index: region.index,
            bytes,
        })))
    }
}

/// Bytes that are being sent.
struct Output {
    area: Arc<Area>,
    index: usize,
    bytes: usize,
}

impl AsRef<[u8]> for Output {
    fn as_ref(&self) -> &[u8] {
        let view = self.area.view.get().expect("mapped before the output was made");
        view.slice(self.index * REGION_LENGTH, self.bytes)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.area.in_use[self.index].store(false, Ordering::Release);
    }
}
