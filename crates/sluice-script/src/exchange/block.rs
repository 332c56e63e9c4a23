//! A block of output: what a script writes is sent together, because it has asked for that (`Script-Control: X-buffer-records`).
//!
//! A block is complete with so many bytes, at the end of the reply, or some time after its first byte: no client waits for a script that pauses.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Sleep;

/// The longest time from the first byte of a block until it is sent, if the script pauses.
const AGE_MAX: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(crate) struct Block {
    pub bytes: BytesMut,
    is_complete: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Block {
    /// Adds a chunk; from `bytes_max` bytes on the block is complete.
    pub(crate) fn add(&mut self, chunk: &Bytes, bytes_max: usize) {
        self.bytes.extend_from_slice(chunk);
        self.is_complete |= self.bytes.len() >= bytes_max;
    }

    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }

    pub(crate) fn take_complete(&mut self) -> Option<Bytes> {
        if !self.is_complete || self.bytes.is_empty() {
            return None;
        }
        self.is_complete = false;
        self.timer = None;
        Some(self.bytes.split().freeze())
    }

    /// Ready when the block is complete because of its age; pending while there is no block.
    pub(crate) fn poll_complete(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.bytes.is_empty() {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(AGE_MAX)));
        ready!(timer.as_mut().poll(context));
        self.is_complete = true;
        Poll::Ready(())
    }
}
