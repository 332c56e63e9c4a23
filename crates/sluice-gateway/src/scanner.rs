//! The mailbox scanner: takes a script's output apart into body bytes, callouts and the end of the response.
//!
//! It does not read the mailbox (the server pushes what it has read), does not parse the reply's head (`script_head` gets
//! the bytes that come out here) and answers no callout. Bytes come out as slices of what went in, uncopied; 27 of them at
//! most are held back while they may be the beginning of a sentinel.
//!
//! ```text
//!             escape                     end
//!   callout <--------+                +------> ended --restart--> body
//!      |             |                |
//!      +-- close --> body ------------+        (CGI: only end-of-file ends)
//!      |
//!      +-- end, escape, too long --> faulted
//! ```

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes};
use memchr::memchr2;
use memchr::memmem::Finder;

use crate::callout_lines::CalloutLines;
use crate::environment_dump::Preceding;
use crate::output::{EndMark, MailboxKind, Output, OutputFault};
use crate::sentinel::{Beginning, Comparison, Mark, SENTINEL_BYTES, Sentinels};

/// The scanner of one script process's mailbox.
///
/// Push what was read, then call [`Scanner::next`] until it gives `None`; at end-of-file call [`Scanner::finish`].
pub struct Scanner {
    kind: MailboxKind,
    end: EndMark,
    sentinels: Sentinels,
    /// Looks for what the three sentinels share.
    finder: Finder<'static>,
    state: State,
    /// What was pushed and has not come out; no piece is empty.
    input: VecDeque<Bytes>,
    /// The beginning of a sentinel that was taken from `input`.
    begun: Option<Beginning>,
    preceding: Preceding,
    callout: CalloutLines,
    /// Comes out before anything else.
    due: Option<Output>,
    /// A sentinel just ended: a newline here belongs to it.
    swallows_newline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Body,
    Callout,
    Ended,
    Faulted,
}

impl Scanner {
    /// A scanner for a process that was given `sentinels`.
    #[must_use]
    pub fn new(sentinels: &Sentinels, kind: MailboxKind, end: EndMark) -> Scanner {
        Scanner {
            kind,
            end,
            sentinels: sentinels.clone(),
            finder: Finder::new(sentinels.shared()).into_owned(),
            state: State::Body,
            input: VecDeque::new(),
            begun: None,
            preceding: Preceding::new(),
            callout: CalloutLines::default(),
            due: None,
            swallows_newline: false,
        }
    }

