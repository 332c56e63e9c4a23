//! Response bytes that the protocol of a connection has, until it has passed them on to the socket.
//!
//! ```text
//! body ─▶ poll_room ─▶ hold ─▶ Chunk, in hyper ─▶ count_moved (to the socket) ─▶ release (memory is free)
//! ```

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use sluice_settings::limits::Limits;

use crate::send_allowance::{ClientWait, RoundRobin, SendAllowance};
use crate::send_budget::SendBudget;

/// Largest chunk of a body in HTTP/1.1. The larger the chunks, the fewer sends; and a script's pipe has so much.
const CHUNK_BYTES_MAX: u32 = 1 << 20;

/// Largest chunk of a body in HTTP/2, where a connection has several.
const CHUNK_BYTES_MAX_HTTP2: u32 = 256 << 10;

/// Chunk size while a connection or its worker has much memory in use, and of the first chunk in HTTP/2: a client can
/// open 128 streams with 4 KB and no window, so a stream gets more only after it has taken that.
const CHUNK_BYTES_MIN: u32 = 16 << 10;

/// Bytes that one connection may have in memory before an exchange that already has some waits. In HTTP/2 this is enough
/// for sixteen streams of 64 KiB. In HTTP/1.1 hyper's own limit is reached first (`http1`).
const CONNECTION_BYTES: usize = 1 << 20;

/// The same while the worker's memory is scarce.
const CONNECTION_BYTES_SCARCE: usize = 32 << 10;

/// Concurrent exchanges of one HTTP/2 connection. The RFC recommends at least 100 (RFC 9113 §6.5.2).
pub(crate) const STREAMS_MAX: u32 = 128;

/// The response bytes of one connection that its protocol has.
pub(crate) struct Outgoing {
    budget: Rc<SendBudget>,
    pub(crate) bytes: Cell<usize>,
    /// The sum over these bytes of the budget's clock when each was added.
    clocks: Cell<u128>,
    /// Bytes in the write coalescer, and since when it has taken no progress.
    coalesced: Cell<Coalesced>,
    chunks: Cell<u32>,
    /// Bytes of chunks that have moved to the socket; wraps around.
    pub(crate) moved: Cell<u32>,
    /// Bodies of several chunks whose exchanges are in progress.
    deliveries: RefCell<Vec<Rc<Delivery>>>,
    /// HTTP/2 bodies of one chunk, whose exchanges are over; made for the first of them.
    complete: OnceCell<Box<CompleteBodies>>,
    /// In HTTP/2 the delivery that began last, until the task of its exchange takes it.
    pub(crate) new_delivery: Cell<Option<Rc<Delivery>>>,
    pub(crate) is_http2: Cell<bool>,
    /// The connection was aborted for its memory, which no longer counts.
    pub(crate) is_written_off: Cell<bool>,
}

#[derive(Clone, Copy, Default)]
struct Coalesced {
    bytes: usize,
    clock: u64,
}

impl Outgoing {
    pub(crate) fn new(budget: Rc<SendBudget>) -> Outgoing {
        Outgoing {
            budget,
            bytes: Cell::new(0),
            clocks: Cell::new(0),
            coalesced: Cell::default(),
            chunks: Cell::new(0),
            moved: Cell::new(0),
            deliveries: RefCell::default(),
            complete: OnceCell::new(),
            new_delivery: Cell::new(None),
            is_http2: Cell::new(false),
            is_written_off: Cell::new(false),
        }
    }

    /// The bytes, each multiplied by the time that it has waited, by the budget's clock.
    pub(crate) fn byte_time(&self) -> u128 {
        let now = u128::from(self.budget.clock()) * self.bytes.get() as u128;
        now.saturating_sub(self.clocks.get())
    }

    /// Whether the protocol has chunks that it has not moved to the socket.
    pub(crate) fn has_chunks(&self) -> bool {
        self.chunks.get() > 0
    }

    /// The number of streams that have chunks to send, at most that which an HTTP/2 connection may have.
    pub(crate) fn count_streams(&self) -> u32 {
        self.chunks.get().clamp(1, STREAMS_MAX)
    }

