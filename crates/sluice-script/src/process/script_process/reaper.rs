//! The reaper of a script process: the task that alone reads its standard error, awaits its end, and sends it signals.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sluice_launch::{End, Exit, RemoteProcess, Signal};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::{Command, Process};
use crate::process::{EndedProcess, PipeEnd, ReaderShared, StderrReader, end_unclaimed};

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
        Ok(Reaper { remote, end, errors, ended })
    }
}

/// The reaper: the drawing at the head of `process`.
pub(super) async fn reap(
    process: Arc<Process>,
    reaper: Reaper<impl FnOnce(EndedProcess) + Send + 'static>,
    mut commands: watch::Receiver<Command>,
) {
    let Reaper { remote, mut end, mut errors, ended } = reaper;
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
                Command::Stop => next.terminate(&remote, process.spec.kill_grace),
            },
            () = next.due() => next = match next {
                Escalation::Term(_) => next.terminate(&remote, process.spec.kill_grace),
                Escalation::Kill(_) => Escalation::kill(&remote, process.spec.kill_grace),
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

/// Least time after SIGKILL, which a process that waits for a disk does not obey, before it gives up its place in the pool.
const UNKILLABLE_AFTER: Duration = Duration::from_secs(2);

/// The next signal, and when.
#[derive(Clone, Copy)]
enum Escalation {
    None,
    Term(Instant),
    Kill(Instant),
    /// No signal has helped.
    GiveUp(Instant),
}

impl Escalation {
    /// Waits until it is time for it.
    async fn due(&self) {
        match self {
            Escalation::None => std::future::pending().await,
            Escalation::Term(time) | Escalation::Kill(time) | Escalation::GiveUp(time) => {
                tokio::time::sleep_until(*time).await;
            }
        }
    }

    /// SIGTERM at this time, unless a signal is due already.
    fn or_term(self, time: Instant) -> Escalation {
        match self {
            Escalation::None => Escalation::Term(time),
            other => other,
        }
    }

    /// Asks the process group to end, unless that was done before.
    fn terminate(self, process: &RemoteProcess, kill_grace: Duration) -> Escalation {
        if let Escalation::Kill(_) | Escalation::GiveUp(_) = self {
            return self;
        }
        process.signal(Signal::Terminate);
        Escalation::Kill(Instant::now() + kill_grace)
    }

    fn kill(process: &RemoteProcess, kill_grace: Duration) -> Escalation {
        process.signal(Signal::Kill);
        Escalation::GiveUp(Instant::now() + kill_grace.max(UNKILLABLE_AFTER))
    }
}

/// The standard error of a process, for those who do not read it themselves. The event loop may have the reaper read it only after the end of the
/// reply; where a line must come with its exchange, the reaper is asked to read at once.
pub(crate) struct UnreadErrors {
    pipe: OnceLock<Arc<ReaderShared>>,
    /// How often it is to be read to the end.
    requests: watch::Sender<u64>,
}

impl UnreadErrors {
    /// The errors of a process whose pipe is not registered yet.
    pub(crate) fn new() -> UnreadErrors {
        UnreadErrors {
            pipe: OnceLock::new(),
            requests: watch::Sender::new(0),
        }
    }

    pub(crate) fn set_pipe(&self, pipe: &Arc<ReaderShared>) {
        let _ = self.pipe.set(Arc::clone(pipe));
    }

    /// Whether the pipe has bytes, or they have been read and are not logged yet. One system call, which takes no lock of the pipe.
    pub(crate) fn has_bytes(&self) -> bool {
        self.pipe.get().is_some_and(|pipe| pipe.has_bytes())
    }

    /// Has the reaper read what is there. Returns the number of the request.
    pub(crate) fn request(&self) -> u64 {
        let mut number = 0;
        self.requests.send_modify(|requests| {
            *requests += 1;
            number = *requests;
        });
        number
    }

    pub(crate) fn requests(&self) -> watch::Receiver<u64> {
        self.requests.subscribe()
    }
}
