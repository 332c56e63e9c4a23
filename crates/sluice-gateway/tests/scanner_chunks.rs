//! The scanner against a simple reference implementation: the output does not depend on chunk boundaries.

use bytes::Bytes;
use proptest::prelude::*;
use sluice_gateway::{
    Callout, CalloutRequest, EndMark, MailboxKind, Output, OutputFault, Scanner, Sentinels, parse_callout,
};

/// The scanner's output, with adjacent body bytes joined.
#[derive(Debug, PartialEq)]
enum Event {
    Body(Vec<u8>),
    Line(CalloutRequest),
    Closed,
    End { has_trailing_output: bool },
    Fault(OutputFault),
}

fn sentinels() -> Sentinels {
    Sentinels::from_random([0x5a; 12])
}

fn add_body(events: &mut Vec<Event>, bytes: &[u8]) {
    match events.last_mut() {
        Some(Event::Body(body)) => body.extend_from_slice(bytes),
        _ if bytes.is_empty() => {}
        _ => events.push(Event::Body(bytes.to_vec())),
    }
}

/// Reads a whole stream byte by byte and compares at each with every sentinel.
struct Reference<'a> {
    stream: &'a [u8],
    end: EndMark,
    events: Vec<Event>,
    /// All output since the last sentinel text.
    output: Vec<u8>,
    line: Option<Vec<u8>>,
}

impl Reference<'_> {
    fn read(stream: &[u8], end: EndMark) -> Vec<Event> {
        let mut reference = Reference {
            stream,
            end,
            events: Vec::new(),
            output: Vec::new(),
            line: None,
        };
        while !reference.stream.is_empty() {
            let goes_on = if reference.line.is_some() {
                reference.step_in_callout()
            } else {
                reference.step_in_body()
            };
            if !goes_on {
                return reference.masked();
            }
        }
        if reference.line.is_some() {
            reference.events.push(Event::Fault(OutputFault::CalloutNotClosed));
        }
        reference.masked()
    }

    /// The events as a client gets them.
    fn masked(mut self) -> Vec<Event> {
        for event in &mut self.events {
            if let Event::Body(body) = event {
                *body = sentinels().masked(body).into_owned();
            }
        }
        self.events
    }

    /// Whether what follows a sentinel makes it one that counts, although its variable was named before.
    fn counts(&self, text: &str) -> bool {
        let rest = str::from_utf8(&self.stream[text.len()..]).expect("the stream is text");
        if text == sentinels().end() {
            return rest.trim().is_empty();
        }
        let Some((lines, _)) = rest.trim_start().split_once(sentinels().close()) else {
            return false;
        };
        let unknown = |line: &str| {
            let request = parse_callout(line.as_bytes()).request;
            matches!(request, Callout::Invalid { reason, .. } if reason == "unknown callout")
        };
        let mut requests = lines.split('\n').filter(|line| !line.trim().is_empty());
        !lines.is_empty() && !requests.any(unknown)
    }

    fn take_body(&mut self, length: usize) {
        let (bytes, rest) = self.stream.split_at(length);
        add_body(&mut self.events, bytes);
        self.output.extend_from_slice(bytes);
        self.stream = rest;
    }

    /// Removes a sentinel and its newline from the start of the stream; `false` if there is none.
    fn take(&mut self, sentinel: &str) -> bool {
        let Some(rest) = self.stream.strip_prefix(sentinel.as_bytes()) else {
            return false;
        };
        self.stream = rest.strip_prefix(b"\n").unwrap_or(rest);
        true
    }

    fn is_in_dump(&self, names: [&str; 2]) -> bool {
        let near = &self.output[self.output.len().saturating_sub(64)..];
        !near.ends_with(b"\n")
            && names
                .iter()
                .any(|name| near.windows(name.len()).any(|w| w == name.as_bytes()))
    }

    fn step_in_body(&mut self) -> bool {
        let sentinels = sentinels();
        let dumped = [
            (sentinels.end(), ["CGIPLUSEOF", "GATEWAY_EOF"]),
            (sentinels.escape(), ["CGIPLUSESC", "GATEWAY_ESC"]),
        ];
        for (text, names) in dumped {
            let is_text = text == sentinels.end() && self.end == EndMark::EndOfFile;
            if self.stream.starts_with(text.as_bytes()) && !is_text && self.is_in_dump(names) && !self.counts(text) {
                self.take_body(text.len());
                self.output.clear();
                return true;
            }
        }
        if self.end == EndMark::Sentinel && self.take(sentinels.end()) {
            self.events
                .push(Event::End { has_trailing_output: !self.stream.is_empty() });
            return false;
        }
        if self.take(sentinels.escape()) {
            self.output.clear();
            self.line = Some(Vec::new());
            return true;
        }
        self.take_body(1);
        true
    }

    fn step_in_callout(&mut self) -> bool {
        let sentinels = sentinels();
        if self.take(sentinels.close()) {
            self.end_line();
            self.line = None;
            self.events.push(Event::Closed);
        } else if self.end == EndMark::Sentinel && self.take(sentinels.end()) {
            self.events.push(Event::Fault(OutputFault::EndInsideCallout));
            return false;
        } else if self.take(sentinels.escape()) {
            self.events.push(Event::Fault(OutputFault::EscapeInsideCallout));
            return false;
        } else {
            let byte = self.stream[0];
            self.stream = &self.stream[1..];
            if byte == b'\n' {
                self.end_line();
            } else if let Some(line) = &mut self.line {
                line.push(byte);
            }
        }
        true
    }

    fn end_line(&mut self) {
        let line = self.line.replace(Vec::new()).unwrap_or_default();
        if !line.trim_ascii().is_empty() {
            self.events.push(Event::Line(parse_callout(&line)));
        }
    }
}

