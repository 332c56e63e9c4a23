//! The events that an exchange with a script notes for WATCH.
//!
//! Masked are: what is secret by its name (`Masks`) in variables and in what the script writes; the values of such header fields of the request,
//! the password that an agent is asked about and the digits of the sentinels wherever they stand, in all events of the exchange (`Tracer::hide_secrets`).

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sluice_gateway::{Answer, RequestEncoding, Sentinels, Variables, encode_request};
use sluice_launch::{Probe, Program};
use sluice_watch::mask::{self, HeadMask, Masks};
use sluice_watch::{Direction, Hold, Item, Scanned, Secrets, Stage, Tracer};

use crate::process::{ObservedProcess, SilenceTimer, time_text};

/// A client that takes the output no sooner than this is named as the one that the script waits for.
const REPORTED_PAUSE: Duration = Duration::from_secs(1);

/// Ends of the names of variables that are never shown: the password that an agent is asked about, and the sentinels.
const ALWAYS_SECRET: [&str; 7] = [
    "AUTH_PASSWORD",
    "GATEWAY_EOF",
    "GATEWAY_ESC",
    "GATEWAY_EOT",
    "CGIPLUSEOF",
    "CGIPLUSESC",
    "CGIPLUSEOT",
];

/// Texts of an exchange with a script, over the tracer of the exchange. Nothing if nobody watches. Clones belong to the same exchange.
#[derive(Clone, Default)]
pub(crate) struct ScriptEvents {
    watched: OnceCell<Rc<WatchedExchange>>,
    /// A watch may join its exchange later. `None` if not.
    job: Option<Rc<dyn WatchableJob>>,
}

/// The facts about the job of an exchange, for a watch that joins it.
pub(crate) trait WatchableJob {
    fn tracer(&self) -> &Tracer;
    fn module(&self) -> &'static str;
    /// The secrets, which no event may show.
    fn secrets(&self, masks: &Masks) -> Secrets;
    /// The file of the script that answers the request; `None` of an agent.
    fn script(&self) -> Option<String>;
}

struct WatchedExchange {
    tracer: Tracer,
    /// The script may go on after the end of the exchange.
    _hold: Hold,
    module: &'static str,
    masks: Masks,
    output: RefCell<HeadMask>,
    has_begun: Cell<bool>,
    counts: Counts,
    /// The time since which the output is not wanted.
    paused: Cell<Option<Instant>>,
    silence: RefCell<SilenceTimer>,
}

#[derive(Default)]
struct Counts {
    reads: Cell<u64>,
    mailbox: Cell<u64>,
    buffer: Cell<u64>,
    callouts: Cell<u64>,
}

impl ScriptEvents {
    /// Creates events that nobody can watch, for the requests of the server itself.
    pub(crate) fn none() -> ScriptEvents {
        ScriptEvents::default()
    }

    pub(crate) fn of(job: Rc<dyn WatchableJob>) -> ScriptEvents {
        let events = ScriptEvents { job: Some(job), ..ScriptEvents::default() };
        events.join();
        events
    }

    /// Whether a watch has begun within the exchange, and is known from now on. To be called where a script is waited for.
    pub(crate) fn join(&self) -> bool {
        let Some(job) = self.job.as_ref().filter(|_| !self.is_on()) else {
            return false;
        };
        let tracer = job.tracer();
        let Some(masks) = tracer.masks() else { return false };
        tracer.hide_secrets(&job.secrets(masks));
        let watched = WatchedExchange {
            tracer: tracer.clone(),
            _hold: tracer.hold(),
            module: job.module(),
            masks: masks.clone(),
            output: RefCell::default(),
            has_begun: Cell::default(),
            counts: Counts::default(),
            paused: Cell::default(),
            silence: RefCell::default(),
        };
        if let Some(script) = job.script() {
            tracer.know(|attributes| attributes.script = Some(script));
        }
        self.watched.set(Rc::new(watched)).is_ok()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.watched.get().is_some()
    }

    /// Whether somebody may want events of this item.
    pub(crate) fn wants(&self, item: Item) -> bool {
        self.watched.get().is_some_and(|watched| watched.tracer.wants(item))
    }

    pub(crate) fn note(&self, item: Item, text: impl FnOnce() -> String) {
        if let Some(watched) = self.watched.get() {
            watched.tracer.note(item, watched.module, text);
        }
    }

