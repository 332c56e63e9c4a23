//! The memory buffer in one exchange: the bytes that the script has put there, on their way to the client.
//!
//! ```text
//!             begin, its memory is there
//!         ┌────────────────────────────────────┐
//!   closed ─── begin ──▶ beginning ────────────┴──▶ plain or ring ── end, all is sent ──▶ closed
//!                        a thread allocates memory
//! ```
//! While a buffer begins, the relay reads nothing from the script; the body of the request goes on.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use sluice_gateway::{Answer, BUFFER_BYTES_DEFAULT, BufferKind};
use sluice_membuf::{BeginError, PlainBuffer, ReadFault, ReadWatch, RingReader, Segment};
use tokio::time::{Sleep, sleep};

use crate::process::{BufferMemory, Done};

/// The name of the buffer for scripts: the descriptor that they inherit.
const NAME: &str = "/dev/fd/4";

/// Answers to BUFFER-BEGIN: after a mistake in the server, of a script whose user keeps too many buffers locked, of one of whose user another script has
/// kept the server waiting, and on a route without memory buffers.
const NO_SEGMENT: &str = "the memory buffer is lost";
const LOCKED: &str = "too many memory buffers of this user are kept locked, try again later";
const WAITED: &str =
    "a script of this user has kept the server waiting for its memory buffer, try again in ten minutes";
const NOT_ALLOWED: &str = "memory buffers are not allowed here (memory_buffer_max = 0)";

/// Largest chunk of a ring, bytes: the larger the sends, the less often client and script are woken.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Parts of a plain buffer that may be in flight at once.
const PARTS_MAX: usize = 8;

pub(crate) struct Buffer {
    kind: Kind,
    /// Made when it is needed: most exchanges use no buffer.
    freed: OnceCell<Arc<Freed>>,
    /// BUFFER-END has been called: whether it waits for an answer once everything is sent.
    ending: Option<Answering>,
    sent_bytes: u64,
    /// Largest chunk of a ring, as the client's connection allows.
    chunk_bytes_max: usize,
    /// The client has disconnected: writes to a ring fail.
    is_client_gone: bool,
    watch: ReadWatch,
}

enum Kind {
    Closed,
    /// A thread allocates and clears the memory, and holds the segment.
    Beginning {
        task: Done<Result<Opened, BeginError>>,
        /// When nobody waits for it any longer.
        limit: Pin<Box<Sleep>>,
        answering: Answering,
    },
    Plain {
        buffer: PlainBuffer,
        parts: VecDeque<Bytes>,
        /// Parts that the client does not have yet, oldest first.
        in_flight: VecDeque<Part>,
        answered: u64,
    },
    Ring {
        reader: RingReader,
    },
}

enum Opened {
    Plain(PlainBuffer),
    Ring(RingReader),
}

struct Part {
    bytes: u64,
    answering: Answering,
}

/// Whether the script waits for the answer to a callout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answering {
    Wanted,
    Unwanted,
}

/// Wakes the task of the exchange when chunks were freed, on whichever thread they were dropped.
#[derive(Default)]
struct Freed {
    count: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Freed {
    fn note(&self) {
        // Release pairs with the Acquire in `count`: the last read of a chunk comes before its part is refilled.
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
            freed: OnceCell::new(),
            ending: None,
            sent_bytes: 0,
            chunk_bytes_max: CHUNK_BYTES_MAX,
            is_client_gone: false,
            watch: ReadWatch::default(),
        }
    }