    /// Takes what was read from the mailbox: any piece of a stream, or exactly one record. Empty ones are ignored.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.input.push_back(chunk);
        }
    }

    /// The next thing in the output; `None`: push more.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: None is not the end")]
    pub fn next(&mut self) -> Option<Output> {
        if let Some(due) = self.due.take() {
            return Some(due);
        }
        loop {
            if self.swallows_newline && self.state != State::Ended {
                self.swallow_newline()?;
            }
            let step = match (self.state, self.kind) {
                (State::Ended | State::Faulted, _) => return None,
                (State::Body, MailboxKind::Stream) => self.scan_body()?,
                (State::Callout, MailboxKind::Stream) => self.scan_callout()?,
                (State::Body, MailboxKind::Record) => self.take_record()?,
                (State::Callout, MailboxKind::Record) => self.take_callout_record()?,
            };
            if let Step::Out(output) = step {
                return Some(output);
            }
        }
    }

    /// Says that the script has been silent for a moment: a callout line without newline is taken as complete.
    ///
    /// True: [`Scanner::next`] has something now. Serves programs written for WASD, whose records need no newline.
    pub fn complete_paused_line(&mut self) -> bool {
        if self.awaits_line_end() {
            self.due = self.callout.complete();
        }
        self.due.is_some()
    }

    /// Whether [`Scanner::complete_paused_line`] would complete a callout line: watch the time.
    #[must_use]
    pub fn awaits_line_end(&self) -> bool {
        // A begun sentinel is most likely the close sentinel on its way: its bytes are not part of the line.
        self.state == State::Callout
            && self.input.is_empty()
            && self.begun.is_none()
            && !self.callout.is_at_line_start()
    }

    /// Whether a callout is open; it is until [`Output::CalloutClosed`] has come out.
    #[must_use]
    pub fn is_inside_callout(&self) -> bool {
        self.state == State::Callout || self.due == Some(Output::CalloutClosed)
    }

    /// Whether the end sentinel has come.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Says that the output is at its end, after [`Scanner::next`] gave `None`: the bytes held back, if any.
    ///
    /// # Errors
    /// [`OutputFault::CalloutNotClosed`]: the script ended inside a callout.
    pub fn finish(&mut self) -> Result<Option<Bytes>, OutputFault> {
        match self.state {
            State::Body => Ok(self.begun.take().map(|begun| self.text_of(begun))),
            State::Callout => Err(OutputFault::CalloutNotClosed),
            State::Ended | State::Faulted => Ok(None),
        }
    }

    /// Whether the script wrote something after the end sentinel and its newline; that is its fault.
    #[must_use]
    pub fn has_trailing_output(&self) -> bool {
        let Some(first) = self.input.front() else { return false };
        let newline_only = self.swallows_newline && self.leading_newline(first) == first.len();
        self.state == State::Ended && !(newline_only && self.input.len() == 1)
    }

    /// Makes ready for the next response of the same process; leftover bytes are forgotten.
    pub fn restart(&mut self) {
        // The newline after the end sentinel may still be under way.
        self.swallows_newline &= self.input.is_empty();
        self.state = State::Body;
        self.input.clear();
        self.begun = None;
        self.preceding.forget();
        self.callout = CalloutLines::default();
        self.due = None;
    }

    /// The sentinels that mean something in a reply. A close sentinel there closes nothing: it is body text.
    fn wanted_in_body(&self) -> &'static [Mark] {
        match self.end {
            EndMark::Sentinel => &[Mark::End, Mark::Escape],
            EndMark::EndOfFile => &[Mark::Escape],
        }
    }

    fn wanted_in_callout(&self) -> &'static [Mark] {
        match self.end {
            EndMark::Sentinel => &[Mark::Close, Mark::End, Mark::Escape],
            EndMark::EndOfFile => &[Mark::Close, Mark::Escape],
        }
    }

    /// One step through the reply in a stream; `None`: needs more.
    fn scan_body(&mut self) -> Option<Step> {
        let first = self.input.front()?;
        let wanted = self.wanted_in_body();
        if let Some(begun) = self.begun {
            return Some(self.continue_in_body(begun, wanted));
        }
        if let Some((start, mark)) = self.sentinels.find(&self.finder, wanted, first) {
            // What stands before a sentinel goes out first; the next step finds the sentinel at 0.
            return Some(if start > 0 {
                self.hand_on(start)
            } else {
                self.meet(mark, SENTINEL_BYTES)
            });
        }
        match self.sentinels.find_beginning(wanted, first) {
            Some((0, begun)) => {
                self.input.pop_front();
                self.begun = Some(begun);
                Some(Step::On)
            }
            Some((start, _)) => Some(self.hand_on(start)),
            None => {
                let length = first.len();
                Some(self.hand_on(length))
            }
        }
    }

    /// Sees what the next piece makes of a begun sentinel.
    fn continue_in_body(&mut self, begun: Beginning, wanted: &[Mark]) -> Step {
        match self.compare_next(Some(begun), wanted) {
            Comparison::Whole { mark, used } => self.meet(mark, used),
            Comparison::Begun(longer) => {
                self.begun = Some(longer);
                self.input.pop_front();
                Step::On
            }
            Comparison::Different => {
                self.begun = None;
                let held = self.text_of(begun);
                self.preceding.note(&held);
                Step::Out(Output::Bytes(held))
            }
        }
    }

    /// Acts on a sentinel text in the reply, whose last `used` bytes are still in the input.
    fn meet(&mut self, mark: Mark, used: usize) -> Step {
        let listed = self.preceding.announces(mark);
        self.preceding.forget();
        self.begun = None;
        self.skip(used);
        if listed {
            return Step::Out(Output::Bytes(self.text_of(Beginning {
                mark,
                length: SENTINEL_BYTES,
            })));
        }
        self.swallows_newline = true;
        self.obey(mark)
    }

    /// Leaves the body as a sentinel says.
    fn obey(&mut self, mark: Mark) -> Step {
        match mark {
            Mark::End => {
                self.state = State::Ended;
                Step::Out(Output::End)
            }
            // A close sentinel is not looked for in a body.
            Mark::Escape | Mark::Close => {
                self.state = State::Callout;
                self.callout = CalloutLines::default();
                Step::On
            }
        }
    }

    /// One step through a callout in a stream; `None`: needs more.
    fn scan_callout(&mut self) -> Option<Step> {
        let wanted = self.wanted_in_callout();
        let first = self.input.front()?;
        if self.begun.is_none() {
            let stop = memchr2(b'\n', b'$', first).unwrap_or(first.len());
            self.callout.extend(&first[..stop]);
            let byte = first.get(stop).copied();
            self.skip(stop);
            if let Some(fault) = self.callout.excess() {
                return Some(self.fail(fault));
            }
            if byte == Some(b'\n') {
                self.skip(1);
                return Some(self.callout.complete().map_or(Step::On, Step::Out));
            }
            if byte.is_none() {
                return Some(Step::On);
            }
        }
        let begun = self.begun.take();
        match self.compare_next(begun, wanted) {
            Comparison::Whole { mark, used } => {
                self.skip(used);
                Some(self.obey_in_callout(mark))
            }
            Comparison::Begun(longer) => {
                self.begun = Some(longer);
                self.input.pop_front();
                Some(Step::On)
            }
            Comparison::Different => {
                self.disappoint(begun);
                Some(Step::On)
            }
        }
    }

    /// A `$` in a callout line, or more that looked like a sentinel, was text.
    fn disappoint(&mut self, begun: Option<Beginning>) {
        if let Some(begun) = begun {
            let text = &self.sentinels.text(begun.mark).as_bytes()[..begun.length];
            self.callout.extend(text);
        } else {
            self.callout.extend(b"$");
            self.skip(1);
        }
    }

    fn obey_in_callout(&mut self, mark: Mark) -> Step {
        match mark {
            Mark::Close => {
                self.state = State::Body;
                self.swallows_newline = self.kind == MailboxKind::Stream;
                let Some(last_line) = self.callout.complete() else {
                    return Step::Out(Output::CalloutClosed);
                };
                self.due = Some(Output::CalloutClosed);
                Step::Out(last_line)
            }
            Mark::End => self.fail(OutputFault::EndInsideCallout),
            Mark::Escape => self.fail(OutputFault::EscapeInsideCallout),
        }
    }

    /// One record of the reply.
    fn take_record(&mut self) -> Option<Step> {
        let record = self.input.pop_front()?;
        let Some(mark) = self.mark_of(&record, self.wanted_in_body()) else {
            return Some(Step::Out(Output::Bytes(record)));
        };
        // Only here: after a close sentinel a record that is just a newline may be the empty line that ends a head.
        self.swallows_newline = mark == Mark::End && record.len() == SENTINEL_BYTES;
        Some(self.obey(mark))
    }

    /// One line of a record inside a callout; a record may hold several.
    fn take_callout_record(&mut self) -> Option<Step> {
        let mut record = self.input.pop_front()?;
        if let Some(mark) = self.mark_of(&record, self.wanted_in_callout()) {
            return Some(self.obey_in_callout(mark));
        }
        let stop = memchr::memchr(b'\n', &record).unwrap_or(record.len());
        self.callout.extend(&record[..stop]);
        record.advance(record.len().min(stop + 1));
        self.push_back_first(record);
        if let Some(fault) = self.callout.excess() {
            return Some(self.fail(fault));
        }
        Some(self.callout.complete().map_or(Step::On, Step::Out))
    }

    /// The sentinel that a record is, with or without newline.
    fn mark_of(&self, record: &[u8], wanted: &[Mark]) -> Option<Mark> {
        let text = record.strip_suffix(b"\n").unwrap_or(record);
        let text = if text.len() < record.len() {
            text.strip_suffix(b"\r").unwrap_or(text)
        } else {
            text
        };
        wanted
            .iter()
            .copied()
            .find(|mark| self.sentinels.text(*mark).as_bytes() == text)
    }

    fn compare_next(&self, begun: Option<Beginning>, wanted: &[Mark]) -> Comparison {
        let next = self.input.front().map_or(&[][..], |first| first);
        self.sentinels.compare(wanted, begun, next)
    }

    /// Drops the newline that belongs to the sentinel before it; `None`: needs more to tell.
    fn swallow_newline(&mut self) -> Option<()> {
        let first = self.input.front()?;
        let length = self.leading_newline(first);
        self.swallows_newline = false;
        self.skip(length);
        Some(())
    }

    /// Bytes in the newline of a sentinel at the start of `first`.
    fn leading_newline(&self, first: &[u8]) -> usize {
        match (self.kind, first) {
            (MailboxKind::Stream, [b'\n', ..]) | (MailboxKind::Record, [b'\n']) => 1,
            (MailboxKind::Record, [b'\r', b'\n']) => 2,
            _ => 0,
        }
    }

    /// Hands on the first `length` bytes of the first piece.
    fn hand_on(&mut self, length: usize) -> Step {
        let Some(mut first) = self.input.pop_front() else {
            return Step::On;
        };
        let rest = first.split_off(length);
        self.push_back_first(rest);
        self.preceding.note(&first);
        Step::Out(Output::Bytes(first))
    }

    /// Drops the first `length` bytes of the first piece.
    fn skip(&mut self, length: usize) {
        let Some(first) = self.input.front_mut() else { return };
        first.advance(length);
        if first.is_empty() {
            self.input.pop_front();
        }
    }

    fn push_back_first(&mut self, rest: Bytes) {
        if !rest.is_empty() {
            self.input.push_front(rest);
        }
    }

    /// The bytes that were held back: what they are is known, so the pieces that they came in need not be kept.
    fn text_of(&self, begun: Beginning) -> Bytes {
        Bytes::copy_from_slice(&self.sentinels.text(begun.mark).as_bytes()[..begun.length])
    }

    fn fail(&mut self, fault: OutputFault) -> Step {
        self.state = State::Faulted;
        self.input.clear();
        Step::Out(Output::Fault(fault))
    }
}

/// Without the search, which would show the sentinels.
impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("kind", &self.kind)
            .field("end", &self.end)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// What one step came to.
enum Step {
    /// Something for the server.
    Out(Output),
    /// Nothing to tell; go on.
    On,
}

#[cfg(test)]
mod tests;
