//! The script process that a pipe belongs to, as the threads for pipes see it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluice_launch::RunAs;

pub(crate) struct PipeOwner {
    /// The number of its user.
    pub uid: u32,
    /// `None` for a process that ends already, whose settings are not known any more.
    run_as: Option<RunAs>,
    end: Box<EndProcess>,
}

/// Ends a process that keeps a pipe locked, with a line in the log.
type EndProcess = dyn Fn(Blocked, Duration) + Send + Sync;

#[derive(Clone, Copy)]
pub(crate) struct Blocked {
    pub verb: &'static str,
    pub channel: &'static str,
    pub object: Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Pipe,
    Memory,
}

impl PipeOwner {
    /// The owner of the pipes of a process that runs as this user. `end` ends it, if it keeps one of them locked.
    pub(crate) fn new(
        run_as: RunAs,
        uid: u32,
        end: impl Fn(Blocked, Duration) + Send + Sync + 'static,
    ) -> Arc<PipeOwner> {
        Arc::new(PipeOwner {
            uid,
            run_as: Some(run_as),
            end: Box::new(end),
        })
    }

    /// A process that ends already.
    pub(crate) fn ending(uid: u32) -> Arc<PipeOwner> {
        Arc::new(PipeOwner {
            uid,
            run_as: None,
            end: Box::new(|_, _| {}),
        })
    }

    pub(crate) fn runs_as(&self, run_as: &RunAs) -> bool {
        self.run_as.as_ref() == Some(run_as)
    }

    pub(crate) fn user(&self) -> impl fmt::Display + use<> {
        match &self.run_as {
            Some(RunAs::User(name)) => format!("user {name}"),
            _ => format!("the user with number {}", self.uid),
        }
    }

    pub(crate) fn end_process(&self, blocked: Blocked, waited: Duration) {
        (self.end)(blocked, waited);
    }
}

impl fmt::Debug for PipeOwner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a process of {}", self.user())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_stands_for_no_setting_of_a_user() {
        let owner = PipeOwner::ending(7);
        assert!(!owner.runs_as(&RunAs::Usual) && !owner.runs_as(&RunAs::User("ann".into())));
        assert_eq!(owner.user().to_string(), "the user with number 7");
        let running = PipeOwner::new(RunAs::Usual, 7, |_, _| {});
        assert!(running.runs_as(&RunAs::Usual));
    }
}