    /// BUFFER-BEGIN of this size; `None` or 0 for the default. `None` if the memory is not there yet: a thread prepares it, and `poll_begun` returns the result. The segment
    /// is `None` until then. An error of the segment is one for the script.
    pub(crate) fn begin(
        &mut self,
        segment: &mut Option<BufferMemory>,
        kind: BufferKind,
        bytes: Option<u64>,
        bytes_max: u64,
        answering: Answering,
    ) -> Option<Result<Answer, BeginError>> {
        if self.is_open() {
            return Some(Ok(Answer::new(400, "a memory buffer is open already")));
        }
        if bytes_max == 0 {
            return Some(Ok(Answer::new(403, NOT_ALLOWED)));
        }
        let bytes = bytes.filter(|bytes| *bytes > 0).unwrap_or(BUFFER_BYTES_DEFAULT);
        if bytes > bytes_max {
            let text = format!("{bytes} bytes are over the limit of {bytes_max}");
            return Some(Ok(Answer::new(413, text)));
        }
        let Some(mut held) = segment.take() else {
            return Some(Ok(Answer::new(500, NO_SEGMENT)));
        };
        if held.has_waited() {
            *segment = Some(held);
            return Some(Ok(Answer::new(503, WAITED)));
        }
        let at_once = match kind {
            BufferKind::Plain => held.try_begin_plain(bytes).map(|begun| begun.map(Opened::Plain)),
            BufferKind::Ring => held.try_begin_ring(bytes).map(|begun| begun.map(Opened::Ring)),
        };
        if let Some(begun) = at_once {
            *segment = Some(held);
            return Some(begun.map(|begun| self.open(begun)));
        }
        if held.is_refused() {
            *segment = Some(held);
            return Some(Ok(Answer::new(503, LOCKED)));
        }
        self.kind = Kind::Beginning {
            limit: Box::pin(sleep(held.time_limit(bytes))),
            task: held.perform(bytes, move |segment| allocate(segment, kind, bytes)),
            answering,
        };
        None
    }

    /// Whether a thread prepares the memory: `poll_begun` must be called until it is ready.
    pub(crate) fn is_beginning(&self) -> bool {
        matches!(self.kind, Kind::Beginning { .. })
    }

