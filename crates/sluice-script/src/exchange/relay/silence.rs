//! A script that is silent: what it waits for, and the fault if that never comes or takes too long.

use std::future::Future;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_http::fault::{Awaited, DeadlineExceeded, Fault, ScriptFault, Silence};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Relay;
use super::state::{Age, Delivery, State};
use crate::exchange::Pump;
use crate::process::{BlockedRead, ChannelId, Expired, Input, ObservedProcess, Violation, blocked_read, time_text};

/// The channels of a process, for the events of WATCH.
const CGIPLUSIN: &str = "CGIPLUSIN";
const INPUT: &str = "its standard input";

/// A question what the script waits for.
pub(super) struct Check {
    found: JoinHandle<Option<BlockedRead>>,
    before: Sent,
}

/// The part of its request that the script had before the check began. What comes afterwards says nothing about the read in which it was found.
#[derive(Clone, Copy)]
struct Sent {
    /// Whether the script has read its whole request.
    is_request_read: bool,
    /// Whether its whole input is in the pipe, or read.
    is_input_written: bool,
}

impl Relay {
    /// How the script has shown that it is made for the other mode, if it has. A process that has served before is not, nor is one whose own error says more.
    pub(crate) fn wrong_mode(&self) -> Option<&'static str> {
        let is_unread = || self.channels.cgiplusin.is_unread();
        match (self.delivery, self.state) {
            (Delivery::Environment, State::Stuck) => {
                Some("waits for a request on CGIPLUSIN, where a CGI script gets none; it is a CGIplus script")
            }
            (Delivery::Environment | Delivery::Record(Age::Used), _) => None,
            (Delivery::Record(Age::New), State::Overtaken) => {
                Some("wrote to its mailbox before it had read the request (CGIPLUSIN), as a CGI script does")
            }
            (Delivery::Record(Age::New), State::Stuck) => is_unread().then_some(
                "waits for its standard input and has not read the request (CGIPLUSIN), as a CGI script does",
            ),
            (Delivery::Record(Age::New), state) => {
                let has_ended = state.is_unread() && self.process.exit().is_some() && is_unread();
                (has_ended && !self.process.describe().has_failed()).then_some(
                    "ended before it had read the request (CGIPLUSIN); if it does not read requests there, it is a CGI script",
                )
            }
        }
    }

    /// Ready if the script waits for something that never comes.
    pub(super) fn poll_stuck(&mut self, context: &mut Context<'_>) -> Poll<Violation> {
        let Some(check) = &mut self.check else {
            return Poll::Pending;
        };
        if self.is_counting {
            // `never_comes` relies on it.
            let _ = ready!(self.channels.cgiplusin.poll_is_unread(context));
            self.is_counting = false;
        }
        let found = ready!(Pin::new(&mut check.found).poll(context)).ok().flatten();
        let before = check.before;
        self.check = None;
        match found.and_then(|found| self.never_comes(found, before)) {
            // Bytes in the mailbox may be a callout, and then the script waits for its answer.
            Some(violation) if self.channels.mailbox.is_empty() => Poll::Ready(violation),
            _ => Poll::Pending,
        }
    }

    pub(super) fn begin_check(&self) -> Check {
        let is_flushed = |input: &Input| input.pipe.is_flushed();
        let before = Sent {
            is_request_read: self.channels.cgiplusin.is_all_read(),
            is_input_written: self.pump.as_ref().is_none_or(|pump| pump.is_done)
                && self.channels.input.as_ref().is_none_or(is_flushed),
        };
        Check {
            found: blocked_read::find(&self.process.probe, self.input_channels()),
            before,
        }
    }

    fn input_channels(&self) -> [Option<ChannelId>; 3] {
        let cgiplusin = &self.channels.cgiplusin;
        let input = self.channels.input.as_ref().map(|input| input.pipe.as_fd());
        [Some(cgiplusin.as_fd()), Some(cgiplusin.answers_fd()), input].map(|fd| fd.and_then(ChannelId::of))
    }

    /// Whether what the script waits for never comes: in CGI a request, in CGIplus the next request before it has ended its reply, or
    /// more input than the body has. `wrong_mode` says what the first of them, and input before the first request, mean.
    fn never_comes(&self, found: BlockedRead, before: Sent) -> Option<Violation> {
        let cgiplusin = &self.channels.cgiplusin;
        let reads = |fd: Option<BorrowedFd<'_>>| fd.and_then(ChannelId::of) == Some(found.channel);
        let reads_input = || reads(self.channels.input.as_ref().map(|input| input.pipe.as_fd()));
        match self.delivery {
            // It waits for an answer, or the end of its reply is not certain yet.
            _ if self.has_called_out || self.scanner.awaits_line_end() || self.scanner.is_in_doubt() => None,
            Delivery::Environment => {
                (!self.state.has_head() && reads(Some(cgiplusin.as_fd()))).then_some(Violation::AwaitsNextRequest)
            }
            Delivery::Record(_) if self.state.is_unread() && cgiplusin.is_unread() => {
                if cgiplusin.comes_by_socket() && found.is_alone && reads(Some(cgiplusin.answers_fd())) {
                    return Some(Violation::AwaitsOtherChannel);
                }
                reads_input().then_some(Violation::AwaitsMoreInput)
            }
            _ if !found.is_alone => None,
            _ if before.is_request_read && reads(Some(cgiplusin.as_fd())) => Some(Violation::AwaitsNextRequest),
            _ => (before.is_input_written && reads_input()).then_some(Violation::AwaitsMoreInput),
        }
    }

    #[cold]
    pub(super) fn join_watch(&self) {
        self.process.watch_lines();
        if self.state.has_head() {
            self.events.join_body();
        }
        let silent_since = self.idle_timer.waiting_since.unwrap_or_else(Instant::now);
        self.events
            .join_process(&self.process.spec.sentinels, silent_since, || {
                let mut text = format!("{} has the request", self.process.describe());
                text.push_str(match self.awaited() {
                    Awaited::Start => "; it has not read it (CGIPLUSIN)",
                    Awaited::Head => "; the head of its reply is not complete",
                    Awaited::Body | Awaited::BodyInOwnTime => "; the head of its reply is complete",
                    Awaited::EndWithoutClient => "; its client has left",
                });
                if self.has_called_out {
                    text.push_str("; it has sent callouts");
                }
                if self.callouts.buffer.is_ring() {
                    text.push_str("; it uses its memory buffer");
                }
                if self.pump.as_ref().is_some_and(Pump::awaits_client) {
                    text.push_str("; the server waits for the client to send the rest of the request's body");
                }
                text
            });
    }

    /// Notes from time to time, while the script is silent, what its process does.
    pub(super) fn note_silence(&self, context: &mut Context<'_>) {
        if !self.events.is_on() {
            return;
        }
        if let Poll::Ready((silent, observed)) = self.events.poll_silence(&self.process.probe, context) {
            self.events.process(|| self.silence_text(silent, observed.as_deref()));
            // The timer of the next one.
            let _ = self.events.poll_silence(&self.process.probe, context);
        }
    }

    fn silence_text(&self, silent: Duration, observed: Option<&ObservedProcess>) -> String {
        let (pid, seconds) = (self.process.pid, silent.as_secs());
        let mut text = match seconds {
            0 => format!("pid {pid}: "),
            _ => format!("pid {pid} has been silent for {seconds} s: "),
        };
        match observed {
            Some(observed) => text.push_str(&observed.text(|file| self.channel(file))),
            None => text.push_str("it has ended"),
        }
        let read = observed
            .and_then(ObservedProcess::reads_from)
            .and_then(|file| self.channel(file));
        let cgiplusin = &self.channels.cgiplusin;
        let hint = match self.awaited() {
            _ if self.pump.as_ref().is_some_and(Pump::awaits_client) => {
                "; the server waits for the client to send the rest of the request's body"
            }
            _ if self.delivery == Delivery::Environment && read == Some(CGIPLUSIN) => {
                "; a CGI script gets no request there: is it made for CGIplus?"
            }
            _ if read == Some(CGIPLUSIN) && cgiplusin.is_all_read() => {
                "; it has read all that was sent there, and has not ended its reply: has it flushed its output, and written \
                 CGIPLUSEOF?"
            }
            _ if read == Some(INPUT) => "; all that was received of the request's body was sent there",
            Awaited::Start => "; it has not read its request (CGIPLUSIN)",
            Awaited::Head => "; the head of its reply is not complete",
            Awaited::Body | Awaited::BodyInOwnTime => "; its reply has not ended",
            Awaited::EndWithoutClient => "; its client has left",
        };
        text.push_str(hint);
        text
    }

    /// Which channel of the process a file is, by its link in /proc.
    fn channel(&self, file: &str) -> Option<&'static str> {
        let is = |fd: Option<BorrowedFd<'_>>| fd.and_then(ChannelId::of).is_some_and(|id| id.is_named(file));
        let cgiplusin = &self.channels.cgiplusin;
        if is(Some(cgiplusin.as_fd())) || is(Some(cgiplusin.answers_fd())) {
            return Some(CGIPLUSIN);
        }
        is(self.channels.input.as_ref().map(|input| input.pipe.as_fd())).then_some(INPUT)
    }

    /// Ready with the fault once the script has been silent for too long, and without one when it is time for a check.
    pub(super) fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        match ready!(self.idle_timer.poll_expired(context)) {
            Expired::Check => Poll::Ready(Ok(())),
            expired => Poll::Ready(Err(self.too_slow(expired))),
        }
    }

    pub(super) fn too_slow(&self, expired: Expired) -> Fault {
        let process = Arc::new(self.process.describe());
        self.events.process(|| match expired {
            Expired::Silence(limit) => format!("{process} is stopped: silent for {}", time_text(limit)),
            Expired::Deadline(limit) => format!("{process} is stopped: the request took {}", time_text(limit)),
            Expired::Check => String::new(),
        });
        match expired {
            Expired::Silence(limit) => ScriptFault::Silent(Box::new(Silence {
                process,
                limit,
                awaited: self.awaited(),
                keeps_process: self.delivery != Delivery::Environment,
            }))
            .into(),
            Expired::Check => Fault::unexpected("a check is no time-out"),
            Expired::Deadline(limit) => {
                ScriptFault::DeadlineExceeded(Box::new(DeadlineExceeded { process, limit })).into()
            }
        }
    }

    /// The next part of the reply that the script is expected to write.
    fn awaited(&self) -> Awaited {
        match () {
            () if self.callouts.is_client_gone => Awaited::EndWithoutClient,
            () if self.state.has_head() && self.callouts.control.silence_limit.is_some() => Awaited::BodyInOwnTime,
            () if self.state.has_head() => Awaited::Body,
            () if self.state.is_unread() && self.channels.cgiplusin.is_unread() => Awaited::Start,
            () => Awaited::Head,
        }
    }
}
