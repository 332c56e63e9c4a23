//! The relay: the conversation with one script process about one exchange.
//!
//! Everything that can happen between the request and the end of the reply is in one loop. Whoever wants output drives it: first `Conversation::head`,
//! then the response body, as fast as the client reads.
//!
//! How far the exchange is, is one state (`state`). The order of checks in each turn:
//! ```text
//!   1 request body ─▶ stdin      2 answers ─▶ CGIPLUSIN      3 memory buffer: begins, or ─▶ client
//!   4 bytes read from the mailbox: output, callouts, the end
//!   5 the mailbox itself         6 the process's end         7 the time
//! ```

mod exit_wait;
mod region;
mod request_read;
mod silence;
mod state;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use sluice_gateway::{Answer, Callout, Output, Scanner, ScriptControl};
use sluice_http::fault::{Fault, ScriptFault};
use sluice_http::tasks::yield_now;
use sluice_membuf::ReadFault;
use sluice_watch::Item;
use tokio::time::Sleep;

use self::exit_wait::ExitWait;
use self::region::AnnouncedRegion;
use self::request_read::FirstOutput;
use self::silence::Check;
pub(crate) use self::state::Age;
use self::state::{Delivery, State};
use crate::exchange::{Answering, Buffer, Callouts, Pump};
use crate::process::{BadReply, Channels, Expired, IdleTimer, Process, ScriptEvents, Violation, failed};

/// A callout line without a newline is complete after this time: programs for VMS do not end lines, and the bytes of one write arrive together.
const LINE_PAUSE: Duration = Duration::from_millis(20);

/// A sentinel whose variable was named shortly before counts when the script is silent for this time: it may also be a page that
/// shows the variables. Programs print those without a pause; a loaded machine may stop one in the middle for some time.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// Turns without output after which the other tasks of the worker get theirs.
const TURNS_MAX: usize = 64;

pub(crate) enum ReplyEvent {
    /// Bytes, or one record, on the mailbox: head or body.
    Mailbox(Bytes),
    /// Bytes from the memory buffer: body.
    Bulk(Bytes),
    /// Bytes of the mailbox that a script has put into shared memory (BUFFER-REGION): body. It can still change them.
    Region(Bytes),
    End,
}

pub(crate) struct Relay {
    pub process: Arc<Process>,
    pub channels: Box<Channels>,
    pub scanner: Box<Scanner>,
    pub callouts: Callouts,
    /// The texts for WATCH about the exchange.
    pub events: ScriptEvents,
    pub pump: Option<Pump>,
    /// There was a body: the script may have left some of it unread in its input.
    pub has_body: bool,
    pub idle_timer: IdleTimer,
    delivery: Delivery,
    state: State,
    exit_wait: ExitWait,
    /// Counts down `LINE_PAUSE` or `DOUBT_PAUSE`.
    pause: Option<Pin<Box<Sleep>>>,
    /// Bytes to deliver before all others: body that came with the head, or the last bytes that the scanner held back.
    returned: Option<Bytes>,
    /// The script has sent a callout: it may wait for the answer.
    has_called_out: bool,
    /// The first output after the request, while it is not known whether the script has read of the request.
    first_output: Option<FirstOutput>,
    check: Option<Check>,
    /// `check` also waits for the answer what of CGIPLUSIN is unread.
    is_counting: bool,
    failure: Failure,
    region: AnnouncedRegion,
}

/// The report of a script that has failed (FAILED), on its way to a fault.
#[derive(Clone, Copy, PartialEq)]
enum Failure {
    None,
    /// The last error lines of the script are being read: the number for `Process::poll_errors`.
    ReadingErrors(u64),
    /// The last fault was that failure.
    Reported,
}

