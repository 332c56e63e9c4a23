//! The end of an exchange: what happens to the process and its lease.
//!
//! | the exchange ends | process of one request (CGI) | kept process (CGIplus) |
//! |---|---|---|
//! | complete | may end by itself, within `output_timeout` | back to its pool |
//! | all announced bytes are sent | drained within `output_timeout`, then as above | the same |
//! | no body is wanted (HEAD) | drained within `client_grace`, then as above | the same |
//! | a fault | stopped | stopped |
//! | a fault of the client in its body | stopped | stopped; an engine of this server learns it, and is drained within `client_grace` |
//! | the script has failed, and says so (FAILED) | drained within `client_grace`, then as above | the same |
//! | the client has disconnected | stopped; drained within `client_grace` if the route names it | drained within `client_grace`, with failing bulk writes |
//! | the client is sent elsewhere (local redirect, a file instead of a body) | the same as CGIplus above | the same |
//!
//! To drain is to read the output to its end in a background task, so that the last callouts are answered and the process
//! ends well or can serve again. A process that is not done when the time is over, or that breaks the protocol, is stopped.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_http::fault::{Culprit, Fault};
use sluice_http::tasks::yield_now;
use sluice_launch::Exit;
use sluice_membuf::Segment;
use tokio::sync::oneshot::error::RecvError;

use crate::exchange::{BodyFilter, Conversation, Link, Relay};
use crate::pool::{IdleProcess, Lease, Release, release_text};
use crate::process::{AFTER_SENTINEL, EndCause, Process, ScriptEvents, Violation, measure, time_text};
use crate::scripts::Scripts;

/// Chunks that a background task discards before the other tasks of the worker get their turn.
const CHUNKS_MAX: usize = 32;

#[derive(Debug)]
pub(crate) enum Ending {
    /// The reply is complete: the process may end by itself, or goes back to its pool.
    Complete,
    /// Drained for no longer than this.
    Drain(Duration),
    /// The client has disconnected or was sent elsewhere: drained, but bulk writes of the script fail.
    ClientGone(Duration),
    /// Stopped, because it is of no more use, for this cause.
    Stop(EndCause),
}

/// Whether somebody waits for the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Waiting,
    Gone,
}

impl Ending {
    pub(crate) fn of_dropped(conversation: &Conversation) -> Option<Ending> {
        let relay = conversation.relay()?;
        Some(match (conversation.audience, conversation.culprit) {
            (Audience::Gone, _) => Ending::Stop(EndCause::ClientGone),
            (Audience::Waiting, Some(culprit)) => Ending::of_failed(conversation, relay, culprit),
            (Audience::Waiting, None) => {
                let events = &relay.events;
                events.process(|| "the client has left, or the response was aborted".into());
                Ending::of_left(conversation)
            }
        })
    }

    /// For an exchange that its client leaves.
    fn of_left(conversation: &Conversation) -> Ending {
        let (settings, timeouts) = (conversation.settings(), &conversation.settings().timeouts);
        // Where no process is kept, only the configuration gives the script time.
        let grace = timeouts.client_grace.filter(|grace| !grace.is_zero());
        if conversation.progress.is_ended() {
            Ending::Stop(EndCause::RequestEnded)
        } else if conversation.filter.is_satisfied() {
            Ending::Drain(timeouts.output)
        } else if settings.mode.keeps_process() || grace.is_some() {
            Ending::ClientGone(timeouts.client_grace())
        } else {
            Ending::Stop(EndCause::ClientGone)
        }
    }

    fn of_failed(conversation: &Conversation, relay: &Relay, culprit: Culprit) -> Ending {
        let input = relay.channels.input.as_ref();
        let can_be_kept = culprit == Culprit::Client && input.is_some_and(|input| input.can_be_cut);
        match can_be_kept || relay.has_failed_well() {
            true => Ending::ClientGone(conversation.settings().timeouts.client_grace()),
            false => Ending::Stop(EndCause::Fault),
        }
    }

