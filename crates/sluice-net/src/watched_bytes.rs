//! The bytes of a watched connection, as WATCH shows them: of HTTP/1 the octets of both directions, of HTTP/2 the frames as text.
//!
//! Plaintext, as it passes the `ClientStream`; what is secret in it is masked. Exists only while somebody watches, so it may begin in the middle of a
//! connection. What has to be masked depends on the bytes before, so nothing is shown until a message or a frame certainly begins:
//!
//! | | the client sends | the server sends |
//! |---|---|---|
//! | HTTP/1 | first after an idle time; on an idle connection, if it is a request line | after a flush, if it is a status line; other bytes are taken for those of a body |
//! | HTTP/2 | on an idle connection, if it is whole frames | after a flush: the coalescer has sent all that h2 wrote, which are whole frames |

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use sluice_http::watch_pause::WatchPause;
use sluice_watch::mask::{HeadMask, Masks};
use sluice_watch::{Direction, Item, Items, Scanned, Tracer};

use crate::connection::Connection;
use crate::frames::FrameReader;
use crate::stream::STATUS_LINE;

/// The end of the first line of each request of HTTP/1, before its minor version.
const VERSION: &[u8] = b" HTTP/1.";

#[derive(Default)]
pub(crate) struct WatchedBytes {
    received: Side,
    sent: Side,
    /// The number of exchanges after which the connection was last noted as kept.
    kept_after: u32,
    pause: WatchPause,
}

/// The items for which the bytes of a connection are scanned.
const OF_CONNECTION: Items = Items::of(&[Item::Octets, Item::Http2]);

/// Work for a frame that is noted, in bytes that could be scanned meanwhile.
const FRAME_CHARGE: usize = 256;

#[derive(Default)]
enum Side {
    /// Bytes of it were missed.
    #[default]
    Missed,
    /// Bytes of HTTP/2 were missed, and that was noted.
    Noted,
    Http1(Box<HeadMask>),
    Http2(FrameReader),
}

impl WatchedBytes {
    pub(crate) fn poll_pause(&mut self, connection: &Connection, context: &mut Context<'_>) -> Poll<()> {
        // Bytes that are not scanned need not wait.
        let is_wanted = |tracer: &Tracer| Wanted::of(connection, tracer).is_some();
        let tracer = connection.watched.tracer();
        ready!(self.pause.poll(context, || {
            tracer.bytes_wait(OF_CONNECTION).filter(|_| is_wanted(&tracer))
        }));
        Poll::Ready(())
    }

    /// Notes what the client has sent. `is_boundary`: it is certain that a message or frame begins with the first byte.
    pub(crate) fn note_read(
        &mut self,
        connection: &Connection,
        read: &Poll<io::Result<()>>,
        bytes: &[u8],
        is_boundary: bool,
    ) {
        let tracer = connection.watched.tracer();
        match read {
            Poll::Pending => self.note_waiting(connection),
            Poll::Ready(Err(error)) => tracer.note(Item::Connection, "net", || match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    "the client sends no more, without the end of TLS (close_notify)".into()
                }
                _ => format!("reading failed: {error}"),
            }),
            Poll::Ready(Ok(())) if bytes.is_empty() => {
                let how = if connection.peer.tls_info().is_some() {
                    " (close_notify)"
                } else {
                    ""
                };
                tracer.note(Item::Connection, "net", || format!("the client sends no more{how}"));
            }
            Poll::Ready(Ok(())) => {
                if connection.exchanges.is_idle() {
                    connection.watched.skips_octets.set(false);
                    if tracer.wants(Item::Octets) && !may_show(&tracer, bytes) {
                        connection.skip_octets();
                    }
                }
                let Some(wanted) = Wanted::of(connection, &tracer) else {
                    self.received = Side::Missed;
                    return;
                };
                let is_idle = connection.exchanges.is_idle();
                let begin = || match (wanted.is_http2, is_boundary) {
                    (false, true) => Some(wanted.messages()),
                    (false, false) => (is_idle && is_request_line(bytes)).then(|| wanted.messages()),
                    (true, true) => Some(Side::Http2(FrameReader::of_client())),
                    (true, false) if is_idle => FrameReader::resume(bytes).map(Side::Http2),
                    (true, false) => None,
                };
                self.received.begin(&tracer, &wanted, Direction::Received, begin);
                self.received.note(&tracer, Direction::Received, &[bytes]);
            }
        }
    }

    /// Notes bytes that were sent: the first `count` of the chunks. `is_boundary` as of `note_read`.
    pub(crate) fn note_sent(
        &mut self,
        connection: &Connection,
        chunks: &[IoSlice<'_>],
        count: usize,
        is_boundary: bool,
    ) {
        let tracer = connection.watched.tracer();
        let Some(wanted) = Wanted::of(connection, &tracer) else {
            self.sent = Side::Missed;
            return;
        };
        let mut left = count;
        let parts = chunks.iter().map(|chunk| {
            let part = &chunk[..left.min(chunk.len())];
            left -= part.len();
            part
        });
        let parts: Vec<&[u8]> = parts.collect();
        let is_response =
            !wanted.is_http2 && is_boundary && parts.first().is_some_and(|part| part.starts_with(STATUS_LINE));
        if is_response {
            // Whatever the mask took the last bytes for: a response to HEAD ends with its head.
            self.sent = wanted.messages();
        }
        let begin = || match wanted.is_http2 {
            false => Some(Side::Http1(Box::new(HeadMask::within_of(&wanted.masks)))),
            true => is_boundary.then(|| Side::Http2(FrameReader::at_frame())),
        };
        self.sent.begin(&tracer, &wanted, Direction::Sent, begin);
        self.sent.note(&tracer, Direction::Sent, &parts);
    }

    /// Notes that a connection of HTTP/1 waits for its next request, once after each.
    fn note_waiting(&mut self, connection: &Connection) {
        let exchanges = connection.exchanges.begun.get();
        let is_kept =
            connection.exchanges.is_between() && connection.exchanges.is_idle() && self.kept_after != exchanges;
        // Also not after a request that no watch could match.
        if is_kept && !connection.watched.skips_octets.get() {
            self.kept_after = exchanges;
            connection.note_kept();
        }
    }
}

