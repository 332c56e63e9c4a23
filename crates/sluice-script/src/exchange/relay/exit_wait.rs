//! The wait for the end of a process that has closed its output: its exit status says whether the reply is complete.
//!
//! A script that closes its output and continues to work has given a complete reply; one that is ending is waited for. Which of both it is, the launcher
//! reads in `/proc`, where somebody can hold the directory of the process; so a thread asks that may be lost.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_launch::{Answer, LookupShare, look_elsewhere};
use tokio::time::{Sleep, sleep};

use crate::process::Process;

/// How long the exit status is waited for before the system is asked whether the process is ending, and again each time that it is.
const GRACE: Duration = Duration::from_millis(250);

/// How often: on a loaded machine the end of a process takes longer.
const GRACES_MAX: u8 = 40;

#[derive(Default)]
pub(super) struct ExitWait {
    /// Times that `GRACE` has passed.
    graces: u8,
    pause: Option<Pin<Box<Sleep>>>,
    is_exiting: Option<Answer<bool>>,
}

impl ExitWait {
    /// Waits until the exit status of the process is known, or it is known that it continues to work. Also ready if the system does not say so.
    pub(super) fn poll(&mut self, process: &Process, context: &mut Context<'_>) -> Poll<()> {
        while process.poll_exit(context).is_pending() {
            if let Some(answer) = &mut self.is_exiting {
                match Pin::new(answer).poll(context) {
                    Poll::Ready(Ok(true)) => self.is_exiting = None,
                    Poll::Ready(_) => return Poll::Ready(()),
                    // No longer than for the next grace.
                    Poll::Pending => {}
                }
            }
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(GRACE)));
            ready!(pause.as_mut().poll(context));
            self.pause = None;
            self.graces += 1;
            if self.graces >= GRACES_MAX || self.is_exiting.is_some() {
                return Poll::Ready(());
            }
            let probe = process.probe.clone();
            self.is_exiting = Some(look_elsewhere(LookupShare::processes_of(process.user), move || {
                probe.is_exiting()
            }));
        }
        Poll::Ready(())
    }
}