    pub(crate) fn waiting_deliveries(&self) -> Vec<Rc<Delivery>> {
        let deliveries = self.deliveries.borrow();
        let waiting = deliveries.iter().filter(|delivery| delivery.waits_for_client.get());
        waiting.cloned().collect()
    }

    pub(crate) fn count_waiting(&self) -> usize {
        let deliveries = self.deliveries.borrow();
        let waiting = deliveries.iter().filter(|delivery| delivery.waits_for_client.get());
        waiting.count()
    }

    /// Aborts the delivery of the exchange with this number, if it has begun.
    pub(crate) fn abort_delivery(&self, exchange: u32) {
        let deliveries = self.deliveries.borrow();
        let found = deliveries.iter().find(|delivery| delivery.exchange == exchange);
        if let Some(delivery) = found {
            delivery.abort();
        }
    }

    /// HTTP/2 bodies of one chunk, whose exchanges are over.
    pub(crate) fn complete_bodies(&self) -> &CompleteBodies {
        self.complete.get_or_init(Box::default)
    }

    /// Counts the bytes that the write coalescer now has.
    pub(crate) fn set_coalesced(&self, bytes: usize) {
        let was = self.coalesced.get();
        if bytes == was.bytes {
            return;
        }
        // Fewer bytes, or the first ones: there was progress.
        let clock = if bytes > was.bytes && was.bytes > 0 {
            was.clock
        } else {
            self.budget.clock()
        };
        self.coalesced.set(Coalesced { bytes, clock });
        self.give_back(was.bytes, was.clock);
        self.take(bytes, clock);
    }

    /// Stops to count the memory of the connection, which is being aborted. Returns the bytes that it had.
    pub(crate) fn write_off(&self) -> usize {
        if !self.is_written_off.replace(true) {
            self.budget.give_back(self.bytes.get());
        }
        self.bytes.get()
    }

    fn take(&self, bytes: usize, clock: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        let clocks = u128::from(clock) * bytes as u128;
        self.clocks.set(self.clocks.get() + clocks);
        if !self.is_written_off.get() {
            self.budget.take(bytes);
        }
    }

    fn give_back(&self, bytes: usize, clock: u64) {
        self.bytes.set(self.bytes.get() - bytes);
        let clocks = u128::from(clock) * bytes as u128;
        self.clocks.set(self.clocks.get() - clocks);
        if !self.is_written_off.get() {
            self.budget.give_back(bytes);
        }
    }

    pub(crate) fn count_moved(&self, hold: &Hold, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.moved.set(self.moved.get().wrapping_add(bytes));
        match &hold.body {
            HeldBody::Delivery(delivery) => delivery.moved.set(delivery.moved.get().wrapping_add(bytes)),
            HeldBody::Complete(group) => self.complete_bodies().count_moved(*group, bytes),
            HeldBody::Alone => {}
        }
    }

    /// Ends the count of a chunk, whose memory is free.
    pub(crate) fn release(&self, hold: &Hold) {
        self.chunks.set(self.chunks.get() - 1);
        self.give_back(hold.bytes, hold.clock);
        match &hold.body {
            HeldBody::Delivery(delivery) => delivery.bytes.set(delivery.bytes.get() - hold.bytes),
            HeldBody::Complete(group) => self.complete_bodies().remove(*group),
            HeldBody::Alone => {}
        }
        self.wake_waiters();
    }

    fn bytes_max(&self) -> usize {
        match self.budget.is_scarce() {
            true => CONNECTION_BYTES_SCARCE,
            false => CONNECTION_BYTES,
        }
    }