/// The forms in which watches want the bytes.
struct Wanted {
    octets: bool,
    is_http2: bool,
    masks: Masks,
}

impl Wanted {
    fn of(connection: &Connection, tracer: &Tracer) -> Option<Wanted> {
        let is_http2 = connection.outgoing.is_http2.get();
        let octets = !is_http2 && tracer.wants(Item::Octets) && !connection.watched.skips_octets.get();
        let frames = is_http2 && tracer.wants(Item::Http2);
        let masks = tracer.masks().filter(|_| octets || frames)?.clone();
        Some(Wanted { octets, is_http2, masks })
    }

    /// A direction of HTTP/1 at the begin of a message.
    fn messages(&self) -> Side {
        Side::Http1(Box::new(HeadMask::of(&self.masks)))
    }
}

/// Whether some watch may be shown the request that bytes begin; true if they do not tell. A request that is not shown is not even copied.
fn may_show(tracer: &Tracer, bytes: &[u8]) -> bool {
    let mut words = bytes.splitn(3, |byte| *byte == b' ');
    let (Some(method), Some(target), Some(rest)) = (words.next(), words.next(), words.next()) else {
        return true;
    };
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (std::str::from_utf8(method), std::str::from_utf8(path)) {
        // Not of another kind of target, whose path is elsewhere, nor of HTTP/2.
        (Ok(method), Ok(path)) if path.starts_with('/') && rest.starts_with(&VERSION[1..]) => {
            tracer.may_show(method, path)
        }
        _ => true,
    }
}

/// Whether bytes begin with a request line of HTTP/1.
fn is_request_line(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let before_version = line.len().saturating_sub(VERSION.len() + 1);
    line.first().is_some_and(u8::is_ascii_uppercase) && line[before_version..].starts_with(VERSION)
}

impl Side {
    /// Begins with the next bytes if the ones before were missed, and if `begin` knows where the next ones stand.
    fn begin(&mut self, tracer: &Tracer, wanted: &Wanted, direction: Direction, begin: impl FnOnce() -> Option<Side>) {
        let was_noted = match self {
            Side::Missed => false,
            Side::Noted => true,
            Side::Http1(_) | Side::Http2(_) => return,
        };
        *self = begin().unwrap_or(Side::Noted);
        if !was_noted && matches!(self, Side::Noted) {
            note_missed(tracer, wanted, direction);
        }
    }

    /// Notes bytes. Those that nobody is shown are neither copied nor masked, and then the next ones are those of a side that was missed.
    fn note(&mut self, tracer: &Tracer, direction: Direction, parts: &[&[u8]]) {
        match self {
            Side::Missed | Side::Noted => {}
            Side::Http1(mask) => {
                let scanned = tracer.note_copy(Item::Octets, "net", direction, parts, |bytes| mask.apply(bytes));
                if scanned == Scanned::Part {
                    *self = Side::Noted;
                }
            }
            Side::Http2(reader) => parts
                .iter()
                .for_each(|part| note_frames(reader, tracer, direction, part)),
        }
    }
}