impl Relay {
    pub(crate) fn new(
        process: Arc<Process>,
        channels: Box<Channels>,
        scanner: Box<Scanner>,
        callouts: Callouts,
        pump: Option<Pump>,
        idle_timer: IdleTimer,
        events: ScriptEvents,
    ) -> Box<Relay> {
        if events.is_on() {
            process.watch_lines();
        }
        // Boxed, because it is moved several times until its exchange is over.
        Box::new(Relay {
            process,
            returned: None,
            has_called_out: false,
            first_output: None,
            check: None,
            is_counting: false,
            failure: Failure::None,
            channels,
            scanner,
            callouts,
            events,
            has_body: pump.is_some(),
            pump,
            idle_timer,
            delivery: Delivery::Environment,
            state: State::new(Delivery::Environment),
            exit_wait: ExitWait::default(),
            pause: None,
            region: AnnouncedRegion::default(),
        })
    }

    /// Sends the request as the record in `channels.cgiplusin`; the process is kept afterwards.
    pub(crate) fn with_record(mut self: Box<Self>, process: Age) -> Box<Relay> {
        self.delivery = Delivery::Record(process);
        self.state = State::new(self.delivery);
        self
    }

    /// Whether two replies have arrived together: the first may be that of the request before, written before the script read this one and seen afterwards.
    pub(crate) fn has_two_replies(&self) -> bool {
        let has_more = || self.scanner.has_second_end() || self.channels.mailbox.has_next_record();
        self.delivery == Delivery::Record(Age::Used) && self.state.has_ended() && has_more()
    }

    pub(crate) fn is_overtaken(&self) -> bool {
        self.state == State::Overtaken
    }

    /// Whether the end sentinel has arrived: the process can serve again.
    pub(crate) fn has_ended_well(&self) -> bool {
        self.state.has_ended()
    }

    /// Whether an engine has begun to read its request: what happens then is the fault of the script that it runs.
    pub(crate) fn has_read_request(&self) -> bool {
        match self.state {
            State::Overtaken => false,
            State::Stuck => !self.channels.cgiplusin.is_unread(),
            state => !state.is_unread() || !self.channels.cgiplusin.is_unread(),
        }
    }

    /// Whether the script has said that it has failed: its process is not at fault, and can be kept.
    pub(crate) fn has_failed_well(&self) -> bool {
        self.callouts.failure.is_some()
    }

    pub(crate) fn is_failing(&self) -> bool {
        matches!(self.failure, Failure::ReadingErrors(_))
    }

    /// Whether the last fault is a failure that the script has reported; false the next time.
    pub(crate) fn take_failure_report(&mut self) -> bool {
        let is_reported = self.failure == Failure::Reported;
        if is_reported {
            self.failure = Failure::None;
        }
        is_reported
    }

