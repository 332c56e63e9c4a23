//! The memfd of a memory buffer together with the server's mappings of it, and their common release.
//!
//! The segment and every buffer and chunk created from it hold this. When the last holder drops it, the memory is
//! released: pages are freed, which takes milliseconds for a large buffer, and the kernel may wait for a write of the
//! script to the same file. So the last holder, which may be an event loop, passes it on as [`Garbage`].

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::mapping::{Control, DataView, WritableData};
use crate::mem_file::MemFile;
use crate::output_regions::OutputRegions;

/// Releases memory on a thread that may wait, by dropping it there.
pub type Release = Arc<dyn Fn(Garbage) + Send + Sync>;

pub(crate) struct SharedMemory {
    /// `None` only while it is dropped.
    parts: Option<Parts>,
    release: Release,
}

/// The parts, in the order in which they are dropped: once the file is punched, unmapping is cheap.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) file: MemFile,
    pub(crate) view: Option<DataView>,
    pub(crate) control: Option<Control>,
    /// The part that is kept between exchanges, for clearing it.
    pub(crate) kept: Option<WritableData>,
    /// `None` if memory buffers are not allowed, or the file cannot be that long.
    pub(crate) regions: Option<OutputRegions>,
}

/// Memory that is no longer used. Dropping it releases it, for which the kernel waits for a write to the memfd that is in progress.
#[derive(Debug)]
pub struct Garbage {
    _parts: Parts,
}

impl SharedMemory {
    pub(crate) fn new(file: MemFile, regions: Option<OutputRegions>, release: Release) -> SharedMemory {
        SharedMemory {
            parts: Some(Parts {
                file,
                view: None,
                control: None,
                kept: None,
                regions,
            }),
            release,
        }
    }

    pub(crate) fn set_release(&mut self, release: Release) {
        self.release = release;
    }

    pub(crate) fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("the parts are taken only by drop")
    }

    pub(crate) fn parts_mut(&mut self) -> &mut Parts {
        self.parts.as_mut().expect("the parts are taken only by drop")
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.parts().file.fd()
    }

    /// The data, which is mapped before a buffer is handed out.
    pub(crate) fn view(&self) -> &DataView {
        self.parts().view.as_ref().expect("mapped at begin")
    }

    /// The control page, which is mapped before a ring is handed out.
    pub(crate) fn control(&self) -> &Control {
        self.parts().control.as_ref().expect("mapped at begin")
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        let regions = parts.regions.as_ref();
        let is_mapped = regions.is_some_and(OutputRegions::is_mapped);
        // The script may have allocated memory without a callout. Asked once: it may also do that at this moment.
        if !is_mapped && !parts.file.has_memory() {
            // Only its descriptor and its mappings are given up, which waits for nobody.
            parts.file.keep_memory();
            return;
        }
        if regions.is_some_and(OutputRegions::can_be_released) {
            parts.file.release_area();
        }
        (self.release)(Garbage { _parts: parts });
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(out)
    }
}
