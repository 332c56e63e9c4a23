//! The memory buffer within one exchange: what the script has put there, on its way to the client.
//!
//! Here: which of the two kinds is open, the chunks in their order, and when a part may be refilled: its chunk was dropped,
//! that is, written to the socket. Not here: the memory itself and the distrust of it (`sluice-membuf`), and the callouts'
//! wording (`callout`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use sluice_gateway::{Answer, BUFFER_BYTES_DEFAULT, BufferKind};
use sluice_membuf::{BeginError, PlainBuffer, RingFault, RingReader, Segment};

/// What scripts call the buffer: the descriptor that they were given.
const NAME: &str = "/dev/fd/4";

/// Bytes of a ring's chunk at most: large writes, and room for the script before all of them are done.
const PIECE_BYTES_MAX: usize = 256 << 10;

/// Parts of a plain buffer that may be under way at once.
const PARTS_MAX: usize = 8;

/// The memory buffer of one exchange.
pub(crate) struct Buffer {
    kind: Kind,
    freed: Arc<Freed>,
    /// The answer that BUFFER-END waits for, if it wants one, once everything is sent.
    ending: Option<bool>,
    sent_bytes: u64,
}

enum Kind {
    Closed,
    Plain {
        buffer: PlainBuffer,
        /// Parts to send.
        parts: VecDeque<Bytes>,
        /// Parts under way, oldest first: their size, and whether an answer is waited for.
        under_way: VecDeque<(u64, bool)>,
        answered: u64,
    },
    Ring {
        reader: RingReader,
    },
}