/// When the scanner's output is taken.
#[derive(Clone, Copy, Debug)]
enum Pace {
    AfterEachChunk,
    AfterAllChunks,
}

fn scan(chunks: &[&[u8]], end: EndMark, pace: Pace) -> Vec<Event> {
    let mut scanner = Scanner::new(&sentinels(), MailboxKind::Stream, end);
    let mut events = Vec::new();
    for chunk in chunks {
        scanner.push(Bytes::copy_from_slice(chunk));
        if matches!(pace, Pace::AfterEachChunk) {
            drain(&mut scanner, &mut events);
        }
    }
    drain(&mut scanner, &mut events);
    while scanner.end_doubt_at_end_of_output() {
        drain(&mut scanner, &mut events);
    }
    match scanner.finish() {
        Ok(held) => add_body(&mut events, &held.unwrap_or_default()),
        Err(fault) => events.push(Event::Fault(fault)),
    }
    if let Some(Event::End { has_trailing_output }) = events.last_mut() {
        *has_trailing_output = scanner.has_trailing_output();
    }
    events
}

fn drain(scanner: &mut Scanner, events: &mut Vec<Event>) {
    while let Some(output) = scanner.next() {
        match output {
            Output::Bytes(bytes) => {
                assert!(!bytes.is_empty());
                add_body(events, &bytes);
            }
            Output::Callout(request) => events.push(Event::Line(request)),
            Output::CalloutClosed => events.push(Event::Closed),
            Output::End => events.push(Event::End { has_trailing_output: false }),
            Output::Fault(fault) => events.push(Event::Fault(fault)),
        }
    }
}

/// Streams full of sentinels, of text that resembles them, and of environment dumps.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let sentinels = sentinels();
    let whole = [sentinels.end(), sentinels.escape(), sentinels.close()].map(str::to_string);
    let begun =
        (prop::sample::select(whole.to_vec()), 1..28_usize).prop_map(|(text, length)| text[..length].to_string());
    let names = [
        "CGIPLUSEOF=",
        "CGIPLUSESC: ",
        "\"WWW_GATEWAY_EOF\": \"",
        "GATEWAY_ESC",
        "CGIPLUSEOT",
    ];
    let [_, escape, close] = whole.clone();
    let callout = (
        "\n?",
        prop::sample::select(vec!["NOOP:", "!WATCH: a$b\n", "MAP-PATH: /\r\n\nNOOP\n"]),
        "\n?",
    )
        .prop_map(move |(first, lines, last)| format!("{escape}{first}{lines}{close}{last}"));
    let chunk = prop_oneof![
        3 => prop::sample::select(whole.to_vec()),
        3 => begun,
        3 => prop::sample::select(names.to_vec()).prop_map(str::to_string),
        4 => callout,
        4 => "[$ZED5a\\-\n =]{0,12}",
        1 => Just("x".repeat(70)),
        1 => Just(sentinels.end()[2..].to_string()),
    ];
    prop::collection::vec(chunk, 0..12).prop_map(|chunks| chunks.concat().into_bytes())
}

fn cut<'a>(stream: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut rest = stream;
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, more) = rest.split_at((*length).min(rest.len()));
        chunks.push(chunk);
        rest = more;
    }
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn chunk_boundaries_make_no_difference(
        stream in streams(),
        lengths in prop::collection::vec(1..50_usize, 1..10),
        is_cgi in any::<bool>(),
    ) {
        let end = if is_cgi { EndMark::EndOfFile } else { EndMark::Sentinel };
        let expected = Reference::read(&stream, end);
        for chunks in [cut(&stream, &lengths), cut(&stream, &[1]), cut(&stream, &[usize::MAX])] {
            for pace in [Pace::AfterEachChunk, Pace::AfterAllChunks] {
                prop_assert_eq!(&scan(&chunks, end, pace), &expected);
            }
        }
    }

    #[test]
    fn at_most_a_partial_sentinel_is_held_back(
        stream in streams(),
        lengths in prop::collection::vec(1..50_usize, 1..10),
    ) {
        // In CGI, without an escape sentinel, everything is body.
        let mut stream = String::from_utf8(stream).unwrap();
        while stream.contains(sentinels().escape()) {
            stream = stream.replace(sentinels().escape(), "");
        }
        let mut scanner = Scanner::new(&sentinels(), MailboxKind::Stream, EndMark::EndOfFile);
        let (mut pushed, mut taken) = (0, 0);
        for chunk in cut(stream.as_bytes(), &lengths) {
            pushed += chunk.len();
            scanner.push(Bytes::copy_from_slice(chunk));
            while let Some(output) = scanner.next() {
                let Output::Bytes(bytes) = output else { panic!("{output:?}") };
                taken += bytes.len();
            }
            prop_assert!(pushed - taken <= 27);
        }
    }
}
