//! The reaper of a script process: the task that alone reads its standard error, awaits its end, and sends it signals.

use std::io;
use std::sync::Arc;

use sluice_launch::{End, Exit, RemoteProcess};
use tokio::sync::{oneshot, watch};

use super::{Command, Process};
use crate::process::end_cause::EndedProcess;
use crate::process::escalation::Escalation;
use crate::process::pipe_end::PipeEnd;
use crate::process::stderr::StderrReader;
use crate::process::unclaimed::end_unclaimed;

pub(super) struct Reaper<E: Send + 'static> {
    remote: RemoteProcess,
    end: oneshot::Receiver<End>,
    errors: StderrReader,
    ended: E,
}

impl<E: Send + 'static> Reaper<E> {
    /// Ends the process if the event loop refuses a descriptor: nobody else would.
    pub(super) fn register(
        mut remote: RemoteProcess,
        stderr: PipeEnd,
        process: &Arc<Process>,
        ended: E,
    ) -> io::Result<Reaper<E>> {
        let errors = match StderrReader::new(stderr, Arc::clone(process)) {
            Ok(errors) => errors,
            Err(error) => {
                end_unclaimed(remote, ended);
                return Err(error);
            }
        };
        let (announce, end) = oneshot::channel();
        // Fails if the server ends.
        remote.on_end(move |end| drop(announce.send(end)));
        Ok(Reaper {
            remote,
            end,
            errors,
            ended,
        })
    }
}

/// The reaper: the drawing at the head of `process`.
pub(super) async fn reap(
    process: Arc<Process>,
    reaper: Reaper<impl FnOnce(EndedProcess) + Send + 'static>,
    mut commands: watch::Receiver<Command>,
) {
    let Reaper {
        remote,
        mut end,
        mut errors,
        ended,
    } = reaper;
    let mut next = Escalation::None;
    let mut ended = Some(ended);
    let mut error_requests = process.errors.requests();
    let mut requested = None;
    let end = loop {
        if let Some(number) = requested.take_if(|_| !errors.has_bytes()) {
            errors.log_record();
            process.announce_errors(number);
        }
        tokio::select! {
            biased;
            end = &mut end => match end {
                Ok(end) => break end,
                // The server ends, and the launcher with it.
                Err(_) => return,
            },
            Ok(()) = commands.changed() => next = match *commands.borrow_and_update() {
                Command::Run => next,
                Command::FinishBy(time) => next.or_term(time),
                Command::Stop => next.terminate(&remote, process.kill_grace),
            },
            () = next.due() => next = match next {
                Escalation::Term(_) => next.terminate(&remote, process.kill_grace),
                Escalation::Kill(_) => Escalation::kill(&remote, process.kill_grace),
                Escalation::GiveUp(_) | Escalation::None => {
                    tracing::error!("{}: cannot be ended; another may be started instead", process.describe());
                    if let Some(ended) = ended.take() {
                        ended(process.end_record(Exit::Code(255)));
                    }
                    Escalation::None
                }
            },
            Ok(()) = error_requests.changed() => requested = Some(*error_requests.borrow_and_update()),
            () = errors.read() => {}
        }
    };
    if let Some(problem) = &end.problem {
        tracing::error!("{}: {problem}", process.describe());
    }
    errors.finish().await;
    tracing::debug!(
        pid = process.pid,
        script = &*process.script(),
        "script process ended: {}{}",
        end.exit,
        process.end_reason()
    );
    process.announce(&end);
    if let Some(ended) = ended {
        ended(process.end_record(end.exit));
    }
}
