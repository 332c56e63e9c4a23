//! The mailbox scanner: splits a script's output into reply bytes, callouts and the end of the response.
//!
//! It does not read the mailbox (the server pushes what it has read), parse the reply's head (`script_head`), or answer callouts. Bytes are returned as
//! slices of the input, without a copy; at most 27 of them are held back while they may be the start of a sentinel. Digits of a sentinel that is only
//! text are replaced by zeros.
//!
//! ```text
//!             escape                     end
//!   callout <--------+                +------> ended --restart--> body
//!      |             |                |
//!      +-- close --> body ------------+        (CGI: only end-of-file ends)
//!      |             | ^
//!      |             v | text                  (doubtful: see `environment_dump`)
//!      |            doubt -- escape, end --> as from body
//!      |
//!      +-- end, escape, too long --> faulted
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes};
use memchr::memchr2;
use memchr::memmem::{self, Finder};

use crate::callout::CalloutLines;
use crate::environment_dump::{EXAMINED_BYTES_MAX, Meaning, PrecedingOutput, meaning};
use crate::output::{EndMark, MailboxKind, Output, OutputFault};
use crate::sentinel::{Comparison, Found, Mark, PartialMatch, SENTINEL_BYTES, Sentinels};

/// The scanner of one script process's mailbox.
///
/// Push what was read, then call [`Scanner::next`] until it returns `None`; at end-of-file call [`Scanner::finish`].
pub struct Scanner {
    kind: MailboxKind,
    end: EndMark,
    sentinels: Sentinels,
    /// Searches for the part that the three sentinels share.
    finder: Finder<'static>,
    state: State,
    /// Pushed and not yet processed; no chunk is empty.
    input: VecDeque<Bytes>,
    /// The start of a sentinel, already removed from `input`.
    partial: Option<PartialMatch>,
    /// Records: the start of a sentinel at the end of a full buffer.
    held: Bytes,
    preceding: PrecedingOutput,
    callout: CalloutLines,
    /// Returned by the next call of `next`, before anything else.
    queued: Option<Output>,
    /// The input follows a sentinel directly: a newline at its start belongs to the sentinel.
    skips_newline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Body,
    /// This sentinel has arrived, and what follows will show whether it counts.
    Doubt(Mark),
    Callout,
    Ended,
    Faulted,
}

impl Scanner {
    /// A scanner for a process that was given `sentinels`.
    pub fn new(sentinels: &Sentinels, kind: MailboxKind, end: EndMark) -> Scanner {
        Scanner {
            kind,
            end,
            sentinels: sentinels.clone(),
            finder: Finder::new(sentinels.shared()).into_owned(),
            state: State::Body,
            input: VecDeque::new(),
            partial: None,
            held: Bytes::new(),
            preceding: PrecedingOutput::new(),
            callout: CalloutLines::default(),
            queued: None,
            skips_newline: false,
        }
    }

    /// Adds what was read from the mailbox: any chunk of a stream, or exactly one record. An empty chunk is ignored.
    pub fn push(&mut self, chunk: Bytes) {
        if self.kind == MailboxKind::Record || !chunk.is_empty() {
            self.input.push_back(chunk);
        }
    }

    /// The next item of the output; `None` if more input is needed.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: None is not the end")]
    pub fn next(&mut self) -> Option<Output> {
        if let Some(queued) = self.queued.take() {
            return Some(queued);
        }
        loop {
            if self.skips_newline && matches!(self.state, State::Body | State::Callout) {
                self.skip_newline()?;
            }
            let step = match (self.state, self.kind) {
                (State::Ended | State::Faulted, _) => return None,
                (State::Doubt(mark), _) => self.decide(mark)?,
                (State::Body, MailboxKind::Stream) => self.scan_body()?,
                (State::Callout, MailboxKind::Stream) => self.scan_callout()?,
                (State::Body, MailboxKind::Record) => self.take_record()?,
                (State::Callout, MailboxKind::Record) => self.take_callout_record()?,
            };
            if let Step::Emit(output) = step {
                return Some(output);
            }
        }
    }

    /// Treats a callout line without newline as complete after a pause: records of programs for WASD need none. `true`: [`Scanner::next`] has output now.
    pub fn complete_paused_line(&mut self) -> bool {
        if self.awaits_line_end() {
            self.queued = self.callout.complete();
        }
        self.queued.is_some()
    }

