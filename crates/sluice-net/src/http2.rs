//! HTTP/2 (RFC 9113) with hyper, and its limits.
//!
//! Here: one connection, and how its exchanges are scheduled: each is polled once by the connection's own task, which
//! suffices for responses from memory, and becomes a task only if it has more to do. Frames, flow control, header
//! compression and the floods that they invite (resets, pings, settings, continuations) are hyper's; the numbers are
//! here. Not here: what a request means (`service`), which is the same as in HTTP/1.1.

use std::cell::RefCell;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluice_http::tasks::Tasks;
use sluice_settings::limits::Limits;

use crate::coalescer::{CoalescedStream, WriteCoalescer};
use crate::connection::Connection;
use crate::http_connection::HttpConnection;
use crate::monitor::{Action, ConnectionMonitor};
use crate::service::Service;

/// Concurrent exchanges of one connection. The RFC recommends at least 100 (§6.5.2).
const STREAMS_MAX: u32 = 128;

/// Bytes that a client may send of one body before they are read, and of all bodies of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of one response that wait for the client's window.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Streams that were opened and reset again before they were accepted: with more of them the connection is closed
/// (CVE-2023-44487, the rapid reset).
const RESETS_MAX: usize = 20;

/// Streams that the server reset because of the client's errors: as above.
const ERRORS_MAX: usize = 256;

/// The future of an exchange, as hyper hands it to its executor.
type ExchangeFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The exchanges that hyper has begun and that have not been polled yet.
///
/// They are polled when hyper has no more to read, so that all their responses leave in one write.
#[derive(Clone)]
struct NewExchanges {
    tasks: Tasks,
    exchanges: Rc<RefCell<Vec<ExchangeFuture>>>,
}

impl NewExchanges {
    fn new(tasks: &Tasks) -> NewExchanges {
        NewExchanges {
            tasks: tasks.clone(),
            exchanges: Rc::default(),
        }
    }