    /// Notes an event in whose text there may be what the script has written: `name=value` is masked as in a query.
    fn note_script_text(&self, item: Item, text: impl FnOnce() -> String) {
        if let Some(watched) = self.watched.get() {
            self.note(item, || watched.masks.text(&text()));
        }
    }

    pub(crate) fn process(&self, text: impl FnOnce() -> String) {
        self.note_script_text(Item::Process, text);
    }

    /// The exchange has a process: its sentinels are secrets from now on, and nothing is known of its output yet.
    pub(crate) fn begin_process(&self, sentinels: &Sentinels) {
        self.join();
        if let Some(watched) = self.watched.get() {
            watched
                .tracer
                .hide_secrets(&Secrets::new([sentinels.digits().as_bytes()]));
            watched.output.replace(HeadMask::of(&watched.masks));
            watched.silence.replace(SilenceTimer::default());
        }
    }

    /// A watch has joined the exchange while the process works: some of its output was missed. `silent_since` is when it was last heard of.
    pub(crate) fn join_process(
        &self,
        sentinels: &Sentinels,
        silent_since: tokio::time::Instant,
        text: impl FnOnce() -> String,
    ) {
        self.begin_process(sentinels);
        if let Some(watched) = self.watched.get() {
            watched.output.replace(HeadMask::within_of(&watched.masks));
            watched.silence.replace(SilenceTimer::of_silence(silent_since));
        }
        self.process(text);
    }

    /// The head of the reply is complete already.
    pub(crate) fn join_body(&self) {
        if let Some(watched) = self.watched.get() {
            watched.has_begun.set(true);
        }
    }

