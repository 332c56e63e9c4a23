//! The plain memory buffer: the script fills a part of it and says which; that part is sent, then it may be refilled.
//!
//! Not here: the callouts that say which part (sluice-gateway), the answers (sluice-server). Data from offset 0 of
//! the memfd.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::mapping::DataView;
use crate::segment::MemFile;

/// A part was named that the buffer does not have: the script's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferFault {
    /// Where the part was said to begin, bytes.
    pub offset: u64,
    /// How long it was said to be, bytes.
    pub bytes: u64,
    /// What the buffer has, bytes.
    pub capacity: u64,
}

impl fmt::Display for BufferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BufferFault {
            offset,
            bytes,
            capacity,
        } = self;
        write!(
            f,
            "{bytes} bytes at offset {offset} do not lie within the memory buffer of {capacity} bytes"
        )
    }
}

impl std::error::Error for BufferFault {}

/// A plain memory buffer. Clones are the same buffer.
#[derive(Clone, Debug)]
pub struct PlainBuffer {
    memory: Arc<Memory>,
    capacity: u64,
}

/// The mapped memory; holding the file is what tells the segment that the buffer is in use.
#[derive(Debug)]
struct Memory {
    view: Arc<DataView>,
    _file: Arc<MemFile>,
}

impl PlainBuffer {
    pub(crate) fn new(file: Arc<MemFile>, view: Arc<DataView>, capacity: u64) -> PlainBuffer {
        PlainBuffer {
            memory: Arc::new(Memory { view, _file: file }),
            capacity,
        }
    }

    /// Bytes in the buffer.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The part of `bytes` bytes at `offset`, without a copy. `on_free` is called when its last clone is dropped, by
    /// whichever thread does that; by then the part no longer keeps the segment in use.
    ///
    /// The script can change the bytes at any time. Hand them to the kernel or to a cipher; copy them before anything
    /// that looks at them, such as a compressor.
    ///
    /// # Errors
    /// The part does not lie within the buffer: the script's fault. `on_free` is dropped without a call.
    pub fn slice(
        &self,
        offset: u64,
        bytes: u64,
        on_free: impl FnOnce() + Send + 'static,
    ) -> Result<Bytes, BufferFault> {
        let fault = BufferFault {
            offset,
            bytes,
            capacity: self.capacity,
        };
        let end = offset.checked_add(bytes).ok_or(fault)?;
        if end > self.capacity {
            return Err(fault);
        }
        let (Ok(offset), Ok(bytes)) = (usize::try_from(offset), usize::try_from(bytes)) else {
            return Err(fault);
        };
        let memory = Arc::clone(&self.memory);
        Ok(Bytes::from_owner(Part {
            memory,
            offset,
            bytes,
            _on_free: CallOnDrop(Some(on_free)),
        }))
    }
}

/// A part that is being sent. Fields drop in this order: the memory is let go before the caller hears of it.
struct Part<F: FnOnce()> {
    memory: Arc<Memory>,
    offset: usize,
    bytes: usize,
    _on_free: CallOnDrop<F>,
}

impl<F: FnOnce()> AsRef<[u8]> for Part<F> {
    fn as_ref(&self) -> &[u8] {
        self.memory.view.slice(self.offset, self.bytes)
    }
}

struct CallOnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for CallOnDrop<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}