fn note_frames(reader: &mut FrameReader, tracer: &Tracer, direction: Direction, bytes: &[u8]) {
    let had_preface = !reader.has_no_preface();
    for frame in reader.read(bytes) {
        tracer.note_charged(Item::Http2, "http2", FRAME_CHARGE, || {
            format!("{} {frame}", direction.name())
        });
    }
    if had_preface && reader.has_no_preface() {
        tracer.note(Item::Http2, "http2", || {
            "the client does not begin with the preface of HTTP/2".into()
        });
    }
}

fn note_missed(tracer: &Tracer, wanted: &Wanted, direction: Direction) {
    let item = if wanted.octets { Item::Octets } else { Item::Http2 };
    let begins = if wanted.is_http2 { "frame" } else { "message" };
    tracer.note(item, "net", || {
        format!(
            "some bytes of this connection were missed: what is {} is shown once it is certain where a {begins} begins",
            direction.name()
        )
    });
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Instant;

    use sluice_watch::{Content, Hub, Items, Spec, TracedAttributes, Tracer, Watch, WorkerHub};

    use super::*;

    /// Where the first byte stands: at the begin of a message or frame, or anywhere.
    const BOUNDARY: bool = true;
    const UNKNOWN: bool = false;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic c2VjcmV0\r\n\r\n";
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const HEADERS: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01secret";

    struct Watched {
        watch: Watch,
        connection: Rc<Connection>,
        watched_bytes: WatchedBytes,
    }

    impl Watched {
        fn new(items: &[Item]) -> Watched {
            Watched::of(Spec { items: Items::of(items), ..Spec::default() })
        }

        fn of(spec: Spec) -> Watched {
            let hub = Hub::new();
            let watch = hub.watch(spec).unwrap();
            let connection = Connection::alone();
            let tracer = WorkerHub::new(&hub).connection(&Tracer::NONE, TracedAttributes::default);
            connection.watched.set_tracer(tracer, 1);
            Watched {
                watch,
                connection,
                watched_bytes: WatchedBytes::default(),
            }
        }

        fn read(&mut self, bytes: &[u8], at: bool) {
            self.watched_bytes
                .note_read(&self.connection, &Poll::Ready(Ok(())), bytes, at);
        }

        fn sent(&mut self, chunks: &[&[u8]], count: usize, is_boundary: bool) {
            let chunks: Vec<_> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
            self.watched_bytes
                .note_sent(&self.connection, &chunks, count, is_boundary);
        }

        /// The events of the watch since the last call, joined.
        fn shown(&self) -> String {
            let events = self.watch.take_until(Instant::now()).events;
            let texts = events.iter().map(|event| match &event.content {
                Content::Text(text) => format!("[{text}]"),
                Content::Bytes { bytes, .. } => bytes.escape_ascii().to_string(),
            });
            texts.collect()
        }
    }

    #[test]
    fn secrets_of_http1_are_masked_wherever_the_reads_end() {
        for size in 1..REQUEST.len() {
            let mut watched = Watched::new(&[Item::Octets]);
            for (index, chunk) in REQUEST.as_bytes().chunks(size).enumerate() {
                watched.read(chunk, index == 0);
            }
            let masked = REQUEST.replace(" Basic c2VjcmV0", "***************");
            assert_eq!(watched.shown(), masked.escape_debug().to_string(), "reads of {size}");
        }
    }

    #[test]
    fn a_watch_that_begins_within_a_head_shows_nothing_until_the_next_one() {
        for begin in 4..REQUEST.len() {
            let mut watched = Watched::new(&[Item::Octets]);
            watched.read(&REQUEST.as_bytes()[begin..], UNKNOWN);
            let shown = watched.shown();
            assert!(
                shown.starts_with("[some bytes of this connection were missed"),
                "{begin}: {shown}"
            );
            watched.read(b"GET / HTTP/1.1\r\n", UNKNOWN);
            assert_eq!(watched.shown(), "GET / HTTP/1.1\\r\\n");
        }
    }

    #[test]
    fn only_a_request_line_tells_that_nobody_is_shown_the_request() {
        let hub = Hub::new();
        let spec = Spec {
            filter: sluice_watch::Filter {
                path: Some(sluice_watch::Pattern::new("/a")),
                ..Default::default()
            },
            ..Spec::default()
        };
        let _watch = hub.watch(spec).unwrap();
        let tracer = WorkerHub::new(&hub).connection(&Tracer::NONE, TracedAttributes::default);
        for (bytes, expected) in [
            ("GET /a?b HTTP/1.1\r\n", true),
            ("GET /b HTTP/1.1\r\n", false),
            ("GET /b HT", true),
            ("GET /b", true),
            ("GET http://a/b HTTP/1.1\r\n", true),
            ("PRI * HTTP/2.0\r\n", true),
            ("", true),
        ] {
            assert_eq!(may_show(&tracer, bytes.as_bytes()), expected, "{bytes}");
        }
    }

    #[test]
    fn only_what_was_sent_of_the_chunks_is_shown() {
        let mut watched = Watched::new(&[Item::Octets]);
        let head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n\r\n";
        watched.sent(&[head, b"body"], head.len() + 2, BOUNDARY);
        watched.sent(&[b"dy"], 2, UNKNOWN);
        assert_eq!(watched.shown(), "HTTP/1.1 200 OK\\r\\nSet-Cookie:****\\r\\n\\r\\nbody");
    }

    #[test]
    fn octets_beyond_those_shown_are_not_scanned_and_those_searched_wait_for_their_turn() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let large = vec![b'x'; 1 << 20];
        let mut shown = Watched::of(Spec {
            items: Items::of(&[Item::Octets]),
            octets_max: 20,
            ..Spec::default()
        });
        shown.sent(&[b"HTTP/1.1 200 OK\r\n\r\n", &large], 19 + large.len(), BOUNDARY);
        assert!(matches!(shown.watched_bytes.sent, Side::Noted));
        assert!(
            shown
                .watched_bytes
                .poll_pause(&shown.connection, &mut context)
                .is_ready()
        );
        assert_eq!(shown.shown(), "HTTP/1.1 200 OK\\r\\n\\r\\nx");
        let mut searched = Watched::of(Spec {
            trigger: Some(sluice_watch::Trigger { bytes: Some("needle".into()), ..Default::default() }),
            ..Spec::default()
        });
        searched.sent(&[&large], large.len(), BOUNDARY);
        assert!(
            searched
                .watched_bytes
                .poll_pause(&searched.connection, &mut context)
                .is_pending()
        );
    }

    #[test]
    fn what_nobody_wants_is_neither_noted_nor_followed() {
        let mut watched = Watched::new(&[Item::Octets]);
        watched.read(b"GET / HTTP/1.1\r\nCookie: ", BOUNDARY);
        drop(crate::active_exchange::ActiveExchange::begin(&watched.connection));
        let busy = crate::active_exchange::ActiveExchange::begin(&watched.connection);
        watched.connection.skip_octets();
        watched.read(b"missed", UNKNOWN);
        watched.connection.watched.skips_octets.set(false);
        watched.read(b"GET /secret HTTP/1.1\r\n", UNKNOWN);
        let shown = watched.shown();
        assert!(shown.starts_with("GET / HTTP/1.1\\r\\nCookie:*[some bytes"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("missed\\r"), "{shown}");
        drop(busy);
        watched.connection.flushed();
        watched.read(b"GET /shown HTTP/1.1\r\n", UNKNOWN);
        assert_eq!(watched.shown(), "GET /shown HTTP/1.1\\r\\n");
    }

    #[test]
    fn frames_of_http2_are_shown_and_none_of_their_octets() {
        let mut watched = Watched::new(&[Item::Octets, Item::Http2]);
        watched.connection.outgoing.is_http2.set(true);
        watched.read(PREFACE, BOUNDARY);
        for byte in HEADERS {
            watched.read(&[*byte], UNKNOWN);
        }
        watched.sent(&[b"\0\0\0\x04\x01\0\0\0\0"], 9, BOUNDARY);
        let shown = watched.shown();
        assert_eq!(
            shown,
            "[received SETTINGS][received HEADERS, stream 1, END_STREAM END_HEADERS, 6 bytes][sent SETTINGS, ACK]"
        );
    }

    #[test]
    fn a_watch_that_begins_within_http2_waits_for_a_certain_frame() {
        let mut watched = Watched::new(&[Item::Http2]);
        watched.connection.outgoing.is_http2.set(true);
        let busy = crate::active_exchange::ActiveExchange::begin(&watched.connection);
        watched.read(HEADERS, UNKNOWN);
        watched.read(HEADERS, UNKNOWN);
        watched.sent(&[HEADERS], HEADERS.len(), UNKNOWN);
        let shown = watched.shown();
        assert_eq!(shown.matches("[some bytes of this").count(), 2, "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
        drop(busy);
        watched.connection.flushed();
        watched.read(&HEADERS[3..], UNKNOWN);
        assert_eq!(watched.shown(), "");
        watched.read(HEADERS, UNKNOWN);
        watched.sent(&[HEADERS], HEADERS.len(), BOUNDARY);
        assert_eq!(watched.shown().matches(" HEADERS, stream 1, ").count(), 2);
    }
}
