//! The tasks of a worker, counted so that a draining worker knows when all have ended.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::Notify;

/// The tasks of one worker that have not ended. Clones share the count.
#[derive(Clone, Default)]
pub struct Tasks(Rc<Count>);

#[derive(Default)]
struct Count {
    running: Cell<usize>,
    ended: Notify,
    is_closed: Cell<bool>,
}

impl Tasks {
    /// Starts a task on this thread's event loop. After `close` the task is dropped instead.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn_counted(self.counted(task));
    }

    /// Counts a future from now on, whether it becomes a task or not.
    pub fn counted<F: Future<Output = ()>>(&self, task: F) -> Counted<F> {
        self.0.running.set(self.0.running.get() + 1);
        Counted { task, _guard: Guard(Rc::clone(&self.0)) }
    }

    /// Starts a future that `counted` has returned, as `spawn` does.
    pub fn spawn_counted(&self, task: impl Future<Output = ()> + 'static) {
        if !self.0.is_closed.get() {
            tokio::task::spawn_local(task);
        }
    }

    /// The number of tasks that have not ended.
    pub fn running(&self) -> usize {
        self.0.running.get()
    }

    /// Waits until a task has ended since the last call. One caller at a time.
    pub async fn ended(&self) {
        self.0.ended.notified().await;
    }

    /// Makes `spawn` drop its tasks from now on, because the event loop has ended.
    pub fn close(&self) {
        self.0.is_closed.set(true);
    }
}

pin_project! {
    /// A future that counts as a task until it is dropped. An async block instead would store the future twice.
    pub struct Counted<F> {
        #[pin]
        task: F,
        _guard: Guard,
    }
}

impl<F: Future<Output = ()>> Future for Counted<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().task.poll(context)
    }
}

/// Counts down when it is dropped.
struct Guard(Rc<Count>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        self.0.ended.notify_one();
    }
}

/// Lets other tasks run, and the event loop poll its sockets, before this task continues. A plain wake would not.
pub fn yield_now(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}