    /// Wakes the exchanges that wait for room, if there is some now.
    fn wake_waiters(&self) {
        let has_room = self.bytes.get() < self.bytes_max();
        for delivery in &*self.deliveries.borrow() {
            if has_room || delivery.bytes.get() == 0 {
                delivery.wake_for_room();
            }
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.is_written_off.get() {
            self.budget.give_back(self.bytes.get());
        }
    }
}

/// The delivery of a body of several chunks.
#[derive(Default)]
pub(crate) struct Delivery {
    exchange: u32,
    bytes: Cell<usize>,
    /// Bytes of it that have moved to the socket; wraps around.
    moved: Cell<u32>,
    waits_for_client: Cell<bool>,
    /// Whether the exchange waits until its connection uses less memory.
    room_waiter: Cell<Option<Waker>>,
    task: Cell<Option<Waker>>,
    pub(crate) is_aborted: Cell<bool>,
    /// The progress at the last check, while the exchange waits for the client.
    monitored: Cell<Option<MonitoredDelivery>>,
}

/// A delivery as the last check of its connection has seen it.
#[derive(Clone, Copy)]
struct MonitoredDelivery {
    moved: u32,
    /// Bytes that the connection has sent beyond the delivery's share.
    overtaken: u64,
    allowance: SendAllowance,
}

impl Delivery {
    /// Checks whether the client takes the body fast enough. It is charged with the time of the turn, and with all the time if the connection has sent
    /// more than could be sent before the exchange's turn, whatever chunks it was handed meanwhile: they may be as small as a record.
    pub(crate) fn check(&self, turn: RoundRobin, limits: &Limits) -> bool {
        let moved = self.moved.get();
        let mut allowance = SendAllowance::new(limits);
        let mut overtaken = 0;
        let mut is_fast_enough = true;
        if let Some(seen) = self.monitored.get() {
            allowance = seen.allowance;
            let taken = moved.wrapping_sub(seen.moved);
            // Taking part of its share is progress, however long the turns are.
            overtaken = (seen.overtaken + u64::from(turn.sent)).saturating_sub(turn.share_of(taken));
            let had_its_turn = overtaken > turn.bytes_max();
            let waited = if had_its_turn { turn.elapsed } else { turn.waited };
            let wait = ClientWait { waited, taken };
            is_fast_enough = allowance.covers(wait, limits.send_bytes_per_second_min, limits);
        }
        self.monitored
            .set(Some(MonitoredDelivery { moved, overtaken, allowance }));
        is_fast_enough
    }

    /// Ends the exchange: its task is woken and drops it.
    pub(crate) fn abort(&self) {
        self.is_aborted.set(true);
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    /// Has the task that is polled here woken by `abort`.
    pub(crate) fn register(&self, task: &Waker) {
        let waker = self.task.take().filter(|kept| kept.will_wake(task));
        self.task.set(Some(waker.unwrap_or_else(|| task.clone())));
    }

    fn wake_for_room(&self) {
        if let Some(waiter) = self.room_waiter.take() {
            waiter.wake();
        }
    }
}

/// Bodies of one chunk, which the protocol has until their client takes them, although their exchanges are over.
///
/// They are checked in two groups, because a record for each would cost every response an allocation: the older group must be
/// taken within the time of one delivery, while the younger one collects what comes meanwhile. Then the groups change places.
#[derive(Default)]
pub(crate) struct CompleteBodies {
    counts: [Cell<u32>; 2],
    /// The number of the younger group; the other one is `1 - younger`.
    younger: Cell<usize>,
    /// The older group, measured as one delivery.
    older: Delivery,
}

impl CompleteBodies {
    fn add(&self) -> usize {
        let group = self.younger.get();
        let count = &self.counts[group];
        count.set(count.get() + 1);
        group
    }

    fn remove(&self, group: usize) {
        let count = &self.counts[group];
        count.set(count.get() - 1);
    }

    fn count_moved(&self, group: usize, bytes: u32) {
        if group != self.younger.get() {
            self.older.moved.set(self.older.moved.get().wrapping_add(bytes));
        }
    }

    pub(crate) fn are_waiting(&self) -> bool {
        self.counts[1 - self.younger.get()].get() > 0
    }

