//! The script processes of one worker: those that it has started, whose reapers run on its thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use sluice_http::tasks::Tasks;
use sluice_launch::{RemoteLauncher, RemoteProcess, RemoteStarted, Signal};

use crate::process::{EndCause, PipeOwner, PipeThreads, Process, Work};

pub(crate) struct Processes {
    pub(crate) launcher: Arc<RemoteLauncher>,
    pub(crate) pipes: PipeThreads,
    pub(crate) buffers: PipeThreads,
    pub(crate) tasks: Tasks,
    by_pid: RefCell<HashMap<i32, Weak<Process>>>,
    is_stopping: Cell<bool>,
}

impl Processes {
    pub(crate) fn new(
        launcher: Arc<RemoteLauncher>,
        [pipes, buffers]: [PipeThreads; 2],
        tasks: Tasks,
    ) -> Rc<Processes> {
        Rc::new(Processes {
            launcher,
            pipes,
            buffers,
            tasks,
            by_pid: RefCell::default(),
            is_stopping: Cell::new(false),
        })
    }

    pub(crate) fn track(self: &Rc<Self>, process: &Arc<Process>, reaper: impl Future<Output = ()> + 'static) {
        let pid = process.pid;
        if self.is_stopping.get() {
            process.stop(EndCause::Shutdown);
        }
        self.by_pid.borrow_mut().insert(pid, Arc::downgrade(process));
        let processes = Rc::clone(self);
        self.tasks.spawn(async move {
            reaper.await;
            processes.by_pid.borrow_mut().remove(&pid);
        });
    }

    pub(crate) fn running(&self) -> usize {
        self.by_pid.borrow().len()
    }

    /// Stops every process, including those that are started later.
    pub(crate) fn stop(&self) {
        self.is_stopping.set(true);
        let processes: Vec<_> = self.by_pid.borrow().values().filter_map(Weak::upgrade).collect();
        for process in processes {
            process.stop(EndCause::Shutdown);
        }
    }
}

/// A process that was started and that nobody has taken yet. Its drop ends it.
pub(crate) struct Unclaimed<E: Send + 'static>(Option<(RemoteStarted, E)>, PipeThreads);

impl<E: Send + 'static> Unclaimed<E> {
    /// `threads` close its pipes if nobody takes it.
    pub(crate) fn new(started: RemoteStarted, ended: E, threads: PipeThreads) -> Unclaimed<E> {
        Unclaimed(Some((started, ended)), threads)
    }

    pub(crate) fn claim(mut self) -> (RemoteStarted, E) {
        self.0.take().expect("claimed once, by value")
    }
}

impl<E: Send + 'static> Drop for Unclaimed<E> {
    fn drop(&mut self) {
        if let Some((started, ended)) = self.0.take() {
            let owner = PipeOwner::ending(user_of(&started.stderr));
            let RemoteStarted {
                process,
                stdin,
                mailbox,
                stderr,
                cgiplusin,
                read_ends: (cgiplusin_read, stdin_read),
                requests,
            } = started;
            end_unclaimed(process, ended);
            let ends = [mailbox, stderr, cgiplusin, cgiplusin_read].into_iter();
            let requests = requests.into_iter().flat_map(<[OwnedFd; 2]>::from);
            for end in ends.chain(stdin).chain(stdin_read).chain(requests) {
                self.1.perform(&owner, "channels", Work::Close(end));
            }
        }
    }
}

/// The number of the user to whom the launcher has given a pipe. fstat(2) takes no lock of it.
pub(crate) fn user_of(pipe: &OwnedFd) -> u32 {
    rustix::fs::fstat(pipe.as_fd()).map_or(0, |about| about.st_uid)
}

/// Kills a process that gets no reaper. `ended` is dropped when it is reaped, because it counts until its end.
pub(crate) fn end_unclaimed<E: Send + 'static>(mut process: RemoteProcess, ended: E) {
    process.signal(Signal::Kill);
    process.on_end(move |_| drop(ended));
}
