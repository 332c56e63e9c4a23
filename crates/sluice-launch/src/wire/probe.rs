//! Questions about a script process, which the launcher answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::end::proc_state::Observation;
use crate::end::process_usage::ProcessUsage;
use crate::end::session::{Company, company, is_exiting};
use crate::wire::remote::Shared;

/// Questions about a process.
#[derive(Clone, Debug)]
pub struct Probe {
    /// `None`: this process asks the kernel itself.
    pub(crate) launcher: Option<Arc<Shared>>,
    pub(crate) number: u64,
    pub(crate) pid: i32,
}

/// A question about a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum ProcessQuestion {
    State,
    Usage { has_pss: bool },
    Company,
    IsExiting,
}

/// The answer to the question of this name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ProcessAnswer {
    State(Option<Box<Observation>>),
    Usage(Option<ProcessUsage>),
    Company(Company),
    IsExiting(bool),
}

impl ProcessAnswer {
    /// Answers a question about a process of this machine; without a process id it is gone. Waits for the kernel.
    pub(crate) fn of(pid: Option<i32>, question: ProcessQuestion) -> ProcessAnswer {
        match question {
            ProcessQuestion::State => ProcessAnswer::State(pid.and_then(Observation::of).map(Box::new)),
            ProcessQuestion::Usage { has_pss } => {
                ProcessAnswer::Usage(pid.and_then(|pid| ProcessUsage::of(pid, has_pss)))
            }
            ProcessQuestion::Company => ProcessAnswer::Company(pid.map_or(Company::Unknown, company)),
            ProcessQuestion::IsExiting => ProcessAnswer::IsExiting(pid.is_none_or(is_exiting)),
        }
    }
}

impl Probe {
    /// The process id; see [`crate::RemoteProcess::pid`].
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Questions about a child of this process.
    #[must_use]
    pub fn of_child(pid: i32) -> Probe {
        Probe { launcher: None, number: 0, pid }
    }

    /// The state of the process. `None` if it is unknown. Blocks: not for an event loop.
    #[must_use]
    pub fn observe(&self) -> Option<Observation> {
        match self.ask(ProcessQuestion::State) {
            Some(ProcessAnswer::State(observation)) => observation.map(|observation| *observation),
            _ => None,
        }
    }

    /// The resources that the process uses now. `None` if they are unknown. Blocks: not for an event loop.
    #[must_use]
    pub fn usage(&self, has_pss: bool) -> Option<ProcessUsage> {
        match self.ask(ProcessQuestion::Usage { has_pss }) {
            Some(ProcessAnswer::Usage(usage)) => usage,
            _ => None,
        }
    }

    /// Whether another process can do the work of this one. Blocks: not for an event loop.
    #[must_use]
    pub fn company(&self) -> Company {
        match self.ask(ProcessQuestion::Company) {
            Some(ProcessAnswer::Company(company)) => company,
            _ => Company::Unknown,
        }
    }

    /// Whether the process is ending: its descriptors may be closed already, and its exit status will be known soon. False for one of which a thread goes on, and if it is not known; true for one that has
    /// been reaped already. Blocks: not for an event loop.
    #[must_use]
    pub fn is_exiting(&self) -> bool {
        matches!(
            self.ask(ProcessQuestion::IsExiting),
            Some(ProcessAnswer::IsExiting(true))
        )
    }

    fn ask(&self, question: ProcessQuestion) -> Option<ProcessAnswer> {
        match &self.launcher {
            Some(launcher) => launcher.ask(self.number, question),
            None => Some(ProcessAnswer::of(Some(self.pid), question)),
        }
    }
}