    /// Whether [`Scanner::complete_paused_line`] would complete a callout line, so that the caller should time the pause.
    pub fn awaits_line_end(&self) -> bool {
        // A partial sentinel is most likely the close sentinel still arriving: its bytes are not part of the line.
        self.state == State::Callout
            && self.input.is_empty()
            && self.partial.is_none()
            && !self.callout.is_at_line_start()
    }

    /// Whether the last sentinel is doubtful: the caller should time a pause of the script, and then call [`Scanner::end_doubt`].
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.state, State::Doubt(_))
    }

    /// Takes the doubtful sentinel for one that counts, because the script has paused. [`Scanner::next`] has the output.
    pub fn end_doubt(&mut self) {
        if let State::Doubt(mark) = self.state {
            self.enter(mark);
        }
    }

    /// Ends a doubt at the end of the output: an end sentinel counts, a callout would have been closed. `true`: [`Scanner::next`] has output then.
    pub fn end_doubt_at_end_of_output(&mut self) -> bool {
        match self.state {
            State::Doubt(Mark::End) => self.enter(Mark::End),
            State::Doubt(mark) => self.queued = Some(self.end_doubt_as_text(mark)),
            _ => return false,
        }
        true
    }

    /// Whether a callout is open: it is until [`Scanner::next`] has returned [`Output::CalloutClosed`].
    pub fn is_inside_callout(&self) -> bool {
        self.state == State::Callout || self.queued == Some(Output::CalloutClosed)
    }

    /// The last callout line that [`Scanner::next`] has returned, as the script has written it, while the callout is open.
    pub fn callout_line(&self) -> &[u8] {
        self.callout.last()
    }

    /// Whether the end sentinel has arrived.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Ends the input, after [`Scanner::next`] has returned `None`; returns the bytes held back, if any.
    ///
    /// # Errors
    /// [`OutputFault::CalloutNotClosed`]: the output ended inside a callout, the script's fault.
    pub fn finish(&mut self) -> Result<Option<Bytes>, OutputFault> {
        match self.state {
            State::Body if !self.held.is_empty() => Ok(Some(std::mem::take(&mut self.held))),
            State::Body => Ok(self.partial.take().and_then(|partial| self.text_of(partial))),
            State::Doubt(mark) => Ok(Some(self.sentinels.masked_text(mark).into())),
            State::Callout => Err(OutputFault::CalloutNotClosed),
            State::Ended | State::Faulted => Ok(None),
        }
    }

    /// Whether there is output after the end sentinel and its newline, which is the script's fault.
    pub fn has_trailing_output(&self) -> bool {
        let Some(first) = self.input.front() else { return false };
        let newline_only = self.skips_newline && self.leading_newline(first) == first.len();
        self.state == State::Ended && !(newline_only && self.input.len() == 1)
    }

    /// Whether these bytes, the next to be pushed, are no more than the newline after the last response's end sentinel.
    pub fn is_late_newline(&self, bytes: &[u8]) -> bool {
        self.skips_newline && self.input.is_empty() && self.leading_newline(bytes) == bytes.len()
    }

    /// Whether another end sentinel follows the first in the output: of two replies, the first may belong to an earlier request.
    pub fn has_second_end(&self) -> bool {
        self.has_trailing_output() && {
            let rest: Vec<u8> = self.input.iter().flatten().copied().collect();
            memmem::find(&rest, self.sentinels.end().as_bytes()).is_some()
        }
    }

    /// Prepares for the next response of the same process; unprocessed input is discarded.
    pub fn restart(&mut self) {
        // The newline after the end sentinel may still arrive.
        self.skips_newline &= self.input.is_empty();
        self.state = State::Body;
        self.input.clear();
        self.partial = None;
        self.held = Bytes::new();
        self.preceding.clear();
        self.callout = CalloutLines::default();
        self.queued = None;
    }

    /// The sentinels that count in a reply. A close sentinel is body text there, because no callout is open.
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

    /// One step through the reply in a stream; `None` if more input is needed.
    fn scan_body(&mut self) -> Option<Step> {
        let first = self.input.front()?;
        let wanted = self.wanted_in_body();
        if let Some(partial) = self.partial {
            return Some(self.continue_in_body(partial, wanted));
        }
        match self.sentinels.find(&self.finder, wanted, first) {
            Some(Found::Sentinel(0, mark)) => return Some(self.on_sentinel(mark, SENTINEL_BYTES)),
            // The bytes before a sentinel are emitted first; the next step finds the sentinel at 0.
            Some(Found::Sentinel(start, _)) => return Some(self.emit(start)),
            Some(Found::Digits(end)) => return Some(self.emit_masked(end)),
            None => {}
        }
        match self.sentinels.find_partial(wanted, first) {
            Some((0, partial)) => {
                self.input.pop_front();
                self.partial = Some(partial);
                Some(Step::Continue)
            }
            Some((start, partial)) if start == first.len() => {
                self.partial = Some(partial);
                Some(self.emit(start))
            }
            Some((start, _)) => Some(self.emit(start)),
            None => {
                let length = first.len();
                Some(self.emit(length))
            }
        }
    }

    /// Compares a partial sentinel with the chunk that follows it.
    fn continue_in_body(&mut self, partial: PartialMatch, wanted: &[Mark]) -> Step {
        match self.compare_next(Some(partial), wanted) {
            Comparison::Whole { mark, used } => self.on_sentinel(mark, used),
            Comparison::Digits { used } => {
                self.skip(used);
                self.emit_held(PartialMatch { length: partial.length + used, ..partial })
            }
            Comparison::Partial(longer) => {
                self.partial = Some(longer);
                self.input.pop_front();
                Step::Continue
            }
            Comparison::Different => self.emit_held(partial),
        }
    }

    /// Handles a sentinel in the reply, whose last `used` bytes are still in the input.
    fn on_sentinel(&mut self, mark: Mark, used: usize) -> Step {
        let is_doubtful = self.preceding.makes_doubtful(mark);
        self.preceding.clear();
        self.partial = None;
        self.skip(used);
        if is_doubtful {
            self.state = State::Doubt(mark);
            return Step::Continue;
        }
        self.leave_body(mark)
    }

    fn leave_body(&mut self, mark: Mark) -> Step {
        self.enter(mark);
        self.queued.take().map_or(Step::Continue, Step::Emit)
    }

    fn enter(&mut self, mark: Mark) {
        self.skips_newline = true;
        match mark {
            Mark::End => {
                self.state = State::Ended;
                self.queued = Some(Output::End);
            }
            // `wanted_in_body` never has Close.
            Mark::Escape | Mark::Close => {
                self.state = State::Callout;
                self.callout = CalloutLines::default();
            }
        }
    }

    /// Decides on the doubtful sentinel by what follows it; `None` if more input is needed, or a pause.
    fn decide(&mut self, mark: Mark) -> Option<Step> {
        match meaning(mark, &self.examined(), self.sentinels.close()) {
            Meaning::Undecided => None,
            Meaning::Sentinel => Some(self.leave_body(mark)),
            Meaning::Text => Some(Step::Emit(self.end_doubt_as_text(mark))),
        }
    }

    /// The doubtful sentinel is text; its last byte may be the one before further digits.
    fn end_doubt_as_text(&mut self, mark: Mark) -> Output {
        self.state = State::Body;
        self.partial = Some(PartialMatch::AFTER_HYPHEN);
        Output::Bytes(self.sentinels.masked_text(mark).into())
    }

    /// The next bytes of the input, as many as are needed to decide on a sentinel.
    fn examined(&self) -> Cow<'_, [u8]> {
        match &self.input {
            input if input.len() <= 1 => {
                let first = input.front().map_or(&[][..], |first| first);
                Cow::Borrowed(&first[..first.len().min(EXAMINED_BYTES_MAX)])
            }
            input => {
                let mut bytes = Vec::new();
                for chunk in input {
                    let room = EXAMINED_BYTES_MAX.saturating_sub(bytes.len());
                    bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                }
                bytes.into()
            }
        }
    }

    /// One step through a callout in a stream; `None` if more input is needed.
    fn scan_callout(&mut self) -> Option<Step> {
        let wanted = self.wanted_in_callout();
        let first = self.input.front()?;
        if self.partial.is_none() {
            let stop = memchr2(b'\n', b'$', first).unwrap_or(first.len());
            self.callout.extend(&first[..stop]);
            let byte = first.get(stop).copied();
            self.skip(stop);
            if let Some(fault) = self.callout.excess() {
                return Some(self.fail(fault));
            }
            if byte == Some(b'\n') {
                self.skip(1);
                return Some(self.callout.complete().map_or(Step::Continue, Step::Emit));
            }
            if byte.is_none() {
                return Some(Step::Continue);
            }
        }
        let partial = self.partial.take();
        match self.compare_next(partial, wanted) {
            Comparison::Whole { mark, used } => {
                self.skip(used);
                Some(self.leave_callout(mark))
            }
            Comparison::Partial(longer) => {
                self.partial = Some(longer);
                self.input.pop_front();
                Some(Step::Continue)
            }
            // A partial sentinel in a callout never begins with its digits.
            Comparison::Digits { .. } | Comparison::Different => {
                self.add_text_to_line(partial);
                Some(Step::Continue)
            }
        }
    }

    /// Adds to the callout line what looked like the start of a sentinel: `partial`, or the `$` at the start of the input.
    fn add_text_to_line(&mut self, partial: Option<PartialMatch>) {
        if let Some(partial) = partial {
            let text = &self.sentinels.text(partial.mark).as_bytes()[..partial.length];
            self.callout.extend(text);
        } else {
            self.callout.extend(b"$");
            self.skip(1);
        }
    }

    /// Closes the callout; any other sentinel is a fault.
    fn leave_callout(&mut self, mark: Mark) -> Step {
        match mark {
            Mark::Close => {
                self.state = State::Body;
                self.skips_newline = self.kind == MailboxKind::Stream;
                let Some(last_line) = self.callout.complete() else {
                    return Step::Emit(Output::CalloutClosed);
                };
                self.queued = Some(Output::CalloutClosed);
                Step::Emit(last_line)
            }
            Mark::End => self.fail(OutputFault::EndInsideCallout),
            Mark::Escape => self.fail(OutputFault::EscapeInsideCallout),
        }
    }

    fn compare_next(&self, partial: Option<PartialMatch>, wanted: &[Mark]) -> Comparison {
        let next = self.input.front().map_or(&[][..], |first| first);
        self.sentinels.compare(wanted, partial, next)
    }

    /// Drops the newline that belongs to the sentinel before it; `None` if more input is needed.
    fn skip_newline(&mut self) -> Option<()> {
        let first = self.input.front()?;
        let length = self.leading_newline(first);
        self.skips_newline = false;
        self.skip(length);
        Some(())
    }

    /// Bytes in the newline at the start of `first` that belongs to the sentinel before it.
    fn leading_newline(&self, first: &[u8]) -> usize {
        match (self.kind, first) {
            (MailboxKind::Stream, [b'\n', ..]) | (MailboxKind::Record, [b'\n']) => 1,
            (MailboxKind::Record, [b'\r', b'\n']) => 2,
            _ => 0,
        }
    }

    fn emit(&mut self, length: usize) -> Step {
        let Some(mut first) = self.input.pop_front() else {
            return Step::Continue;
        };
        let rest = first.split_off(length);
        self.unread(rest);
        self.preceding.record(&first);
        Step::Emit(Output::Bytes(first))
    }

    /// Emits the first `length` bytes of the first chunk, which end with digits that are text.
    fn emit_masked(&mut self, length: usize) -> Step {
        match self.emit(length) {
            Step::Emit(Output::Bytes(bytes)) => {
                let masked = self.sentinels.masked(&bytes).into_owned();
                Step::Emit(Output::Bytes(masked.into()))
            }
            step => step,
        }
    }

    /// Emits what was held back: it is text.
    fn emit_held(&mut self, partial: PartialMatch) -> Step {
        self.partial = None;
        let Some(held) = self.text_of(partial) else {
            return Step::Continue;
        };
        self.preceding.record(&held);
        Step::Emit(Output::Bytes(held))
    }

    fn skip(&mut self, length: usize) {
        let Some(first) = self.input.front_mut() else { return };
        first.advance(length);
        if first.is_empty() {
            self.input.pop_front();
        }
    }

    fn unread(&mut self, rest: Bytes) {
        if !rest.is_empty() {
            self.input.push_front(rest);
        }
    }

    /// The bytes held back of a partial sentinel, if any. They are known, so the chunks in which they arrived are not kept.
    fn text_of(&self, partial: PartialMatch) -> Option<Bytes> {
        let held = self.sentinels.held_text(partial);
        (!held.is_empty()).then(|| held.into())
    }

    fn fail(&mut self, fault: OutputFault) -> Step {
        self.state = State::Faulted;
        self.input.clear();
        Step::Emit(Output::Fault(fault))
    }
}

/// Omits the finder and the input, which would show the sentinels.
impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("kind", &self.kind)
            .field("end", &self.end)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

enum Step {
    Emit(Output),
    /// No output; take the next step.
    Continue,
}

mod records;
#[cfg(test)]
mod tests;
