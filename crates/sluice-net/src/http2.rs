//! HTTP/2 (RFC 9113): hyper's, and its bounds.
//!
//! Here: one connection, and the turns of its exchanges: the first one right behind the connection's own, which suffices for
//! what is answered from memory, the others as tasks beside it. Frames, flow control, header compression and the floods that
//! they invite (resets, pings, settings, continuations) are the library's; the numbers are here. Not here: what a request
//! means (`serve`), which is the same as in HTTP/1.1.

use std::cell::RefCell;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluice_http::tasks::Tasks;
use sluice_settings::limits::Limits;

use crate::coalescer::{CoalescedStream, WriteCoalescer};
use crate::connection::Connection;
use crate::monitor::{Action, ConnectionMonitor};
use crate::protocol::Client;
use crate::service::Service;

/// Exchanges of one connection at once. The RFC recommends 100 at least (§6.5.2).
const STREAMS_MAX: u32 = 128;

/// Bytes that a client may send of one body before somebody takes them, and of all bodies of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of one response that wait for the client's window.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Streams that were opened and reset again before they were looked at: with more of them the connection is ended
/// (CVE-2023-44487, the rapid reset).
const RESETS_MAX: usize = 20;

/// Streams that the client made us reset by its errors: as above.
const ERRORS_MAX: usize = 256;

/// An exchange, as hyper carries it out.
type Exchange = Pin<Box<dyn Future<Output = ()>>>;

/// Exchanges that hyper has begun and that have had no turn.
///
/// They get it when hyper has no more to read, so that all their responses leave in one write.
#[derive(Clone)]
struct Begun {
    tasks: Tasks,
    exchanges: Rc<RefCell<Vec<Exchange>>>,
}

impl Begun {
    fn new(tasks: &Tasks) -> Begun {
        Begun {
            tasks: tasks.clone(),
            exchanges: Rc::default(),
        }
    }

