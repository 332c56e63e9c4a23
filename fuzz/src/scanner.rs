//! The mailbox scanner: bytes of a script's output go in; reply, callouts and the end of the response come out.
//!
//! Properties: the result does not depend on how a stream is split, nor on how often it is read; no byte is invented, lost or
//! held back longer than a sentinel may still come of it; a scanner that was restarted behaves like a new one.

use bytes::Bytes;
use sluice_gateway::{EndMark, MailboxKind, Output, SENTINEL_BYTES, Scanner, Sentinels};

use crate::input::{Input, chunks};

/// The random bytes of the sentinels, which are `$Z-5a…5a-` and so on: inputs must be able to contain them.
const RANDOM: [u8; 12] = [0x5a; 12];

/// Input: a byte of flags (1: record mailbox, 2: the end sentinel ends), two lengths of chunks, the script's output.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    let lengths = [usize::from(input.byte()), usize::from(input.byte())];
    let end = if flags & 2 == 0 {
        EndMark::EndOfFile
    } else {
        EndMark::Sentinel
    };
    if flags & 1 == 0 {
        check_stream(input.rest(), end, &lengths);
    } else {
        check_records(&chunks(input.rest(), &lengths), end);
    }
}

fn check_stream(stream: &[u8], end: EndMark, lengths: &[usize]) {
    let whole = [Bytes::copy_from_slice(stream)];
    let expected = Run::of(&whole, MailboxKind::Stream, end, Pace::AtEnd);
    for lengths in [lengths, &[1]] {
        let chunks = chunks(stream, lengths);
        for pace in [Pace::AtEnd, Pace::EachChunk] {
            let run = Run::of(&chunks, MailboxKind::Stream, end, pace);
            assert_eq!(run, expected, "split into chunks of {lengths:?} bytes, read {pace:?}");
        }
    }
    let mut all = expected.raw.iter().filter_map(bytes_of);
    assert!(all.all(|bytes| !bytes.is_empty()), "bytes of a stream are never empty");
    expected.check_body(stream, end);
    check_pauses(&chunks(stream, lengths), end);
    check_restart(stream, end);
}

/// Records come out in order, and nothing else, whenever they are read. Those that hold a sentinel come out in parts.
fn check_records(records: &[Bytes], end: EndMark) {
    let at_end = Run::of(records, MailboxKind::Record, end, Pace::AtEnd);
    let each = Run::of(records, MailboxKind::Record, end, Pace::EachChunk);
    assert_eq!(at_end, each, "reading after each record makes no difference");
    let whole = records.iter().map(|record| masked(record)).collect::<Vec<_>>().concat();
    let mut rest = &whole[..];
    for bytes in at_end.raw.iter().filter_map(bytes_of) {
        let start = (0..=rest.len()).find(|start| rest[*start..].starts_with(bytes));
        let Some(start) = start else {
            panic!("{bytes:?} is not in the records, or not in order")
        };
        rest = &rest[start + bytes.len()..];
    }
}

/// When a reader calls `next`.
#[derive(Clone, Copy, Debug)]
enum Pace {
    EachChunk,
    AtEnd,
}

/// Everything that came out of one scan.
struct Run {
    /// Neighbouring bytes joined.
    outputs: Vec<Output>,
    /// The outputs in the order in which they came.
    raw: Vec<Output>,
    /// The error of `finish`, and whether there was output after the end.
    is_unclosed: bool,
    has_trailing_output: bool,
}

/// Two runs are equal if a client could not tell them apart.
impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        (&self.outputs, self.is_unclosed, self.has_trailing_output)
            == (&other.outputs, other.is_unclosed, other.has_trailing_output)
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?}, unclosed {}, leftover {}",
            self.outputs, self.is_unclosed, self.has_trailing_output
        )
    }
}

impl Run {
    fn of(chunks: &[Bytes], kind: MailboxKind, end: EndMark, pace: Pace) -> Run {
        Run::with(&mut scanner(kind, end), chunks, pace)
    }

