//! The plain memory buffer: the script fills a part and names it in a callout; the server sends it, then the script may refill it.
//!
//! The data begins at offset 0 of the memfd.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use crate::shared_memory::SharedMemory;

/// A part outside of the buffer: the script's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{bytes} bytes at offset {offset} do not lie within the memory buffer of {capacity} bytes")]
pub struct BufferFault {
    /// Start of the part, bytes.
    pub offset: u64,
    /// Length of the part, bytes.
    pub bytes: u64,
    /// Size of the buffer, bytes.
    pub capacity: u64,
}

/// A plain memory buffer. Clones refer to the same buffer.
#[derive(Clone, Debug)]
pub struct PlainBuffer {
    /// Holding the memory marks the segment as in use.
    memory: Arc<SharedMemory>,
    capacity: u64,
}

impl PlainBuffer {
    pub(crate) fn new(memory: Arc<SharedMemory>, capacity: u64) -> PlainBuffer {
        PlainBuffer { memory, capacity }
    }

    /// Bytes in the buffer.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The part of `bytes` bytes at `offset`, without a copy. `on_free` is called when its last clone is dropped, on
    /// the thread that drops it; by then the part no longer keeps the segment in use.
    ///
    /// The script can change the bytes at any time. Pass them to the kernel or to a cipher; copy them before anything that depends on their values.
    ///
    /// # Errors
    /// The part is not within the buffer: the script's fault. `on_free` is dropped without a call.
    pub fn slice(
        &self,
        offset: u64,
        bytes: u64,
        on_free: impl FnOnce() + Send + 'static,
    ) -> Result<Bytes, BufferFault> {
        let fault = BufferFault { offset, bytes, capacity: self.capacity };
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

/// A part that is being sent. Fields drop in this order: the memory is released before `on_free` is called.
struct Part<F: FnOnce()> {
    memory: Arc<SharedMemory>,
    offset: usize,
    bytes: usize,
    _on_free: CallOnDrop<F>,
}

impl<F: FnOnce()> AsRef<[u8]> for Part<F> {
    fn as_ref(&self) -> &[u8] {
        self.memory.view().slice(self.offset, self.bytes)
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
