//! The scanner's steps through a record mailbox, where one write is one record.
//!
//! A sentinel counts if it is a line of its own, in a record of its own or, because programs collect their output,
//! between other lines of one write. A sentinel that a full output buffer splits is put together again.

use super::*;
use crate::record_lines::is_full_buffer;

impl Scanner {
    /// One record of the reply, or the lines of one before a sentinel.
    pub(super) fn take_record(&mut self) -> Option<Step> {
        let mut record = self.next_record()?;
        let wanted = self.wanted_in_body();
        if self.finder.find(&record).is_none() {
            let length = self.length_before_partial(&record, wanted);
            self.held = record.split_off(length);
            if record.is_empty() && !self.held.is_empty() {
                return Some(Step::Continue);
            }
            return Some(Step::Emit(Output::Bytes(record)));
        }
        let Some((start, mark, end)) = self.sentinel_line(&record, wanted) else {
            let masked = self.sentinels.masked(&record).into_owned();
            return Some(Step::Emit(Output::Bytes(masked.into())));
        };
        let rest = record.split_off(end);
        self.unread(rest);
        if start > 0 {
            let sentinel = record.split_off(start);
            self.unread(sentinel);
            let masked = self.sentinels.masked(&record).into_owned();
            return Some(Step::Emit(Output::Bytes(masked.into())));
        }
        let step = self.leave_body(mark);
        // Only after an end sentinel: after a close sentinel, a record of one newline may be the empty line that ends a head.
        self.skips_newline = mark == Mark::End && record.len() == SENTINEL_BYTES;
        Some(step)
    }

    /// One line of a record inside a callout; a record may contain several.
    pub(super) fn take_callout_record(&mut self) -> Option<Step> {
        let mut record = self.next_record()?;
        let stop = memchr::memchr(b'\n', &record).map_or(record.len(), |newline| newline + 1);
        let rest = record.split_off(stop);
        self.unread(rest);
        if let Some(mark) = self.mark_of(&record, self.wanted_in_callout()) {
            return Some(self.leave_callout(mark));
        }
        self.callout.extend(record.strip_suffix(b"\n").unwrap_or(&record));
        if let Some(fault) = self.callout.excess() {
            return Some(self.fail(fault));
        }
        Some(self.callout.complete().map_or(Step::Continue, Step::Emit))
    }

    /// The next record, with what was held back of the one before it.
    fn next_record(&mut self) -> Option<Bytes> {
        let record = self.input.pop_front()?;
        if self.held.is_empty() {
            return Some(record);
        }
        let held = std::mem::take(&mut self.held);
        Some([&held[..], &record[..]].concat().into())
    }

    /// The first line of a record that is a sentinel: its start, its mark, and the end of the line, its newline included.
    fn sentinel_line(&self, record: &[u8], wanted: &[Mark]) -> Option<(usize, Mark, usize)> {
        let mut start = 0;
        record.split_inclusive(|byte| *byte == b'\n').find_map(|line| {
            let at = start;
            start += line.len();
            self.mark_of(line, wanted).map(|mark| (at, mark, start))
        })
    }

    /// The length of a record without the start of a sentinel at its end. Only a full buffer can split a sentinel.
    fn length_before_partial(&self, record: &[u8], wanted: &[Mark]) -> usize {
        let line = memchr::memrchr(b'\n', record).map_or(0, |newline| newline + 1);
        let tail = &record[line..];
        let is_start = |mark: &Mark| self.sentinels.text(*mark).as_bytes().starts_with(tail);
        if tail.len() < SENTINEL_BYTES && !tail.is_empty() && is_full_buffer(record) && wanted.iter().any(is_start) {
            line
        } else {
            record.len()
        }
    }

    /// The sentinel that a line consists of, with or without its newline.
    fn mark_of(&self, line: &[u8], wanted: &[Mark]) -> Option<Mark> {
        let text = match line.strip_suffix(b"\n") {
            Some(text) => text.strip_suffix(b"\r").unwrap_or(text),
            None => line,
        };
        let mut wanted = wanted.iter().copied();
        wanted.find(|mark| self.sentinels.text(*mark).as_bytes() == text)
    }
}