    /// Whether the script has closed the mailbox.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.is_closed()
    }

    /// The head is complete; `rest` came with it and is body. The script may be silent for `limit` now, unless it has set another limit.
    pub(crate) fn begin_body(&mut self, rest: Bytes, limit: Duration) {
        self.state = self.state.begin_body();
        self.returned = (!rest.is_empty()).then_some(rest);
        let limit = self.callouts.control.silence_limit.unwrap_or(Some(limit));
        self.idle_timer.restart(limit);
        if self.delivery != Delivery::Environment {
            self.idle_timer.check_again();
        }
    }

    pub(crate) fn limit_times(&mut self, control: &ScriptControl) {
        if let Some(limit) = control.silence_limit {
            self.idle_timer.restart(limit);
        }
        if let Some(rest) = control.output_limit {
            self.idle_timer.limit_rest(rest);
        }
    }

    /// The client has disconnected: the script may end its reply within `limit`, but its bulk writes fail.
    pub(crate) fn client_gone(&mut self, limit: Duration) {
        self.pump = None;
        self.callouts.is_client_gone = true;
        self.callouts.buffer.client_gone();
        self.idle_timer.restart(Some(limit));
    }

    /// The next event. The fault is the script's (invalid output, its end, a timeout) or the client's (its body is bad).
    pub(crate) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<ReplyEvent, Fault>> {
        if self.events.join() {
            self.join_watch();
        }
        self.events.resume();
        let event = self.poll_turns(context);
        if self.events.is_on() {
            self.events.error_lines(self.process.take_watched_lines());
            if event.is_ready() {
                self.events.pause();
            }
        }
        event
    }

    fn poll_turns(&mut self, context: &mut Context<'_>) -> Poll<Result<ReplyEvent, Fault>> {
        for _ in 0..TURNS_MAX {
            self.move_request(context)?;
            self.pass_answers(context)?;
            if let Some(limit) = self.idle_timer.overdue() {
                return Poll::Ready(Err(self.too_slow(Expired::Deadline(limit))));
            }
            if self.callouts.buffer.is_beginning() {
                ready!(self.poll_begun(context))?;
                continue;
            }
            if let Some(bytes) = self.returned.take()
                && let Some(event) = self.on_output(Output::Bytes(bytes))?
            {
                return Poll::Ready(Ok(event));
            }
            if self.state.has_head()
                && let Some(chunk) = self.take_bulk()?
            {
                return Poll::Ready(Ok(ReplyEvent::Bulk(chunk)));
            }
            if self.callouts.buffer.is_ending() {
                match self.callouts.buffer.poll_closed(context) {
                    Poll::Ready(answer) => {
                        self.events.buffer_answer(answer.as_ref());
                        self.answer(answer)?;
                        continue;
                    }
                    // The client reads at its own pace: the script's time does not run.
                    Poll::Pending if self.state.has_head() || !self.state.is_open() => return Poll::Pending,
                    Poll::Pending => {}
                }
            }
            if let Failure::ReadingErrors(errors) = self.failure {
                ready!(self.process.poll_errors(errors, context));
                self.failure = Failure::Reported;
                let (reason, status) = (self.callouts.failure.clone(), self.callouts.control.http_status);
                if self.delivery == Delivery::Environment {
                    self.process.note_failure();
                }
                let fault = failed(self.process.describe(), reason, status);
                self.events.process(|| format!("fault of {fault}"));
                return Poll::Ready(Err(fault));
            }
            if let Some(output) = self.scanner.next() {
                match self.on_output(output)? {
                    Some(event) => return Poll::Ready(Ok(event)),
                    None => continue,
                }
            }
            match self.state {
                State::Ended(_) => return Poll::Ready(Ok(ReplyEvent::End)),
                State::Closed(_) => {
                    ready!(self.exit_wait.poll(&self.process, context));
                    return Poll::Ready(Ok(ReplyEvent::End));
                }
                State::Unread | State::Overtaken | State::Head | State::Body | State::Stuck => {}
            }
            ready!(self.poll_mailbox(context))?;
        }
        // A script that sends callouts without end must not keep the worker from its other tasks.
        yield_now(context);
        Poll::Pending
    }

    /// Waits for the thread that prepares a memory buffer; what the script writes meanwhile stays in the mailbox.
    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let Poll::Ready(answer) = self.callouts.poll_begun(&mut self.channels.segment, context) else {
            // A write of the script to the memory can delay the thread for as long as the script likes.
            return self.poll_too_slow(context);
        };
        self.idle_timer.progress();
        self.events.buffer_answer(answer.as_ref());
        Poll::Ready(self.answer(answer))
    }

    fn take_bulk(&mut self) -> Result<Option<Bytes>, Fault> {
        let taken = self.callouts.buffer.take();
        let chunk = taken.map_err(|fault| self.unreadable(fault))?;
        if let Some(chunk) = &chunk {
            self.idle_timer.progress();
            self.events.bulk(chunk.len());
        }
        Ok(chunk)
    }

    /// Bytes of the memory, before they go to a socket.
    fn touch(&mut self, bytes: Bytes) -> Result<Bytes, Fault> {
        let touched = self.callouts.buffer.touch(bytes);
        touched.map_err(|fault| self.unreadable(fault))
    }

    fn unreadable(&self, fault: ReadFault) -> Fault {
        if let (ReadFault::Waits, Some(segment)) = (fault, &self.channels.segment) {
            segment.note_wait();
        }
        self.fault(Violation::MemoryBuffer(fault))
    }

    fn on_output(&mut self, output: Output) -> Result<Option<ReplyEvent>, Fault> {
        match output {
            // While a ring is open the mailbox carries only callouts and doorbells (NUL bytes): body bytes there and in the ring would have no order.
            Output::Bytes(bytes) if self.state.has_head() && self.callouts.buffer.is_ring() => {
                if bytes.iter().any(|byte| *byte != 0) {
                    return Err(self.fault(Violation::MailboxDuringRing(bytes.len())));
                }
            }
            Output::Bytes(bytes) => return Ok(Some(ReplyEvent::Mailbox(bytes))),
            Output::Callout(request) => {
                self.has_called_out = true;
                self.events.callout(self.scanner.callout_line());
                if let Callout::ScriptControl(control) = &request.request {
                    self.limit_times(control);
                }
                let has_failed_before = self.has_failed_well();
                let region = self.region_of(&request)?;
                let is_of_buffer = request.request.is_of_buffer();
                if is_of_buffer {
                    self.events.buffer_callout(self.scanner.callout_line());
                }
                let answer = self.callouts.serve(request, &mut self.channels.segment);
                if is_of_buffer {
                    self.events.buffer_answer(answer.as_ref());
                }
                self.answer(answer)?;
                if self.has_failed_well() && !has_failed_before {
                    self.failure = Failure::ReadingErrors(self.process.errors.request());
                }
                return Ok(region);
            }
            Output::CalloutClosed => {}
            Output::Fault(fault) => return Err(self.fault(Violation::Output(fault))),
            Output::End => {
                self.state = self.state.end();
                self.events.note(Item::Mailbox, || {
                    "the end sentinel (CGIPLUSEOF): the reply is complete".into()
                });
                self.end_buffer();
            }
        }
        Ok(None)
    }

    /// Sets the largest number of bytes that are read from the mailbox at once, or taken from a ring.
    pub(crate) fn limit_reads(&mut self, bytes_max: usize) {
        self.channels.mailbox.limit_reads(bytes_max);
        self.callouts.buffer.limit_chunks(bytes_max);
    }

    /// Reads the mailbox. Pending while the script is silent within its limit.
    fn poll_mailbox(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if self.first_output.is_some() {
            return self.poll_first_output(context);
        }
        if let Poll::Ready(read) = self.poll_read(context) {
            return Poll::Ready(read);
        }
        if self.process.poll_exit(context).is_ready() {
            if self.channels.mailbox.needs_thread() {
                return self.poll_read(context);
            }
            // The last bytes are still read. A process that holds the mailbox open after that has left the process group: it is not waited for.
            return Poll::Ready(match self.channels.mailbox.read_now() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.close(),
                read => self.take_read(read),
            });
        }
        // Before the head is complete no doorbell is requested: it would stand among the bytes of the head.
        if self.state.has_head() && !self.callouts.buffer.may_sleep() {
            return Poll::Ready(Ok(()));
        }
        self.callouts.buffer.wake_when_freed(context);
        if self.pass_answers(context)? {
            return Poll::Ready(Ok(()));
        }
        if self.scanner.awaits_line_end() && self.poll_pause(LINE_PAUSE, context).is_ready() {
            self.pause = None;
            self.scanner.complete_paused_line();
            return Poll::Ready(Ok(()));
        }
        if self.scanner.is_in_doubt() && self.poll_pause(DOUBT_PAUSE, context).is_ready() {
            self.pause = None;
            self.scanner.end_doubt();
            return Poll::Ready(Ok(()));
        }
        if self.region.is_awaited() || self.pump.as_ref().is_some_and(Pump::awaits_client) {
            // The script waits for the client, which has its own limit.
            self.idle_timer.progress();
        }
        self.note_silence(context);
        if let Poll::Ready(violation) = self.poll_stuck(context) {
            self.state = State::Stuck;
            return Poll::Ready(Err(self.fault(violation)));
        }
        match ready!(self.idle_timer.poll_expired(context)) {
            Expired::Check => {
                self.check = Some(self.begin_check());
                self.is_counting = true;
                Poll::Ready(Ok(()))
            }
            expired => Poll::Ready(Err(self.too_slow(expired))),
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let read = ready!(self.channels.mailbox.poll_read(context));
        Poll::Ready(self.take_read(read))
    }

    fn take_read(&mut self, read: io::Result<Option<Bytes>>) -> Result<(), Fault> {
        match read {
            Ok(Some(bytes)) => {
                if self.state == State::Unread {
                    let read = self.channels.cgiplusin.reading();
                    self.first_output = Some(FirstOutput { bytes, read });
                } else {
                    self.push(bytes);
                }
                Ok(())
            }
            Ok(None) => self.close(),
            Err(error) => Err(self.fault(Violation::Mailbox(error))),
        }
    }

    fn push(&mut self, bytes: Bytes) {
        self.idle_timer.progress();
        (self.check, self.pause) = (None, None);
        if let Some(pump) = &mut self.pump {
            pump.body.confirm();
        }
        self.events.output(&bytes);
        self.scanner.push(bytes);
    }

    /// The mailbox is closed: held back bytes are delivered, then the end of the process is awaited.
    fn close(&mut self) -> Result<(), Fault> {
        if self.scanner.end_doubt_at_end_of_output() {
            // The mailbox is read again, and found closed, once this output is taken.
            return Ok(());
        }
        self.state = self.state.close();
        self.pause = None;
        self.events
            .note(Item::Mailbox, || "end-of-file: the script has closed its output".into());
        match self.scanner.finish() {
            // Bytes that could have been the start of a sentinel are body.
            Ok(held) => self.returned = held,
            Err(fault) => return Err(self.fault(Violation::Output(fault))),
        }
        self.end_buffer();
        Ok(())
    }

    /// The reply ends without BUFFER-END: the bytes in the buffer are sent, unless the head is missing.
    fn end_buffer(&mut self) {
        if !self.state.has_head() {
            self.callouts.buffer = Buffer::new();
        } else if self.callouts.buffer.is_open() && !self.callouts.buffer.is_ending() {
            self.callouts.buffer.end(Answering::Unwanted);
        }
    }

    fn poll_pause(&mut self, length: Duration, context: &mut Context<'_>) -> Poll<()> {
        let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(length)));
        pause.as_mut().poll(context)
    }

    fn move_request(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        if let (Some(pump), Some(input)) = (&mut self.pump, &mut self.channels.input) {
            if pump.poll(input, context)? {
                self.idle_timer.progress();
                self.check = None;
                let (bytes, events) = (pump.body.consumed(), &self.events);
                events.note(Item::Cgiplusin, || {
                    format!("standard input: {bytes} bytes of the request's body so far")
                });
            }
            // The pump may have nothing more for now, while bytes that it has passed on wait for room in the pipe.
            let _ = input.pipe.drive(context);
            // A CGI script gets end-of-file after the last byte. A kept process keeps its input for the next request.
            let is_written = pump.is_done && input.pipe.poll_flushed(context).is_ready();
            if is_written && self.delivery == Delivery::Environment {
                self.pump = None;
                self.channels.input = None;
            }
        } else if self.has_body
            && let Some(input) = self.channels.input.as_mut().filter(|input| !input.is_idle())
        {
            // The last bytes of the body may still be on their way, also when its client has left.
            let _ = input.pipe.poll_flushed(context);
        }
        Ok(())
    }

    /// Sends the answers of parts of the buffer that were sent meanwhile. True if there was one.
    fn pass_answers(&mut self, context: &mut Context<'_>) -> Result<bool, Fault> {
        let mut has_answered = self.answer_freed(context)?;
        while let Some(answer) = self.callouts.buffer.answer() {
            self.events.buffer_answer(Some(&answer));
            self.answer(Some(answer))?;
            has_answered = true;
        }
        self.channels.cgiplusin.flush(context);
        Ok(has_answered)
    }

    fn answer(&mut self, answer: Option<Answer>) -> Result<(), Fault> {
        let Some(answer) = answer else { return Ok(()) };
        self.events.answer(&answer);
        let added = self.channels.cgiplusin.add(&answer.encode());
        added.map_err(|error| self.fault(Violation::Answers(error)))
    }

    pub(crate) fn fault(&self, violation: Violation) -> Fault {
        let process = self.process.describe();
        self.events.process(|| format!("fault of {process}: {violation}"));
        ScriptFault::BadReply(Arc::new(BadReply { process, violation })).into()
    }
}