    /// For a script that has written all. The script's fault: its reply is not complete.
    pub(crate) fn of_written(conversation: &Conversation) -> Result<Ending, Fault> {
        let Some(relay) = conversation.relay() else {
            return Ok(Ending::Complete);
        };
        let (filter, audience) = (&conversation.filter, conversation.audience);
        if let (Some(bytes @ 1..), Audience::Waiting) = (filter.missing_bytes, audience) {
            return Err(relay.fault(Violation::Short(bytes)));
        }
        if !conversation.settings().mode.keeps_process() {
            return match relay.process.exit() {
                Some(Exit::Signal(_)) if !filter.is_satisfied() => Err(relay.fault(Violation::EndedWithinBody)),
                Some(Exit::Code(1..)) if conversation.lacks_body() && audience == Audience::Waiting => {
                    Err(relay.fault(Violation::FailedAfterHead))
                }
                _ => Ok(Ending::Complete),
            };
        }
        if relay.has_two_replies() && audience == Audience::Waiting {
            return Err(relay.fault(Violation::TwoReplies));
        }
        if relay.has_ended_well() {
            return Ok(Ending::Complete);
        }
        if !filter.is_satisfied() {
            return Err(relay.fault(Violation::NoSentinel));
        }
        // The client has all bytes that were announced; only the process cannot be kept.
        let process = relay.process.describe();
        conversation
            .scripts
            .warn(format_args!("{process}: {}", Violation::NoSentinel));
        Ok(Ending::Stop(EndCause::Fault))
    }

    pub(crate) fn carry_out(self, conversation: &mut Conversation) {
        let Some(mut link) = conversation.link.take() else {
            return;
        };
        self.note(&link.relay, &conversation.filter);
        match self {
            Ending::Complete => complete(conversation, link),
            Ending::Drain(limit) => drain(conversation, link, limit),
            Ending::ClientGone(limit) => {
                cut_body(&mut link.relay);
                link.relay.client_gone(limit);
                drain(conversation, link, limit);
            }
            Ending::Stop(cause) => {
                let Link { relay, lease } = link;
                if conversation.settings().mode.has_engine() && relay.has_read_request() {
                    lease.excuse();
                }
                // Its input stays open until it has ended: otherwise half a body would look complete to it.
                relay.process.stop_holding(relay.channels.input, cause);
                note_end(&conversation.scripts, &relay.process, &relay.events);
            }
        }
    }

    fn note(&self, relay: &Relay, filter: &BodyFilter) {
        relay.events.process(|| {
            let (pid, totals) = (relay.process.pid, relay.events.totals());
            match self {
                Ending::Complete => format!("the reply is complete: {totals}"),
                Ending::Drain(limit) | Ending::ClientGone(limit) => {
                    let why = match self {
                        Ending::ClientGone(_) => "the client has left, or is sent elsewhere",
                        _ if filter.is_satisfied() => "all bytes that were announced have come",
                        _ => "no body is wanted",
                    };
                    let limit = time_text(*limit);
                    format!("pid {pid} may write on for {limit}, and nobody gets it: {why}; so far {totals}")
                }
                Ending::Stop(_) if relay.process.exit().is_some() => {
                    format!("pid {pid} writes no more; it has written {totals}")
                }
                Ending::Stop(_) => format!("pid {pid} is stopped (SIGTERM, then SIGKILL); it has written {totals}"),
            }
        });
    }
}

/// Notes the end of a process that is not returned to its pool, once it has ended.
fn note_end(scripts: &Scripts, process: &Arc<Process>, events: &ScriptEvents) {
    if !events.is_on() {
        return;
    }
    let (process, events) = (Arc::clone(process), events.clone());
    scripts.tasks().spawn(async move {
        poll_fn(|context| process.poll_exit(context)).await;
        events.error_lines(process.take_watched_lines());
        if let Some(text) = process.end_text() {
            events.process(|| text);
        }
    });
}

