//! The script processes of one worker: those that it has started, whose reapers run on its thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use sluice_http::tasks::Tasks;
use sluice_launch::RemoteLauncher;

use crate::process::{EndCause, PipeThreads, Process};

pub(crate) struct Processes {
    pub(crate) launcher: Arc<RemoteLauncher>,
    pub(crate) pipes: PipeThreads,
    pub(crate) buffers: PipeThreads,
    pub(crate) tasks: Tasks,
    by_pid: RefCell<HashMap<i32, Weak<Process>>>,
    /// All processes are stopped, including those that are started later.
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