    /// Ready with the result of BUFFER-BEGIN, and whether the script waits for it; the segment is back then, unless it was kept locked.
    pub(crate) fn poll_begun(
        &mut self,
        segment: &mut Option<BufferMemory>,
        context: &mut Context<'_>,
    ) -> Poll<(Result<Answer, BeginError>, Answering)> {
        let Kind::Beginning { task, limit, answering } = &mut self.kind else {
            return Poll::Ready((Ok(Answer::new(400, "there is no memory buffer")), Answering::Unwanted));
        };
        let answering = *answering;
        let ended = match Pin::new(task).poll(context) {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                ready!(limit.as_mut().poll(context));
                // The segment is lost, and its process is of no more use.
                self.kind = Kind::Closed;
                return Poll::Ready((Ok(Answer::new(503, LOCKED)), answering));
            }
        };
        self.kind = Kind::Closed;
        // A panic, which its hook has logged, has dropped the segment.
        let Ok((held, begun)) = ended else {
            return Poll::Ready((Ok(Answer::new(500, NO_SEGMENT)), answering));
        };
        *segment = Some(held);
        Poll::Ready((begun.map(|begun| self.open(begun)), answering))
    }

    fn open(&mut self, begun: Opened) -> Answer {
        let (kind, text) = match begun {
            Opened::Plain(buffer) => {
                let text = format!("{NAME} {}", buffer.capacity());
                let kind = Kind::Plain {
                    buffer,
                    parts: VecDeque::new(),
                    in_flight: VecDeque::new(),
                    answered: self.freed_parts(),
                };
                (kind, text)
            }
            Opened::Ring(mut reader) => {
                let freed = Arc::clone(self.freed.get_or_init(Arc::default));
                reader.set_on_free(Box::new(move || freed.note()));
                if self.is_client_gone {
                    reader.close();
                }
                let text = format!("{NAME} {} ring", reader.capacity());
                (Kind::Ring { reader }, text)
            }
        };
        self.kind = kind;
        Answer::ok(text)
    }

    pub(crate) fn limit_chunks(&mut self, bytes_max: usize) {
        self.chunk_bytes_max = bytes_max.min(CHUNK_BYTES_MAX);
    }

    /// BUFFER-WRITE. The answer comes when the part may be refilled, or at once if the part cannot be sent.
    pub(crate) fn write(&mut self, bytes: u64, offset: u64, answering: Answering) -> Option<Answer> {
        let Kind::Plain { buffer, parts, in_flight, .. } = &mut self.kind else {
            let text = match self.is_open() {
                true => "a ring is written without callouts",
                false => "there is no memory buffer",
            };
            return Some(Answer::new(400, text));
        };
        if self.ending.is_some() || in_flight.len() == PARTS_MAX {
            return Some(Answer::new(400, format!("more than {PARTS_MAX} parts at once")));
        }
        let freed = Arc::clone(self.freed.get_or_init(Arc::default));
        match buffer.slice(offset, bytes, move || freed.note()) {
            Ok(part) => {
                parts.push_back(part);
                in_flight.push_back(Part { bytes, answering });
                None
            }
            Err(fault) => Some(Answer::new(400, fault.to_string())),
        }
    }

    /// BUFFER-END, or the end of the reply without it: no more bytes follow. The answer comes when all are sent.
    pub(crate) fn end(&mut self, answering: Answering) -> Option<Answer> {
        if !self.is_open() || self.ending.is_some() {
            return Some(Answer::new(400, "there is no memory buffer"));
        }
        self.ending = Some(answering);
        None
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.kind, Kind::Closed)
    }

    /// Whether no more bytes follow, and the last are not sent yet.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether a ring is open: bytes on the mailbox are doorbells then.
    pub(crate) fn is_ring(&self) -> bool {
        matches!(self.kind, Kind::Ring { .. })
    }

    /// The next bytes for the client, if there are any now. The fault is the script's: invalid counters in the ring, or the pages are waited for.
    pub(crate) fn take(&mut self) -> Result<Option<Bytes>, ReadFault> {
        let chunk = match &mut self.kind {
            Kind::Closed | Kind::Beginning { .. } => None,
            // For an empty part only its answer is due.
            Kind::Plain { parts, .. } => self
                .watch
                .read(|| Ok(std::iter::from_fn(|| parts.pop_front()).find(|part| !part.is_empty())))?,
            Kind::Ring { reader } => self.watch.read(|| reader.take(self.chunk_bytes_max))?,
        };
        self.sent_bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Ok(chunk)
    }

    /// Bytes of an output region, after their pages were touched. The fault is the script's.
    pub(crate) fn touch(&mut self, region: Bytes) -> Result<Bytes, ReadFault> {
        Ok(self.watch.read(|| Ok(Some(region)))?.unwrap_or_default())
    }

    /// The next answer that is due, because a part was freed.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let freed = self.freed_parts();
        let Kind::Plain { in_flight, answered, .. } = &mut self.kind else {
            return None;
        };
        while *answered < freed {
            *answered += 1;
            let freed = in_flight.pop_front();
            if let Some(part) = freed.filter(|part| part.answering == Answering::Wanted) {
                return Some(Answer::ok(part.bytes.to_string()));
            }
        }
        None
    }

    /// Asks the script for a doorbell when its ring has bytes. True if the ring is empty: the relay can wait.
    pub(crate) fn may_sleep(&mut self) -> bool {
        match &mut self.kind {
            Kind::Ring { reader } => reader.prepare_sleep(),
            _ => true,
        }
    }

    pub(crate) fn wake_when_freed(&self, context: &Context<'_>) {
        if self.is_open() {
            self.freed.get_or_init(Arc::default).wake(context);
        }
    }

    fn freed_parts(&self) -> u64 {
        self.freed.get().map_or(0, |freed| freed.count())
    }

    /// Ready with each answer that is still due; then, once everything in an ending buffer is sent and it is closed, with that to BUFFER-END.
    pub(crate) fn poll_closed(&mut self, context: &Context<'_>) -> Poll<Option<Answer>> {
        // Before the check: a part that is freed after the check wakes the task.
        self.freed.get_or_init(Arc::default).wake(context);
        if let Some(answer) = self.answer() {
            return Poll::Ready(Some(answer));
        }
        let is_empty = match &self.kind {
            Kind::Closed => true,
            Kind::Beginning { .. } => false,
            Kind::Plain { parts, in_flight, .. } => parts.is_empty() && in_flight.is_empty(),
            Kind::Ring { reader } => reader.is_drained(),
        };
        if !is_empty {
            return Poll::Pending;
        }
        self.kind = Kind::Closed;
        let is_awaited = self.ending.take() == Some(Answering::Wanted);
        Poll::Ready(is_awaited.then(|| Answer::ok(self.sent_bytes.to_string())))
    }

    pub(crate) fn client_gone(&mut self) {
        self.is_client_gone = true;
        if let Kind::Ring { reader } = &mut self.kind {
            reader.close();
        }
    }
}

fn allocate(segment: &mut Segment, kind: BufferKind, bytes: u64) -> Result<Opened, BeginError> {
    match kind {
        BufferKind::Plain => segment.begin_plain(bytes).map(Opened::Plain),
        BufferKind::Ring => segment.begin_ring(bytes).map(Opened::Ring),
    }
}
