//! The watcher of a script process: the task that alone reads its standard error, waits for its end, sends it signals, and reaps it.
//!
//! Not here: the states of a process and what is known of it (`process`), and the signals (`escalation`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use sluice_launch::{Exit, Usage};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};
use tokio::sync::watch;

use super::{Command, Process};
use crate::belongings::Belongings;
use crate::escalation::Escalation;
use crate::limit_reached::Counts;
use crate::pool_record::EndedProcess;
use crate::stderr::StderrReader;
use crate::unwatched::Unwatched;

/// The parts of a process that its watcher needs, registered with the worker's event loop.
pub(super) struct Watched<E: Send + 'static> {
    pidfd: AsyncFd<OwnedFd>,
    errors: StderrReader,
    belongings: Belongings,
    ended: E,
}

impl<E: Send + 'static> Watched<E> {
    /// Ends the process if the event loop refuses a descriptor: nobody else would.
    pub(super) fn register(
        pidfd: OwnedFd,
        stderr: OwnedFd,
        process: &Arc<Process>,
        belongings: Belongings,
        ended: E,
    ) -> io::Result<Watched<E>> {
        let errors = match StderrReader::new(stderr, Arc::clone(process)) {
            Ok(errors) => errors,
            Err(error) => {
                Unwatched {
                    pidfd,
                    belongings,
                    ended,
                }
                .end();
                return Err(error);
            }
        };
        match awaitable(pidfd) {
            Ok(pidfd) => Ok(Watched {
                pidfd,
                errors,
                belongings,
                ended,
            }),
            Err((pidfd, error)) => {
                Unwatched {
                    pidfd,
                    belongings,
                    ended,
                }
                .end();
                Err(error)
            }
        }
    }
}

/// A pidfd in the worker's event loop; the pidfd itself if the event loop refuses it.
#[expect(
    deprecated,
    reason = "its replacement is unsafe because a type may give away its descriptor; OwnedFd cannot"
)]
fn awaitable(pidfd: OwnedFd) -> Result<AsyncFd<OwnedFd>, (OwnedFd, io::Error)> {
    AsyncFd::try_with_interest(pidfd, Interest::READABLE).map_err(AsyncFdRegisterError::into_parts)
}

/// The watcher: the drawing at the head of `process`.
pub(super) async fn watch(
    process: Arc<Process>,
    watched: Watched<impl FnOnce(EndedProcess) + Send + 'static>,
    mut commands: watch::Receiver<Command>,
) {
    let Watched {
        pidfd,
        mut errors,
        belongings,
        ended,
    } = watched;
    let mut next = Escalation::None;
    let mut ended = Some(ended);
    let mut error_requests = process.errors.requests();
    loop {
        tokio::select! {
            biased;
            _ = pidfd.readable() => break,
            Ok(()) = commands.changed() => next = match *commands.borrow_and_update() {
                Command::Run => next,
                Command::FinishBy(time) => next.or_term(time),
                Command::Stop => next.terminate(process.pid, process.kill_grace),
            },
            () = next.due() => next = match next {
                Escalation::Term(_) => next.terminate(process.pid, process.kill_grace),
                Escalation::Kill(_) => Escalation::kill(process.pid, pidfd.get_ref().as_fd(), process.kill_grace),
                Escalation::GiveUp(_) | Escalation::None => {
                    tracing::error!("{}: cannot be ended; another may be started instead", process.describe());
                    if let Some(ended) = ended.take() {
                        ended(process.end_record(Exit::Code(255)));
                    }
                    Escalation::None
                }
            },
            Ok(()) = error_requests.changed() => {
                errors.read_all();
                process.announce_errors(*error_requests.borrow_and_update());
            }
            () = errors.read() => {}
        }
    }
    let belongings = end_descendants(&process, belongings).await;
    let (exit, usage) = match sluice_launch::reap_with_usage(pidfd.get_ref().as_fd()) {
        Ok(Some(reaped)) => reaped,
        other => {
            tracing::error!(pid = process.pid, "script process cannot be reaped: {other:?}");
            (Exit::Code(255), Usage::default())
        }
    };
    errors.finish();
    tracing::debug!(
        pid = process.pid,
        script = &*process.script(),
        "script process ended: {exit}{}",
        process.end_reason()
    );
    let has_counts = process
        .confinement
        .as_ref()
        .is_some_and(|limits| limits.cgroup.is_any());
    let counts = match &belongings {
        Some(belongings) if has_counts => belongings.counts(),
        _ => Counts::default(),
    };
    // Its temporary files are removed, and its cgroup is free.
    drop(belongings);
    process.announce(exit, usage, counts);
    if let Some(ended) = ended {
        ended(process.end_record(exit));
    }
}

/// Kills what a process has left behind. It must have exited, and must not be reaped yet: until then its number cannot become
/// that of another group or session.
async fn end_descendants(process: &Process, belongings: Belongings) -> Option<Belongings> {
    // Usually this is all.
    if !belongings.end_group() {
        return Some(belongings);
    }
    let ending = tokio::task::spawn_blocking(move || (belongings.end_descendants(), belongings));
    // Fails if the server ends.
    let (ended, belongings) = ending.await.ok()?;
    if let Err(survivors) = ended {
        tracing::error!("{}: {survivors}", process.describe());
    }
    Some(belongings)
}
