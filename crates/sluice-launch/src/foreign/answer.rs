//! The answer of an operation on a thread that may be lost, for the task or thread that waits for it.
//!
//! A task awaits it, with a timer of its own event loop (`within`); a thread waits for it (`wait`). Neither waits longer than it says, and the silence is
//! noted then, so that others need not wait in vain.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::foreign::user_threads::{Held, UserThreads};

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// No answer came in time, or the operation was not begun, because those before it wait.
    Silent,
    /// The operation has panicked, which the log shows: a mistake of this program.
    Panicked,
}

/// The answer of an operation. Dropping it says that nobody waits any more: an operation that has not begun is left out then.
pub struct Answer<T> {
    threads: &'static UserThreads,
    share: u64,
    slot: Arc<Slot<T>>,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    done: Condvar,
}

enum State<T> {
    Pending(Option<Waker>),
    Done(Result<T, NoAnswer>),
    /// The answer was taken, or nobody waits for it.
    Over,
}

impl<T: Send + 'static> Answer<T> {
    /// Begins an operation. Never waits.
    pub(crate) fn begin(
        threads: &'static UserThreads,
        of: impl Into<Held>,
        operation: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let of = of.into();
        let slot = Arc::new(Slot {
            state: Mutex::new(State::Pending(None)),
            done: Condvar::new(),
        });
        let of_thread = Arc::clone(&slot);
        let begun = threads.begin(
            of,
            Box::new(move || {
                if !of_thread.is_over() {
                    // A panic says so to whoever waits; its message is in the log.
                    let done = catch_unwind(AssertUnwindSafe(operation));
                    of_thread.put(done.map_err(|_| NoAnswer::Panicked));
                }
            }),
        );
        if begun.is_err() {
            slot.put(Err(NoAnswer::Silent));
        }
        Answer { threads, share: of.share, slot }
    }

    /// Waits until `time` is over at most.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn within(mut self, time: impl Future<Output = ()>) -> Result<T, NoAnswer> {
        let mut time = pin!(time);
        std::future::poll_fn(|context| match Pin::new(&mut self).poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => time.as_mut().poll(context).map(|()| Err(self.give_up())),
        })
        .await
    }

    /// Keeps the calling thread, which is no event loop, waiting so long at most.
    ///
    /// # Errors
    /// There is no answer.
    pub fn wait(self, time: Duration) -> Result<T, NoAnswer> {
        let until = Instant::now() + time;
        let mut state = self.slot.lock();
        loop {
            if let Some(answer) = state.take() {
                return answer;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return Err(self.give_up());
            }
            let waited = self.slot.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes that somebody has waited in vain. While all threads of the share are occupied, others are refused at once.
    fn give_up(&self) -> NoAnswer {
        self.threads.note_silence(self.share);
        NoAnswer::Silent
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, NoAnswer>;

    /// Not to be polled again after the answer.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        if let Some(answer) = state.take() {
            return Poll::Ready(answer);
        }
        if let State::Pending(waker) = &mut *state {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let over = std::mem::replace(&mut *self.slot.lock(), State::Over);
        drop(over);
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Option<Result<T, NoAnswer>> {
        match std::mem::replace(self, State::Over) {
            State::Done(answer) => Some(answer),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        matches!(*self.lock(), State::Over)
    }

    /// Puts the answer. If nobody waits it is dropped here, by the thread that may be lost.
    fn put(&self, answer: Result<T, NoAnswer>) {
        let mut state = self.lock();
        let State::Pending(waker) = &mut *state else {
            drop(state);
            return drop(answer);
        };
        let waker = waker.take();
        *state = State::Done(answer);
        drop(state);
        self.done.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::sync::mpsc::channel;
    use std::task::Wake;
    use std::thread::{self, Thread};

    use super::*;
    use crate::foreign::user_threads::Bounds;

    static THREADS: LazyLock<UserThreads> = LazyLock::new(|| {
        UserThreads::new(Bounds {
            name: "answers",
            at_once: 1,
            waiting_max: 8,
            threads_max: 8,
            of_holder_max: 8,
            kept: 0,
        })
    });

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Arc::new(Unpark(thread::current())).into();
        let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }

    #[test]
    fn an_answer_comes_to_a_task_and_to_a_thread() {
        let (begin, begun) = channel();
        let answer = Answer::begin(&THREADS, 1_u64, move || begun.recv().is_ok());
        thread::spawn(move || begin.send(()));
        assert_eq!(block_on(answer.within(std::future::pending())), Ok(true));
        assert_eq!(Answer::begin(&THREADS, 1_u64, || 7).wait(Duration::MAX / 4), Ok(7));
    }

    #[test]
    fn silence_is_noted_and_refuses_others_and_what_nobody_waits_for_is_left_out() {
        let (end, ended) = channel::<()>();
        let (run, running) = channel();
        let silent = Answer::begin(&THREADS, 2_u64, move || run.send(()).is_ok() && ended.recv().is_err());
        running.recv().unwrap();
        let (begin, begun) = channel();
        let unwanted = Answer::begin(&THREADS, 2_u64, move || begin.send(()).is_ok());
        assert_eq!(block_on(silent.within(std::future::ready(()))), Err(NoAnswer::Silent));
        assert_eq!(
            Answer::begin(&THREADS, 2_u64, || ()).wait(Duration::MAX / 4),
            Err(NoAnswer::Silent)
        );
        drop(unwanted);
        drop(end);
        assert!(begun.recv().is_err(), "it was not begun");
    }

    #[test]
    fn a_panic_is_no_silence_and_takes_no_thread_of_its_share() {
        let panicking = || Answer::<()>::begin(&THREADS, 3_u64, || panic!("as expected by this test"));
        for _ in 0..3 {
            assert_eq!(panicking().wait(Duration::MAX / 4), Err(NoAnswer::Panicked));
        }
        assert_eq!(Answer::begin(&THREADS, 3_u64, || ()).wait(Duration::MAX / 4), Ok(()));
    }
}
