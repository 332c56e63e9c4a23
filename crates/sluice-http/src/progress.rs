//! The progress of one exchange, as the report of requests in progress shows it, and the order to end it.
//!
//! A stage that waits registers its task with `poll_ended`, so that the order reaches it, and it learns of a watch that has begun.

use std::cell::Cell;
use std::task::{Context, Poll, Waker};

use crate::series;

/// A request body whose end has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenBody {
    /// Bytes that were received.
    pub received: u64,
    /// The length, if the client announced it.
    pub announced: Option<u64>,
}

/// The progress of one exchange.
#[derive(Default)]
pub struct Progress {
    /// Bytes of the request body that were received.
    pub received_bytes: Cell<u64>,
    /// Bytes of the response body that were handed to the connection.
    pub sent_bytes: Cell<u64>,
    /// The script process that works for it, or worked for it last; 0 without one.
    pub pid: Cell<i32>,
    /// The status of the response; 0 until its head is made.
    pub status: Cell<u16>,
    /// The number of the script that answers, or answered last, among the series of counters; `series::UNNAMED` without one.
    pub script: Cell<u16>,
    /// The request body, while it is not complete.
    open_body: Cell<Option<OpenBody>>,
    is_ended: Cell<bool>,
    /// The response is not sent to its end.
    pub is_given_up: Cell<bool>,
    waiter: Cell<Option<Waker>>,
}

impl Progress {
    /// Notes that there is a request body, and the length that the client announced.
    pub fn expect_body(&self, announced: Option<u64>) {
        self.open_body.set(Some(OpenBody { received: 0, announced }));
    }

    /// Notes that the request body has been read to its end.
    pub fn complete_body(&self) {
        self.open_body.set(None);
    }

    /// The request body, if a part of it has not been received.
    pub fn open_body(&self) -> Option<OpenBody> {
        let received = self.received_bytes.get();
        let open = self.open_body.get()?;
        let is_complete = open.announced.is_some_and(|announced| received >= announced);
        (!is_complete).then_some(OpenBody { received, ..open })
    }

    /// Orders the exchange to end, and wakes its task.
    pub fn end(&self) {
        self.is_ended.set(true);
        self.wake();
    }

    /// Wakes the task that waits.
    pub fn wake(&self) {
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }

    /// The order was carried out: the response that says so is not ended in turn.
    pub fn obeyed(&self) {
        self.is_ended.set(false);
    }

    /// Whether it was ordered to end.
    pub fn is_ended(&self) -> bool {
        self.is_ended.get()
    }

    /// Ready if it was ordered to end; otherwise the task that is polled here is woken when it is. One task at a time.
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_ended.get() {
            return Poll::Ready(());
        }
        let waiter = self.waiter.take().filter(|kept| kept.will_wake(context.waker()));
        self.waiter.set(Some(waiter.unwrap_or_else(|| context.waker().clone())));
        Poll::Pending
    }

    /// Resets it for a new exchange.
    pub fn reset(&self) {
        self.received_bytes.set(0);
        self.sent_bytes.set(0);
        self.pid.set(0);
        self.status.set(0);
        self.script.set(series::UNNAMED);
        self.open_body.set(None);
        self.is_ended.set(false);
        self.is_given_up.set(false);
        self.waiter.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_order_to_end_wakes_the_task_that_waits_and_holds_until_the_next_exchange() {
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Arc::clone(&woken).into();
        let mut context = Context::from_waker(&waker);
        let progress = Progress::default();
        assert!(progress.poll_ended(&mut context).is_pending());
        assert!(progress.poll_ended(&mut context).is_pending());
        progress.end();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(progress.is_ended() && progress.poll_ended(&mut context).is_ready());
        progress.reset();
        assert!(!progress.is_ended() && progress.poll_ended(&mut context).is_pending());
    }
}