/// Tells the exchange's task that chunks were freed, from wherever they were dropped.
#[derive(Default)]
struct Freed {
    count: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Freed {
    fn note(&self) {
        // Release pairs with the Acquire in `count`: what was done with the chunk comes before its part is refilled.
        self.count.fetch_add(1, Ordering::Release);
        if let Some(waker) = self.lock().take() {
            waker.wake();
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn wake(&self, context: &Context<'_>) {
        *self.lock() = Some(context.waker().clone());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer {
            kind: Kind::Closed,
            freed: Arc::default(),
            ending: None,
            sent_bytes: 0,
        }
    }

    /// BUFFER-BEGIN. What goes wrong is told to the script by the answer.
    pub(crate) fn begin(
        &mut self,
        segment: &mut Segment,
        bytes: Option<u64>,
        bytes_max: u64,
        kind: BufferKind,
    ) -> Answer {
        if self.is_open() {
            return Answer::new(400, "a memory buffer is open already");
        }
        let bytes = bytes.filter(|bytes| *bytes > 0).unwrap_or(BUFFER_BYTES_DEFAULT);
        if bytes > bytes_max {
            return Answer::new(413, format!("{bytes} bytes are over the limit of {bytes_max}"));
        }
        let begun = match kind {
            BufferKind::Plain => segment.begin_plain(bytes).map(|buffer| {
                let text = format!("{NAME} {}", buffer.capacity());
                let kind = Kind::Plain {
                    buffer,
                    parts: VecDeque::new(),
                    under_way: VecDeque::new(),
                    answered: self.freed.count(),
                };
                (kind, text)
            }),
            BufferKind::Ring => segment.begin_ring(bytes).map(|mut reader| {
                let freed = Arc::clone(&self.freed);
                reader.set_on_free(Box::new(move || freed.note()));
                let text = format!("{NAME} {} ring", reader.capacity());
                (Kind::Ring { reader }, text)
            }),
        };
        match begun {
            Ok((kind, text)) => {
                self.kind = kind;
                Answer::ok(text)
            }
            Err(error @ BeginError::NoMemory) => Answer::new(503, error.to_string()),
            Err(error @ BeginError::TooLarge) => Answer::new(413, error.to_string()),
            Err(error) => Answer::new(500, error.to_string()),
        }
    }

    /// BUFFER-WRITE. The answer comes when the part may be refilled, or at once if it cannot be sent.
    pub(crate) fn write(&mut self, bytes: u64, offset: u64, wants_answer: bool) -> Option<Answer> {
        let Kind::Plain {
            buffer,
            parts,
            under_way,
            ..
        } = &mut self.kind
        else {
            let text = if self.is_open() {
                "a ring is written without callouts"
            } else {
                "there is no memory buffer"
            };
            return Some(Answer::new(400, text));
        };
        if self.ending.is_some() || under_way.len() == PARTS_MAX {
            return Some(Answer::new(400, format!("more than {PARTS_MAX} parts at once")));
        }
        let freed = Arc::clone(&self.freed);
        match buffer.slice(offset, bytes, move || freed.note()) {
            Ok(part) => {
                parts.push_back(part);
                under_way.push_back((bytes, wants_answer));
                None
            }
            Err(fault) => Some(Answer::new(400, fault.to_string())),
        }
    }

    /// BUFFER-END, or the end of the response without it: no more will come; answered when all is sent.
    pub(crate) fn end(&mut self, wants_answer: bool) -> Option<Answer> {
        if !self.is_open() || self.ending.is_some() {
            return Some(Answer::new(400, "there is no memory buffer"));
        }
        self.ending = Some(wants_answer);
        None
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.kind, Kind::Closed)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// A ring is open: bytes on the mailbox are doorbells.
    pub(crate) fn is_ring(&self) -> bool {
        matches!(self.kind, Kind::Ring { .. })
    }

    /// The next bytes for the client, if there are any now. The fault is the script's: it lied in the ring.
    pub(crate) fn take(&mut self) -> Result<Option<Bytes>, RingFault> {
        let chunk = match &mut self.kind {
            Kind::Closed => None,
            // An empty part is only its answer.
            Kind::Plain { parts, .. } => std::iter::from_fn(|| parts.pop_front()).find(|part| !part.is_empty()),
            Kind::Ring { reader } => {
                reader.take(PIECE_BYTES_MAX.min(usize::try_from(reader.capacity() / 4).unwrap_or(usize::MAX)))?
            }
        };
        self.sent_bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Ok(chunk)
    }

    /// The next answer that is due because a part was freed.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let Kind::Plain {
            under_way, answered, ..
        } = &mut self.kind
        else {
            return None;
        };
        while *answered < self.freed.count() {
            *answered += 1;
            if let Some((bytes, true)) = under_way.pop_front() {
                return Some(Answer::ok(bytes.to_string()));
            }
        }
        None
    }

    /// Asks the script to ring when there is something in its ring. True: there is nothing, wait.
    pub(crate) fn may_sleep(&mut self) -> bool {
        match &mut self.kind {
            Kind::Ring { reader } => reader.prepare_sleep(),
            _ => true,
        }
    }

    /// The task is to be woken when a part is freed.
    pub(crate) fn wake_when_freed(&self, context: &Context<'_>) {
        if self.is_open() {
            self.freed.wake(context);
        }
    }

    /// Ready with each answer that is still due, then, when an ending buffer is empty and everything in it sent, with the one
    /// that BUFFER-END waits for: it is closed then.
    pub(crate) fn poll_closed(&mut self, context: &Context<'_>) -> Poll<Option<Answer>> {
        // Before looking: what is freed after the look wakes the task.
        self.freed.wake(context);
        if let Some(answer) = self.answer() {
            return Poll::Ready(Some(answer));
        }
        let is_empty = match &self.kind {
            Kind::Closed => true,
            Kind::Plain { parts, under_way, .. } => parts.is_empty() && under_way.is_empty(),
            Kind::Ring { reader } => reader.is_drained(),
        };
        if !is_empty {
            return Poll::Pending;
        }
        self.kind = Kind::Closed;
        let wants_answer = self.ending.take().unwrap_or(false);
        Poll::Ready(wants_answer.then(|| Answer::ok(self.sent_bytes.to_string())))
    }

    /// The client has left: what the script writes from now on fails.
    pub(crate) fn client_gone(&mut self) {
        if let Kind::Ring { reader } = &mut self.kind {
            reader.close();
        }
    }
}