    fn with(scanner: &mut Scanner, chunks: &[Bytes], pace: Pace) -> Run {
        let mut raw = Vec::new();
        // Bytes pushed that have not come out, as long as all that came out is body.
        let mut held = Some(0);
        for (index, chunk) in chunks.iter().enumerate() {
            scanner.push(chunk.clone());
            held = held.map(|held| held + chunk.len());
            if matches!(pace, Pace::EachChunk) || index + 1 == chunks.len() {
                let before = raw.len();
                drain(scanner, &mut raw);
                for output in &raw[before..] {
                    held = held.and_then(|held| held.checked_sub(bytes_of(output)?.len()));
                }
                let is_open = scanner.is_inside_callout() || scanner.is_in_doubt();
                assert!(
                    held.is_none_or(|held| is_open || held < SENTINEL_BYTES),
                    "{held:?} are held back"
                );
            }
        }
        while scanner.end_doubt_at_end_of_output() {
            drain(scanner, &mut raw);
        }
        let finished = scanner.finish();
        let is_unclosed = finished.is_err();
        raw.extend(finished.ok().flatten().map(Output::Bytes));
        Run {
            outputs: joined(&raw),
            raw,
            is_unclosed,
            has_trailing_output: scanner.has_trailing_output(),
        }
    }

    /// The body before the first callout is the start of the stream; without an escape sentinel in it, all of it.
    fn check_body(&self, stream: &[u8], end: EndMark) {
        let first = self.outputs.first().and_then(bytes_of).cloned().unwrap_or_default();
        let shown = masked(stream);
        assert!(shown.starts_with(&first), "the body begins as the stream does");
        assert_eq!(masked(&first), first, "no digits are shown");
        let body_bytes: usize = self.outputs.iter().filter_map(bytes_of).map(Bytes::len).sum();
        assert!(body_bytes <= stream.len(), "no byte is invented");
        let escape = sentinels().escape().to_owned();
        let has_escape = stream.windows(SENTINEL_BYTES).any(|text| text == escape.as_bytes());
        if end == EndMark::EndOfFile && !has_escape {
            assert_eq!(first, shown, "everything is body");
        }
    }
}

fn drain(scanner: &mut Scanner, raw: &mut Vec<Output>) {
    while let Some(output) = scanner.next() {
        assert!(
            !matches!(raw.last(), Some(Output::End | Output::Fault(_))),
            "nothing comes after the end or a fault"
        );
        assert_eq!(
            output == Output::End,
            scanner.is_ended(),
            "the end is reported as it comes"
        );
        raw.push(output);
    }
}

/// A pause completes a callout line, and does nothing else.
fn check_pauses(chunks: &[Bytes], end: EndMark) {
    let mut scanner = scanner(MailboxKind::Stream, end);
    let mut raw = Vec::new();
    for chunk in chunks {
        scanner.push(chunk.clone());
        drain(&mut scanner, &mut raw);
        let awaits = scanner.awaits_line_end();
        let completed = scanner.complete_paused_line();
        assert!(awaits || !completed, "there is nothing to complete");
        let next = scanner.next();
        assert_eq!(completed, next.is_some());
        assert!(
            matches!(next, None | Some(Output::Callout(_))),
            "a pause completes a line"
        );
        assert!(!scanner.awaits_line_end());
        raw.extend(next);
    }
}

/// After a response that was ended, the next one is scanned like the first.
fn check_restart(stream: &[u8], end: EndMark) {
    let ended = Bytes::from(format!("{}\n", sentinels().end()));
    let mut used = scanner(MailboxKind::Stream, EndMark::Sentinel);
    let run = Run::with(&mut used, &[ended], Pace::AtEnd);
    assert_eq!(run.outputs, [Output::End]);
    used.restart();
    let chunks = [Bytes::copy_from_slice(stream)];
    let first = Run::of(&chunks, MailboxKind::Stream, EndMark::Sentinel, Pace::AtEnd);
    assert_eq!(Run::with(&mut used, &chunks, Pace::AtEnd), first);
    if end == EndMark::Sentinel {
        // Whatever state the stream has led to.
        used.restart();
        let again = Run::with(&mut used, &chunks, Pace::AtEnd);
        assert!(again == first || stream.starts_with(b"\n"), "{again:?} after {first:?}");
    }
}

fn scanner(kind: MailboxKind, end: EndMark) -> Scanner {
    Scanner::new(&sentinels(), kind, end)
}

fn masked(text: &[u8]) -> Bytes {
    sentinels().masked(text).into_owned().into()
}

fn sentinels() -> Sentinels {
    Sentinels::from_random(RANDOM)
}

fn bytes_of(output: &Output) -> Option<&Bytes> {
    match output {
        Output::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn joined(raw: &[Output]) -> Vec<Output> {
    let mut joined = Vec::new();
    let mut body = Vec::new();
    for output in raw {
        if let Output::Bytes(bytes) = output {
            body.extend_from_slice(bytes);
            continue;
        }
        if !body.is_empty() {
            joined.push(Output::Bytes(std::mem::take(&mut body).into()));
        }
        joined.push(output.clone());
    }
    if !body.is_empty() {
        joined.push(Output::Bytes(body.into()));
    }
    joined
}