    /// Checks whether the client takes the older group fast enough. Call this once a second.
    pub(crate) fn check(&self, turn: RoundRobin, limits: &Limits) -> bool {
        if self.are_waiting() {
            return self.older.check(turn, limits);
        }
        self.younger.update(|younger| 1 - younger);
        self.older.monitored.set(None);
        true
    }
}

enum HeldBody {
    Delivery(Rc<Delivery>),
    /// A body of this chunk only, in one of the groups of `CompleteBodies`.
    Complete(usize),
    /// The same in HTTP/1.1, where a body is checked with its connection.
    Alone,
}

/// The share of a chunk in the counts of its connection, which `Outgoing::release` gives back.
pub(crate) struct Hold {
    body: HeldBody,
    bytes: usize,
    /// The budget's clock when it was handed out.
    clock: u64,
}

/// The body of an exchange, as the connection counts it.
#[derive(Default)]
pub(crate) struct OutgoingBody {
    /// The number of its exchange on the connection.
    pub(crate) exchange: u32,
    /// `None` until it is known that the body has several chunks.
    delivery: Option<Rc<Delivery>>,
    /// Size of the last chunk asked for; 0 before the first. Small, because a response holds it.
    chunk_bytes: u32,
}

impl OutgoingBody {
    pub(crate) fn of_exchange(exchange: u32) -> OutgoingBody {
        OutgoingBody { exchange, ..OutgoingBody::default() }
    }

    /// Waits until the connection may have another chunk of the body in memory. Returns how many bytes it may have.
    pub(crate) fn poll_room(&mut self, outgoing: &Outgoing, context: &Context<'_>) -> Poll<usize> {
        let is_tight = outgoing.bytes.get() >= outgoing.bytes_max();
        if let Some(delivery) = &self.delivery
            && is_tight
            && delivery.bytes.get() > 0
        {
            delivery.room_waiter.set(Some(context.waker().clone()));
            return Poll::Pending;
        }
        self.chunk_bytes = match self.chunk_bytes {
            _ if is_tight || outgoing.budget.is_scarce() => CHUNK_BYTES_MIN,
            0 if outgoing.is_http2.get() => CHUNK_BYTES_MIN,
            last if outgoing.is_http2.get() => (2 * last).min(CHUNK_BYTES_MAX_HTTP2),
            0 => CHUNK_BYTES_MAX,
            last => (2 * last).min(CHUNK_BYTES_MAX),
        };
        Poll::Ready(self.chunk_bytes as usize)
    }

    pub(crate) fn begin_delivery(&mut self, outgoing: &Outgoing) {
        if self.delivery.is_some() {
            return;
        }
        let delivery = Rc::new(Delivery { exchange: self.exchange, ..Delivery::default() });
        outgoing.deliveries.borrow_mut().push(Rc::clone(&delivery));
        if outgoing.is_http2.get() {
            outgoing.new_delivery.set(Some(Rc::clone(&delivery)));
        }
        delivery.waits_for_client.set(true);
        self.delivery = Some(delivery);
    }

    /// Counts a chunk with its own bytes of memory. `None` if nobody needs to know: a whole body in shared memory, in HTTP/1.1.
    pub(crate) fn hold(&self, outgoing: &Outgoing, own: usize) -> Option<Hold> {
        if let Some(delivery) = &self.delivery {
            delivery.bytes.set(delivery.bytes.get() + own);
        } else if own == 0 && !outgoing.is_http2.get() {
            return None;
        }
        let clock = outgoing.budget.clock();
        outgoing.take(own, clock);
        outgoing.chunks.set(outgoing.chunks.get() + 1);
        let body = match &self.delivery {
            Some(delivery) => HeldBody::Delivery(Rc::clone(delivery)),
            None if outgoing.is_http2.get() => HeldBody::Complete(outgoing.complete_bodies().add()),
            None => HeldBody::Alone,
        };
        let bytes = own;
        Some(Hold { body, bytes, clock })
    }

    pub(crate) fn set_waits_for_client(&self, waits_for_client: bool) {
        if let Some(delivery) = &self.delivery {
            delivery.waits_for_client.set(waits_for_client);
            if !waits_for_client {
                delivery.monitored.set(None);
            }
        }
    }

    pub(crate) fn end(&mut self, outgoing: &Outgoing) {
        if let Some(delivery) = self.delivery.take() {
            outgoing
                .deliveries
                .borrow_mut()
                .retain(|kept| !Rc::ptr_eq(kept, &delivery));
            // After a panic its task has not taken it, and that of another exchange must not.
            let others = outgoing.new_delivery.take();
            let others = others.filter(|other| !Rc::ptr_eq(other, &delivery));
            outgoing.new_delivery.set(others);
        }
    }
}