    /// Polls each once. Those that are not done become tasks, whose first poll registers a real waker; the one here does
    /// nothing.
    fn poll_all(&self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut exchanges = self.exchanges.take();
        for mut exchange in exchanges.drain(..) {
            // A panic ends only this exchange, as it would end a task.
            let polled = catch_unwind(AssertUnwindSafe(|| exchange.as_mut().poll(&mut context)));
            if let Ok(Poll::Pending) = polled {
                self.tasks.spawn_counted(exchange);
            }
        }
        // Keeps the vector's memory, unless polling has begun other exchanges meanwhile.
        if self.exchanges.borrow().is_empty() {
            self.exchanges.replace(exchanges);
        }
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for NewExchanges {
    fn execute(&self, exchange: F) {
        self.exchanges.borrow_mut().push(Box::pin(self.tasks.counted(exchange)));
    }
}

/// Runs exchanges until the connection is to be closed.
pub(crate) async fn run_http2<S: Service>(http: &HttpConnection<S>) {
    let HttpConnection {
        front,
        service,
        slot,
        stream,
    } = http;
    let connection: &Rc<Connection> = slot;
    let limits = service.limits();
    let service = {
        let (service, connection) = (Rc::clone(service), Rc::clone(connection));
        service_fn(move |request| service.serve(&connection, request))
    };
    let coalescer = Rc::new(RefCell::new(WriteCoalescer::new(Rc::clone(stream))));
    let io = TokioIo::new(CoalescedStream(Rc::clone(&coalescer)));
    let new_exchanges = NewExchanges::new(front.tasks());
    let mut frames = Box::pin(builder(&limits, new_exchanges.clone()).serve_connection(io, service));
    let mut ended = None;
    let mut monitor = ConnectionMonitor::new(connection, front.tick());
    let result: Result<(), Box<dyn Error>> = poll_fn(|context| {
        let action = monitor.next_action(front, connection, context, |monitor| {
            check(connection, stream.borrow().sent_less_received(), &limits, monitor)
        });
        match action {
            Action::Continue => {}
            Action::ShutDown => frames.as_mut().graceful_shutdown(),
            Action::Close(()) => return Poll::Ready(Ok(())),
        }
        if ended.is_none()
            && let Poll::Ready(end) = frames.as_mut().poll(context)
        {
            ended = Some(end);
        }
        new_exchanges.poll_all();
        ready!(coalescer.borrow_mut().poll_drain(context))?;
        if !connection.is_busy() {
            coalescer.borrow_mut().free_memory();
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

/// Checks once a second whether the connection goes on.
fn check(
    connection: &Connection,
    sent_less_received: u32,
    limits: &Limits,
    monitor: &mut ConnectionMonitor,
) -> Action<()> {
    // Its window is closed, or it takes no byte from its socket. In HTTP/1.1 `stream` enforces this limit.
    let stalled = monitor.stalled_time(connection, sent_less_received);
    if stalled.is_some_and(|stalled| stalled >= limits.send_timeout) {
        connection.abort();
        return Action::Close(());
    }
    match monitor.idle_time(connection) {
        Some(idle) if idle >= limits.head_timeout && monitor.is_shutting_down() => Action::Close(()),
        Some(idle) if idle >= limits.head_timeout => {
            // Sends GOAWAY (RFC 9113 §6.8), and gives the client the same time again to close.
            monitor.restart_idle_time(connection);
            Action::ShutDown
        }
        _ => Action::Continue,
    }
}

fn builder(limits: &Limits, new_exchanges: NewExchanges) -> Builder<NewExchanges> {
    let mut builder = Builder::new(new_exchanges);
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(ERRORS_MAX);
    builder
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use sluice_http::endpoints::Endpoints;

    use super::*;
    use crate::connection::UnderWay;
    use crate::front::FrontStatus;

    /// A connection with its monitor.
    struct Monitored {
        connection: Rc<Connection>,
        sent_less_received: u32,
        limits: Limits,
        monitor: ConnectionMonitor,
        begun: Instant,
    }

    impl Monitored {
        fn new(head_timeout: u64, send_timeout: u64) -> Monitored {
            let connection = Rc::new(Connection::new(Endpoints::UNIX));
            Monitored {
                monitor: ConnectionMonitor::new(&connection, 0),
                connection,
                sent_less_received: 0,
                limits: Limits {
                    head_timeout: Duration::from_secs(head_timeout),
                    send_timeout: Duration::from_secs(send_timeout),
                    ..Limits::default()
                },
                // Later than the monitor's own beginning, by less than a second.
                begun: Instant::now(),
            }
        }

        fn serving_at(&mut self, tick: u32) -> Action<()> {
            let is_draining = false;
            self.at(FrontStatus { tick, is_draining })
        }

        fn draining_at(&mut self, tick: u32) -> Action<()> {
            let is_draining = true;
            self.at(FrontStatus { tick, is_draining })
        }

        fn at(&mut self, status: FrontStatus) -> Action<()> {
            let now = self.begun + Duration::from_secs(status.tick.into());
            let check = |monitor: &mut ConnectionMonitor| {
                check(&self.connection, self.sent_less_received, &self.limits, monitor)
            };
            self.monitor.decide(status, || now, check)
        }
    }

    #[test]
    fn an_idle_connection_is_shut_down_and_then_closed() {
        let mut monitored = Monitored::new(10, 60);
        let actions = [9, 10, 19, 20].map(|second| monitored.serving_at(second));
        assert_eq!(
            actions,
            [Action::Continue, Action::ShutDown, Action::Continue, Action::Close(())]
        );
        assert!(!monitored.connection.is_aborted());
    }

    #[test]
    fn an_exchange_restarts_the_idle_time() {
        let mut monitored = Monitored::new(10, 60);
        assert_eq!(monitored.serving_at(9), Action::Continue);
        drop(UnderWay::begin(&monitored.connection));
        let actions = [11, 20, 21].map(|second| monitored.serving_at(second));
        assert_eq!(actions, [Action::Continue, Action::Continue, Action::ShutDown]);
    }

    #[test]
    fn a_connection_shut_down_by_draining_is_not_shut_down_again() {
        let mut monitored = Monitored::new(10, 60);
        let actions = [1, 9, 10].map(|second| monitored.draining_at(second));
        assert_eq!(actions, [Action::ShutDown, Action::Continue, Action::Close(())]);
    }

    #[test]
    fn a_client_that_takes_nothing_is_aborted_but_not_while_it_waits_for_the_server() {
        let mut monitored = Monitored::new(10, 60);
        let mut exchange = UnderWay::begin(&monitored.connection);
        assert_eq!(monitored.serving_at(100), Action::Continue);
        exchange.wait_on_client();
        assert_eq!(monitored.serving_at(159), Action::Continue);
        monitored.sent_less_received += 1;
        let actions = [160, 219].map(|second| monitored.serving_at(second));
        assert_eq!(actions, [Action::Continue, Action::Continue]);
        assert!(!monitored.connection.is_aborted());
        assert_eq!(monitored.serving_at(220), Action::Close(()));
        assert!(monitored.connection.is_aborted());
    }
}