    /// Notes the variables of the request, and those that the process has besides. `variables` is called only if somebody wants them.
    pub(crate) fn variables<'a>(
        &self,
        variables: &Variables,
        others: impl FnOnce() -> Vec<(&'a str, Cow<'static, [u8]>)>,
    ) {
        let Some(watched) = self.watched.get() else { return };
        self.note(Item::Variables, || {
            let mut text = format!("{} variables", variables.len());
            if variables.dropped() > 0 {
                let dropped = variables.dropped();
                let _ = write!(text, ", {dropped} dropped (a NUL or a newline, or too long)");
            }
            watched.list(&mut text, variables);
            for (name, value) in others() {
                let value = watched.masked_value(name.as_bytes(), &value);
                let _ = write!(text, "\n(environment) {name}={value}");
            }
            text
        });
    }

    /// Notes the environment that a process of several requests begins with.
    pub(crate) fn environment(&self, environment: &Variables) {
        let Some(watched) = self.watched.get() else { return };
        self.note(Item::Variables, || {
            let mut text = "the environment of the new process".to_owned();
            watched.list(&mut text, environment);
            text
        });
    }

    pub(crate) fn record(&self, variables: &Variables, encoding: RequestEncoding) {
        let Some(watched) = self.watched.get() else { return };
        self.received(|| {
            let masked = |name: &[u8], value: &[u8]| Some(watched.masked_value(name, value).into_bytes());
            let mut record = Vec::new();
            encode_request(&variables.with_values(masked), encoding, &mut record);
            record
        });
    }

    /// Notes bytes that are written to CGIPLUSIN.
    fn received(&self, bytes: impl FnOnce() -> Vec<u8>) {
        if let Some(watched) = self.watched.get() {
            watched
                .tracer
                .note_bytes(Item::Cgiplusin, watched.module, Direction::Received, bytes);
        }
    }

    /// Notes bytes, or a record, that the script has written to its mailbox.
    pub(crate) fn output(&self, bytes: &[u8]) {
        let Some(watched) = self.watched.get() else { return };
        if !watched.has_begun.replace(true) {
            watched.tracer.stage(Stage::Replying);
        }
        watched.counts.reads.update(|reads| reads + 1);
        watched.counts.mailbox.update(|all| all + bytes.len() as u64);
        watched.silence.borrow_mut().restart();
        let mask = |copy: &mut [u8]| watched.output.borrow_mut().apply(copy);
        let scanned = watched
            .tracer
            .note_copy(Item::Mailbox, watched.module, Direction::Sent, &[bytes], mask);
        if scanned == Scanned::Part {
            watched.output.replace(HeadMask::within_of(&watched.masks));
        }
    }

    pub(crate) fn error_lines(&self, lines: Vec<Box<str>>) {
        for line in lines {
            self.note_script_text(Item::Mailbox, || format!("standard error: {line}"));
        }
    }

    pub(crate) fn callout(&self, line: &[u8]) {
        if let Some(watched) = self.watched.get() {
            watched.counts.callouts.update(|callouts| callouts + 1);
            watched.silence.borrow_mut().restart();
            self.note_script_text(Item::Callouts, || text(line));
        }
    }

    pub(crate) fn answer(&self, answer: &Answer) {
        if self.is_on() {
            self.note_script_text(Item::Callouts, || format!("answer: {:03} {}", answer.code, answer.text));
            self.received(|| answer.encode());
        }
    }

    pub(crate) fn buffer_callout(&self, line: &[u8]) {
        self.note(Item::Buffer, || text(line));
    }

    pub(crate) fn buffer_answer(&self, answer: Option<&Answer>) {
        if let Some(answer) = answer {
            self.note(Item::Buffer, || format!("answer: {:03} {}", answer.code, answer.text));
        }
    }

    pub(crate) fn bulk(&self, bytes: usize) {
        if let Some(watched) = self.watched.get() {
            watched.counts.buffer.update(|all| all + bytes as u64);
            watched.silence.borrow_mut().restart();
            self.note(Item::Buffer, || {
                format!("{bytes} bytes for the client, {} in all", watched.counts.buffer.get())
            });
        }
    }

    /// The total output of the script, for the event of its end.
    pub(crate) fn totals(&self) -> String {
        let Some(watched) = self.watched.get() else {
            return String::new();
        };
        let counts = &watched.counts;
        let bytes = counted(counts.mailbox.get(), "byte", "bytes");
        let reads = counted(counts.reads.get(), "read", "reads");
        let mut text = format!("{bytes} in {reads} of the mailbox");
        if counts.buffer.get() > 0 {
            let _ = write!(text, ", {} bytes of the memory buffer", counts.buffer.get());
        }
        if counts.callouts.get() > 0 {
            let callouts = counted(counts.callouts.get(), "callout", "callouts");
            let _ = write!(text, ", {callouts}");
        }
        text
    }

    /// Notes that no output is wanted until `resume`: the client has to take the bytes that it was given.
    pub(crate) fn pause(&self) {
        if let Some(watched) = self.watched.get() {
            watched.paused.set(Some(Instant::now()));
        }
    }

    /// Output is wanted again.
    pub(crate) fn resume(&self) {
        let Some(watched) = self.watched.get() else { return };
        let Some(paused) = watched.paused.take().map(|since| since.elapsed()) else {
            return;
        };
        if paused >= REPORTED_PAUSE {
            watched.silence.borrow_mut().restart();
            self.process(|| {
                format!(
                    "the client took {:.1} s to take what was sent; the script's further output waited meanwhile",
                    paused.as_secs_f64()
                )
            });
        }
    }

    /// Ready from time to time while the script is silent, with the time of its silence and what its process does.
    pub(crate) fn poll_silence(
        &self,
        probe: &Probe,
        context: &mut Context<'_>,
    ) -> Poll<(Duration, Option<Box<ObservedProcess>>)> {
        match self.watched.get() {
            Some(watched) if watched.tracer.wants(Item::Process) => watched.silence.borrow_mut().poll(probe, context),
            _ => Poll::Pending,
        }
    }
}

/// The text about the start of a process: how long it took.
pub(crate) struct StartNote(Option<Instant>);

impl StartNote {
    pub(crate) fn begin(events: &ScriptEvents, program: &Program) -> StartNote {
        events.process(|| {
            let words = program.arguments.iter().map(|word| word.to_string_lossy());
            let words = words.collect::<Vec<_>>().join(" ");
            format!("starts {words:?} in {}", program.directory.to_string_lossy())
        });
        StartNote(events.is_on().then(Instant::now))
    }

    /// The text about the start, when it is over.
    pub(crate) fn end(&self) -> String {
        let Some(begin) = self.0 else { return String::new() };
        format!("in {}", time_text(begin.elapsed()))
    }
}

impl WatchedExchange {
    /// Adds a line for each variable.
    fn list(&self, text: &mut String, variables: &Variables) {
        for (name, value) in variables.iter() {
            let value = self.masked_value(name, value);
            let _ = write!(text, "\n{}={value}", String::from_utf8_lossy(name));
        }
    }

