//! The script processes of one worker: those whose watcher runs on its thread.
//!
//! Here: the worker's means to start and watch processes. Not here: which process serves which request (`pool`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use sluice_http::tasks::Tasks;
use sluice_launch::Launcher;

use crate::misbehaviour::MisbehaviourLog;
use crate::process::Process;

/// The script processes of one worker.
pub struct Scripts {
    /// The worker's index.
    pub worker: usize,
    launcher: Arc<Launcher>,
    /// Largest number of descriptors of a script, if bounded.
    pub(crate) open_files_max: Option<u64>,
    processes: RefCell<HashMap<i32, Weak<Process>>>,
    tasks: Tasks,
    pub(crate) misbehaviour: MisbehaviourLog,
    /// All processes are stopped, including those that are started later.
    is_stopping: Cell<bool>,
}

impl Scripts {
    /// No processes yet.
    pub fn new(worker: usize, launcher: Arc<Launcher>, open_files_max: Option<u64>, tasks: Tasks) -> Scripts {
        Scripts {
            worker,
            launcher,
            open_files_max,
            processes: RefCell::default(),
            tasks,
            misbehaviour: MisbehaviourLog::default(),
            is_stopping: Cell::new(false),
        }
    }

    /// The threads that start processes.
    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// The tasks of the worker.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Tracks a script process and starts the task that watches it.
    pub(crate) fn track(self: &Rc<Self>, process: &Arc<Process>, watch: impl Future<Output = ()> + 'static) {
        let pid = process.pid;
        if self.is_stopping.get() {
            process.stop();
        }
        self.processes.borrow_mut().insert(pid, Arc::downgrade(process));
        let scripts = Rc::clone(self);
        self.tasks.spawn(async move {
            watch.await;
            scripts.processes.borrow_mut().remove(&pid);
        });
    }

    /// Processes that have not been reaped.
    pub fn running(&self) -> usize {
        self.processes.borrow().len()
    }

    /// Stops every process, including those that are started later.
    pub fn stop(&self) {
        self.is_stopping.set(true);
        let processes: Vec<_> = self.processes.borrow().values().filter_map(Weak::upgrade).collect();
        for process in processes {
            process.stop();
        }
    }
}