    /// Gives each its first turn. Those that have more to do become tasks, which begin with a turn that somebody is told of.
    fn take_turns(&self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut exchanges = self.exchanges.take();
        for mut exchange in exchanges.drain(..) {
            // A panic ends this exchange alone, as it would end a task.
            let turn = catch_unwind(AssertUnwindSafe(|| exchange.as_mut().poll(&mut context)));
            if let Ok(Poll::Pending) = turn {
                self.tasks.spawn_counted(exchange);
            }
        }
        // The room is kept, unless there are new ones in another already.
        if self.exchanges.borrow().is_empty() {
            self.exchanges.replace(exchanges);
        }
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for Begun {
    fn execute(&self, exchange: F) {
        self.exchanges.borrow_mut().push(Box::pin(self.tasks.counted(exchange)));
    }
}

/// Exchanges until the connection endpoints.
pub(crate) async fn run<S: Service>(client: &Client<S>) {
    let Client {
        front,
        service,
        slot,
        stream,
    } = client;
    let connection: &Rc<Connection> = slot;
    let limits = service.limits();
    let (here, this) = (Rc::clone(service), Rc::clone(connection));
    let service = service_fn(move |request| here.serve(&this, request));
    let gather = Rc::new(RefCell::new(WriteCoalescer::new(Rc::clone(stream))));
    let io = TokioIo::new(CoalescedStream(Rc::clone(&gather)));
    let begun = Begun::new(front.tasks());
    let mut http = Box::pin(http2(&limits, begun.clone()).serve_connection(io, service));
    let mut ended = None;
    let mut monitor = ConnectionMonitor::new(connection, front.tick());
    let result: Result<(), Box<dyn Error>> = poll_fn(|context| {
        match monitor.ask(client, context, |monitor| {
            check(connection, stream.borrow().balance(), &limits, monitor)
        }) {
            Action::GoOn => {}
            Action::End => http.as_mut().graceful_shutdown(),
            Action::Over(()) => return Poll::Ready(Ok(())),
        }
        if ended.is_none()
            && let Poll::Ready(end) = http.as_mut().poll(context)
        {
            ended = Some(end);
        }
        begun.take_turns();
        ready!(gather.borrow_mut().poll_drain(context))?;
        if !connection.is_busy() {
            gather.borrow_mut().rest();
        }
        match ended.take() {
            Some(end) => Poll::Ready(Ok(end?)),
            None => Poll::Pending,
        }
    })
    .await;
    if let Err(error) = result {
        tracing::debug!("connection from {}: {error}", connection.endpoints().client);
    }
}

/// What becomes of a connection, once a second. `balance` is the bytes sent less those that have come.
fn check(connection: &Connection, balance: u32, limits: &Limits, monitor: &mut ConnectionMonitor) -> Action<()> {
    // Its window is closed, or it takes no byte of its socket: as in HTTP/1.1, where the stream sees to it.
    if monitor
        .stalled(connection, balance)
        .is_some_and(|stalled| stalled >= limits.send_timeout)
    {
        connection.cut();
        return Action::Over(());
    }
    match monitor.quiet(connection, connection.is_busy()) {
        Some(quiet) if quiet >= limits.head_timeout && monitor.is_ending() => Action::Over(()),
        Some(quiet) if quiet >= limits.head_timeout => {
            // Once more as long for the client to close, which is told by GOAWAY (RFC 9113 §6.8).
            monitor.begin_again();
            Action::End
        }
        _ => Action::GoOn,
    }
}

fn http2(limits: &Limits, begun: Begun) -> http2::Builder<Begun> {
    let mut http2 = http2::Builder::new(begun);
    http2
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(ERRORS_MAX);
    http2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::UnderWay;
    use sluice_http::endpoints::Endpoints;
    use std::time::{Duration, Instant};

    /// A connection, looked at once in so many seconds.
    struct Looked {
        connection: Rc<Connection>,
        /// Bytes sent, less those that have come.
        balance: u32,
        limits: Limits,
        monitor: ConnectionMonitor,
        begun: Instant,
    }

    impl Looked {
        fn new(head_timeout: u64, send_timeout: u64) -> Looked {
            let connection = Rc::new(Connection::new(Endpoints::UNIX));
            Looked {
                monitor: ConnectionMonitor::new(&connection, 0),
                connection,
                balance: 0,
                limits: Limits {
                    head_timeout: Duration::from_secs(head_timeout),
                    send_timeout: Duration::from_secs(send_timeout),
                    ..Limits::default()
                },
                // Later than the monitor's own beginning, by less than a second.
                begun: Instant::now(),
            }
        }

        fn at(&mut self, second: u32, is_draining: bool) -> Action<()> {
            let now = self.begun + Duration::from_secs(second.into());
            let check = |monitor: &mut ConnectionMonitor| check(&self.connection, self.balance, &self.limits, monitor);
            self.monitor.decide(second, is_draining, || now, check)
        }
    }

    #[test]
    fn a_quiet_connection_is_told_to_end_and_ended_when_it_is_still_there() {
        let mut looked = Looked::new(10, 60);
        let verdicts = [9, 10, 19, 20].map(|second| looked.at(second, false));
        assert_eq!(verdicts, [Action::GoOn, Action::End, Action::GoOn, Action::Over(())]);
        assert!(!looked.connection.is_cut());
    }

    #[test]
    fn an_exchange_begins_the_quiet_anew() {
        let mut looked = Looked::new(10, 60);
        assert_eq!(looked.at(9, false), Action::GoOn);
        drop(UnderWay::begin(&looked.connection));
        let verdicts = [11, 20, 21].map(|second| looked.at(second, false));
        assert_eq!(verdicts, [Action::GoOn, Action::GoOn, Action::End]);
    }

    #[test]
    fn a_connection_that_was_told_by_a_server_that_drains_is_not_told_again() {
        let mut looked = Looked::new(10, 60);
        let verdicts = [1, 9, 10].map(|second| looked.at(second, true));
        assert_eq!(verdicts, [Action::End, Action::GoOn, Action::Over(())]);
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_but_not_while_it_waits_for_the_server() {
        let mut looked = Looked::new(10, 60);
        let mut exchange = UnderWay::begin(&looked.connection);
        assert_eq!(looked.at(100, false), Action::GoOn);
        exchange.set_waiting_on_server(false);
        assert_eq!(looked.at(159, false), Action::GoOn);
        looked.balance += 1;
        let verdicts = [160, 219].map(|second| looked.at(second, false));
        assert_eq!(verdicts, [Action::GoOn, Action::GoOn]);
        assert!(!looked.connection.is_cut());
        assert_eq!(looked.at(220, false), Action::Over(()));
        assert!(looked.connection.is_cut());
    }
}