/// An engine that has not got all of the body learns that no more of it comes.
fn cut_body(relay: &mut Relay) {
    if relay.pump.take().is_some_and(|pump| !pump.is_done)
        && let Some(input) = &mut relay.channels.input
    {
        input.end_early();
    }
}

/// Reads the output to its end in the background. The process is stopped if the task ends before the script has written all.
fn drain(conversation: &mut Conversation, mut link: Link, limit: Duration) {
    link.relay.process.note_draining();
    // One that was reported before has been logged.
    let _ = link.relay.take_failure_report();
    let events = link.relay.events.clone();
    let mut detached = conversation.detach(link);
    let is_satisfied = detached.filter.is_satisfied();
    conversation.scripts.tasks().spawn(async move {
        let end = poll_fn(|context| poll_drained(&mut detached, context));
        match tokio::time::timeout(limit, end).await {
            Ok(Err(fault)) if is_satisfied => detached.scripts.warn(format_args!("after a complete reply: {fault}")),
            Ok(Err(fault)) => tracing::debug!("after its client has left: {fault}"),
            Ok(Ok(())) => {}
            Err(_) => events.process(|| format!("not done after {}", time_text(limit))),
        }
    });
}

/// Ready when the script has written all, and the exchange is over.
fn poll_drained(conversation: &mut Conversation, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
    for _ in 0..CHUNKS_MAX {
        match ready!(conversation.poll_output(context)) {
            Some(Ok(_)) => {}
            Some(Err(fault)) if conversation.relay_mut().is_some_and(Relay::take_failure_report) => {
                conversation.scripts.warn(format_args!("{fault}"));
            }
            Some(Err(fault)) => return Poll::Ready(Err(fault)),
            None => {
                Ending::of_written(conversation)?.carry_out(conversation);
                return Poll::Ready(Ok(()));
            }
        }
    }
    yield_now(context);
    Poll::Pending
}

fn complete(conversation: &Conversation, link: Link) {
    let Conversation { scripts, filter, .. } = conversation;
    let Link { relay, lease } = link;
    let settings = conversation.settings();
    let keeps_process = settings.mode.keeps_process();
    if filter.surplus_bytes > 0 {
        let bytes = filter.surplus_bytes;
        let text = format!("{bytes} bytes over its Content-Length, or after its last chunk, were not sent");
        scripts.warn(format_args!("{}: {text}", relay.process.describe()));
        relay.events.process(|| text);
    }
    if keeps_process && relay.needs_settling() {
        let (scripts, mut relay) = (Rc::clone(scripts), relay);
        conversation.scripts.tasks().spawn(async move {
            relay.settle().await;
            return_to_pool(&scripts, relay, lease);
        });
    } else if keeps_process {
        return_to_pool(scripts, relay, lease);
    } else {
        relay.process.finish(settings.timeouts.output);
        note_end(scripts, &relay.process, &relay.events);
    }
}

/// A process that is ready for its next request, but for the memory that it may have to release.
struct Restored {
    idle: IdleProcess,
    lease: Lease,
    events: ScriptEvents,
}

/// The process of a complete exchange without a client, ready for its next request, and its lease. `None` if that fails: it is stopped then.
pub(crate) async fn reclaim(mut conversation: Box<Conversation>) -> Option<(IdleProcess, Lease)> {
    let Link { mut relay, lease } = conversation.link.take()?;
    relay.settle().await;
    let Restored { mut idle, lease, .. } = restore(&conversation.scripts, relay, lease)?;
    trim_segment(&mut idle).await.ok()?;
    Some((idle, lease))
}

/// Returns a process to its pool, ready for its next request; stops it if it cannot be made ready.
fn return_to_pool(scripts: &Rc<Scripts>, relay: Box<Relay>, lease: Lease) {
    let Some(restored) = restore(scripts, relay, lease) else {
        return;
    };
    if needs_trim(&restored.idle) || restored.lease.pool.bounds_memory() {
        scripts.tasks().spawn(trim_and_measure(Rc::clone(scripts), restored));
        return;
    }
    release(scripts, restored, None);
}