    fn masked_value(&self, name: &[u8], value: &[u8]) -> String {
        let always = || ALWAYS_SECRET.iter().any(|end| name.ends_with(end.as_bytes()));
        match self.masks.is_secret(name) || always() {
            true => mask::hidden(value.len()),
            false => self.masks.text(&text(value)),
        }
    }
}

/// A number of things: `1 process`, `2 processes`.
pub(crate) fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use sluice_watch::{Content, Hub, Items, Spec, TracedAttributes, Watch, WorkerHub};

    use super::*;

    const DIGITS: [u8; 12] = [0xab; 12];

    /// A job with secrets, by its tracer.
    struct Job(Tracer);

    impl WatchableJob for Job {
        fn tracer(&self) -> &Tracer {
            &self.0
        }

        fn module(&self) -> &'static str {
            "script"
        }

        fn secrets(&self, _: &Masks) -> Secrets {
            assert!(self.0.masks().is_some(), "nobody watches");
            Secrets::new([b"Basic c2VjcmV0".as_slice(), b"hunter22"])
        }

        fn script(&self) -> Option<String> {
            None
        }
    }

    fn watched() -> (Watch, ScriptEvents) {
        let hub = Hub::new();
        let watch = hub.watch(Spec { items: Items::ALL, ..Spec::default() }).unwrap();
        let worker = WorkerHub::new(&hub);
        let tracer = worker.exchange(&Tracer::NONE, TracedAttributes::default);
        let events = ScriptEvents::of(Rc::new(Job(tracer)));
        assert!(events.is_on());
        (watch, events)
    }

    /// All that was shown, as one text.
    fn shown_by(watch: &Watch) -> String {
        let taken = watch.take_until(Instant::now());
        let texts = taken.events.iter().map(|event| match &event.content {
            Content::Text(text) => text.clone(),
            Content::Bytes { bytes, .. } => text(bytes),
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn secrets_are_in_no_event() {
        let (watch, events) = watched();
        let sentinels = Sentinels::from_random(DIGITS);
        events.begin_process(&sentinels);
        let mut variables = Variables::default();
        for (name, value) in [
            ("HTTP_AUTHORIZATION", "Basic c2VjcmV0"),
            ("HTTP_COOKIE", "session=topsecret"),
            ("AUTH_PASSWORD", "hunter22"),
            ("QUERY_STRING", "a=hunter22&pwd=topsecret"),
            ("HTTP_X_API_KEY", "topsecret"),
            ("GATEWAY_EOF", sentinels.end()),
            ("HTTP_HOST", "example.org"),
        ] {
            variables.set(name, value.as_bytes());
        }
        events.variables(&variables, || vec![("DB_PASSWORD", b"topsecret".as_slice().into())]);
        for encoding in [RequestEncoding::Record, RequestEncoding::Struct] {
            events.record(&variables, encoding);
        }
        events.output(b"Set-Cookie: session=topsecret\n\nhunt");
        events.output(format!("er22 {}", sentinels.escape()).as_bytes());
        events.callout(format!("WATCH: {} hunter22", sentinels.end()).as_bytes());
        events.answer(&Answer::ok("hunter22"));
        events.error_lines(vec!["hunter22".into()]);
        let shown = shown_by(&watch);
        for secret in ["c2VjcmV0", "topsecret", "hunter22", "er22", "abababab"] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        for part in [
            "HTTP_HOST=example.org",
            "HTTP_COOKIE=…(17 bytes)",
            "answer: 200",
            "$E-***",
        ] {
            assert!(shown.contains(part), "{part} not in {shown}");
        }
    }

    #[test]
    fn nothing_is_made_while_nobody_watches() {
        let events = ScriptEvents::of(Rc::new(Job(Tracer::NONE)));
        events.process(|| unreachable!("nobody watches"));
        events.output(b"text");
        events.pause();
        events.resume();
        assert!(!events.is_on() && events.totals().is_empty());
    }

    #[test]
    fn events_after_the_end_of_the_exchange_are_shown() {
        let (watch, events) = watched();
        if let Some(watched) = events.watched.get() {
            watched.tracer.end();
        }
        events.process(|| "ended".into());
        assert_eq!(shown_by(&watch), "ended");
    }
}