/// Makes a process ready for its next request; stops it if that is not possible.
fn restore(scripts: &Scripts, relay: Box<Relay>, lease: Lease) -> Option<Restored> {
    if relay.events.is_on() {
        relay.events.error_lines(relay.process.take_watched_lines());
    }
    relay.process.end_exchange();
    let Relay {
        process,
        mut channels,
        mut scanner,
        callouts,
        events,
        has_body,
        idle_timer,
        ..
    } = *relay;
    if let Some(lifetime) = callouts.lifetime {
        lease.set_lifetime(lifetime);
    }
    let stop = |cause| {
        process.stop(cause);
        note_end(scripts, &process, &events);
    };
    if scanner.has_trailing_output() {
        let pid = process.pid;
        scripts.misbehaviour.log(&process, AFTER_SENTINEL);
        events.process(|| format!("pid {pid} is stopped: it wrote after the end sentinel (CGIPLUSEOF)"));
        stop(EndCause::Misbehaved);
        return None;
    }
    let input = channels.input.as_ref().filter(|_| has_body);
    let problems = [
        (
            "the rest of its request body",
            input.and_then(|input| input.problem.as_ref()),
        ),
        ("the answers that it has not read", channels.cgiplusin.problem.as_ref()),
    ];
    if let Some((what, error)) = problems.into_iter().find_map(|(what, error)| Some((what, error?))) {
        let process = process.describe();
        scripts.warn(format_args!("{process}: {what} cannot be taken out: {error}"));
        stop(EndCause::Unusable);
        return None;
    }
    match &mut channels.segment {
        Some(segment) => segment.end_exchange(),
        // A thread that prepared a buffer has lost it.
        None if callouts.memory_buffer_max > 0 => {
            process.stop(EndCause::Unusable);
            return None;
        }
        None => {}
    }
    channels.cgiplusin.settle_offer(callouts.wants_socket);
    scanner.restart();
    channels.mailbox.end_reply(&scripts.spare_room);
    let idle = IdleProcess {
        process,
        channels,
        worker: scripts.worker,
        encoding: callouts.encoding.unwrap_or_default(),
        scanner,
        timer: idle_timer.timer,
    };
    Some(Restored { idle, lease, events })
}

fn needs_trim(idle: &IdleProcess) -> bool {
    let segment = idle.channels.segment.as_ref();
    segment.is_some_and(|segment| segment.needs_trim())
}

/// Has a thread release the memory that an idle process does not keep. Fails if the segment is lost.
async fn trim_segment(idle: &mut IdleProcess) -> Result<(), RecvError> {
    if needs_trim(idle)
        && let Some(segment) = idle.channels.segment.take()
    {
        let (segment, ()) = segment.perform(0, Segment::trim).await?;
        idle.channels.segment = Some(segment);
    }
    Ok(())
}

/// Returns a process to its pool after a thread has released the memory that an idle process does not keep, and has measured the rest, if that is bounded. A write of the
/// script to that memory delays the thread, and so the script's own process.
async fn trim_and_measure(scripts: Rc<Scripts>, mut restored: Restored) {
    let process = Arc::clone(&restored.idle.process);
    if trim_segment(&mut restored.idle).await.is_err() {
        return process.stop(EndCause::Unusable);
    }
    let memory_bytes = match restored.lease.pool.bounds_memory() {
        true => measure(&process).await,
        false => None,
    };
    release(&scripts, restored, memory_bytes);
}

fn release(scripts: &Scripts, restored: Restored, memory_bytes: Option<u64>) {
    let Restored { idle, lease, events } = restored;
    let process = Arc::clone(&idle.process);
    let release = lease.release(idle, memory_bytes);
    events.process(|| release_text(release, process.pid));
    if let Release::Retire(_) = release {
        note_end(scripts, &process, &events);
    }
}
