//! HTTP/2 (RFC 9113) with hyper, and its limits.
//!
//! Each exchange is polled once by the connection's own task, which suffices for responses from memory, and becomes a task only if it has more to do.
//! Frames, flow control, header compression and their floods (resets, pings, settings, continuations) are hyper's; the numbers are here.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::{Method, Request};
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluice_http::request_body::Incoming;
use sluice_http::tasks::Tasks;
use sluice_settings::limits::Limits;

use crate::close_reason::CloseReason;
use crate::coalescer::{CoalescedStream, WriteCoalescer};
use crate::connection::{CloseRequest, Connection};
use crate::http_connection::HttpConnection;
use crate::monitor::{Action, ConnectionMonitor};
use crate::outgoing::{Delivery, STREAMS_MAX};
use crate::send_allowance::ClientWait;
use crate::service::Service;
use crate::stream::ClientSide;
use crate::tunnel::{self, Answering};

/// Bytes that a client may send of one body before they are read, and of all bodies of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of one response that h2 takes for the client's window, before the body is asked for more (`outgoing`).
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// An idle connection is sent GOAWAY a quarter of `head_timeout` before its end, at most this, so that no request fails.
const GOAWAY_NOTICE: Duration = Duration::from_secs(5);

/// Streams that were reset before they were accepted; more close the connection (CVE-2023-44487, the rapid reset).
const RESETS_MAX: usize = 20;

/// Streams that the server reset because of the client's errors: as above.
const ERRORS_MAX: usize = 256;

/// The future of an exchange, as hyper hands it to its executor.
type ExchangeFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The exchanges that hyper has begun. They are polled when it has no more to read, so that their responses leave in one write.
#[derive(Clone)]
struct NewExchanges {
    tasks: Tasks,
    exchanges: Rc<RefCell<Vec<ExchangeFuture>>>,
    /// hyper is being polled by the connection, which then polls the exchanges.
    is_collecting: Rc<Cell<bool>>,
}

impl NewExchanges {
    fn new(tasks: &Tasks) -> NewExchanges {
        NewExchanges {
            tasks: tasks.clone(),
            exchanges: Rc::default(),
            is_collecting: Rc::default(),
        }
    }

    /// Collects the exchanges that hyper begins in `poll`.
    fn collect<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.is_collecting.set(true);
        let polled = poll();
        self.is_collecting.set(false);
        polled
    }

    /// Polls each once, with a waker that does nothing. Those that are not done become tasks.
    fn poll_all(&self, connection: &Rc<Connection>) {
        let mut context = Context::from_waker(Waker::noop());
        let mut exchanges = self.exchanges.take();
        for mut exchange in exchanges.drain(..) {
            // A panic ends only this exchange, as it would end a task.
            let polled = catch_unwind(AssertUnwindSafe(|| exchange.as_mut().poll(&mut context)));
            let delivery = connection.outgoing.new_delivery.take();
            if let Ok(Poll::Pending) = polled {
                self.tasks.spawn_counted(ExchangeTask {
                    exchange,
                    connection: Rc::clone(connection),
                    delivery,
                });
            }
        }
        // Keeps the vector's memory, unless polling has begun other exchanges meanwhile.
        if self.exchanges.borrow().is_empty() {
            self.exchanges.replace(exchanges);
        }
    }
}

/// The task of an exchange. It ends when the delivery of its body is aborted, which resets the stream (RFC 9113 §5.4.2).
struct ExchangeTask {
    exchange: ExchangeFuture,
    connection: Rc<Connection>,
    delivery: Option<Rc<Delivery>>,
}

impl Future for ExchangeTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.delivery.as_ref().is_some_and(|delivery| delivery.is_aborted.get()) {
            return Poll::Ready(());
        }
        let polled = this.exchange.as_mut().poll(context);
        if let Some(delivery) = this.connection.outgoing.new_delivery.take() {
            this.delivery = Some(delivery);
        }
        if let Some(delivery) = &this.delivery {
            delivery.register(context.waker());
        }
        polled
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for NewExchanges {
    fn execute(&self, exchange: F) {
        if self.is_collecting.get() {
            self.exchanges.borrow_mut().push(Box::pin(self.tasks.counted(exchange)));
        } else {
            // An exchange that has become a tunnel sends its bytes by a task of its own.
            self.tasks.spawn(exchange);
        }
    }
}

pub(crate) async fn run_http2<S: Service>(http: &HttpConnection<S>) {
    let (net, service, stream) = (&http.net, &http.service, &http.stream);
    let connection: &Rc<Connection> = &http.slot;
    connection.outgoing.is_http2.set(true);
    stream.borrow_mut().begin_http2();
    let limits = service.limits();
    let service = {
        let (net, service, connection) = (Rc::clone(net), Rc::clone(service), Rc::clone(connection));
        service_fn(move |mut request: Request<Incoming>| {
            // The request may become a tunnel (RFC 8441 §4), which a task runs on its stream once the response is sent.
            let is_connect = *request.method() == Method::CONNECT;
            let mut switching = is_connect.then(|| (Rc::clone(&net), hyper::upgrade::on(&mut request)));
            Answering::new(service.serve(&connection, request), move |tunnel| {
                if let Some((net, upgrade)) = switching.take() {
                    let tasks = net.tasks.clone();
                    tasks.spawn(tunnel::run_on_stream(net, upgrade, tunnel));
                }
            })
        })
    };
    let coalescer = Rc::new(RefCell::new(WriteCoalescer::new(
        Rc::clone(stream),
        Rc::clone(connection),
    )));
    let io = TokioIo::new(CoalescedStream(Rc::clone(&coalescer)));
    let new_exchanges = NewExchanges::new(&net.tasks);
    let builder = builder(&*http.service, &limits, new_exchanges.clone());
    let mut frames = Box::pin(builder.serve_connection(io, service));
    let mut ended = None;
    let mut monitor = ConnectionMonitor::new(connection, net.tick());
    let result: Result<(), Box<dyn Error>> = poll_fn(|context| {
        http.join_watches();
        stream.borrow_mut().begin_turn();
        if let Some(request) = connection.due_close_request() {
            if request == CloseRequest::MakeRoom {
                // One GOAWAY, for which there is room, because nothing was under way.
                frames.as_mut().graceful_shutdown();
                let _ = frames.as_mut().poll(context).is_ready();
                let _ = coalescer.borrow_mut().poll_drain(context).is_ready();
            }
            return Poll::Ready(Ok(()));
        }
        let action = monitor.next_action(net, connection, context, |monitor| check(http, &limits, monitor));
        match action {
            Action::Continue => {}
            Action::ShutDown => frames.as_mut().graceful_shutdown(),
            Action::Close(()) => return Poll::Ready(Ok(())),
        }
        if ended.is_none()
            && let Poll::Ready(end) = new_exchanges.collect(|| frames.as_mut().poll(context))
        {
            ended = Some(end);
        }
        new_exchanges.poll_all(connection);
        ready!(coalescer.borrow_mut().poll_drain(context))?;
        if !connection.exchanges.is_busy() {
            coalescer.borrow_mut().free_memory();
        }
        match ended.take() {
            Some(end) => Poll::Ready(Ok(end?)),
            None => Poll::Pending,
        }
    })
    .await;
    connection.close_because(reason_of_end(http, &monitor, result));
}

fn reason_of_end<S: Service>(
    http: &HttpConnection<S>,
    monitor: &ConnectionMonitor,
    result: Result<(), Box<dyn Error>>,
) -> CloseReason {
    match result {
        Ok(()) if http.net.is_draining() => CloseReason::Draining,
        Ok(()) => match http.stream.borrow().client {
            ClientSide::Reset => CloseReason::ClientReset,
            ClientSide::Open if monitor.is_shutting_down() => CloseReason::Idle,
            ClientSide::Open | ClientSide::Closed => CloseReason::ClientClosed,
        },
        Err(error) => {
            let client = http.slot.peer.endpoints().client;
            tracing::debug!("connection from {client}: {error}");
            http.reason_of_error(&*error)
        }
    }
}

fn check<S>(http: &HttpConnection<S>, limits: &Limits, monitor: &mut ConnectionMonitor) -> Action<()> {
    let (connection, mut stream) = (&http.slot, http.stream.borrow_mut());
    let wait = stream.client_wait(monitor.now());
    let is_sending = stream.is_sending();
    let action = check_sent(connection, wait, limits, monitor, || {
        http.net.log.slow(connection);
        connection
            .note(|| "a response was too slow: its client took less than send_timeout and send_rate allow".into());
    });
    if is_sending {
        monitor.restart_idle_time(connection);
    }
    match action {
        Action::Continue => check_idle(connection, limits, monitor),
        action => action,
    }
}

fn check_sent(
    connection: &Connection,
    wait: Option<ClientWait>,
    limits: &Limits,
    monitor: &mut ConnectionMonitor,
    log: impl Fn(),
) -> Action<()> {
    let mut is_fast_enough = monitor.is_fast_enough(connection, wait, limits);
    if is_fast_enough {
        let slow = monitor.abort_slow_exchanges(connection, limits);
        (0..slow.aborted).for_each(|_| log());
        is_fast_enough = !slow.are_complete_ones_slow;
    }
    if is_fast_enough {
        return Action::Continue;
    }
    log();
    connection.close_because(CloseReason::TooSlow);
    connection.abort();
    Action::Close(())
}

/// Checks whether the connection has been idle for `head_timeout`. It is sent GOAWAY before (RFC 9113 §6.8).
fn check_idle(connection: &Connection, limits: &Limits, monitor: &mut ConnectionMonitor) -> Action<()> {
    let timeout = limits.head_timeout;
    let notice = GOAWAY_NOTICE.min(timeout / 4);
    match monitor.idle_time(connection) {
        Some(idle) if idle >= timeout && monitor.is_shutting_down() => {
            connection.close_because(CloseReason::Idle);
            Action::Close(())
        }
        Some(idle) if idle >= timeout - notice && !monitor.is_shutting_down() => Action::ShutDown,
        _ => Action::Continue,
    }
}

fn builder<S: Service>(service: &S, limits: &Limits, new_exchanges: NewExchanges) -> Builder<NewExchanges> {
    let mut builder = Builder::new(new_exchanges);
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(ERRORS_MAX);
    if service.has_tunnels() {
        builder.enable_connect_protocol();
    }
    builder
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::{Buf, Bytes};

    use super::*;
    use crate::active_exchange::ActiveExchange;
    use crate::chunk::{Chunk, ChunkMemory, ChunkPosition};
    use crate::worker_net::WorkerNetStatus;

    /// A connection with its monitor.
    struct Monitored {
        connection: Rc<Connection>,
        limits: Limits,
        monitor: ConnectionMonitor,
        begun: Instant,
    }

    impl Monitored {
        fn new(head_timeout: u64, send_timeout: u64) -> Monitored {
            let connection = Connection::alone();
            connection.outgoing.is_http2.set(true);
            Monitored {
                monitor: ConnectionMonitor::new(&connection, 0),
                connection,
                limits: Limits {
                    head_timeout: Duration::from_secs(head_timeout),
                    send_timeout: Duration::from_secs(send_timeout),
                    ..Limits::default()
                },
                // Later than the monitor's own beginning, by less than a second.
                begun: Instant::now(),
            }
        }

        /// An exchange that has handed out its first chunk.
        fn exchange(&self) -> Exchange {
            let mut under_way = ActiveExchange::begin(&self.connection);
            under_way.wait_on_client();
            let bytes = Bytes::from_static(&[0; 100_000]);
            let chunk = under_way.hand_out(bytes, ChunkMemory::Own, ChunkPosition::Inner);
            let delivery = self.connection.outgoing.new_delivery.take().unwrap();
            Exchange { under_way, chunk, delivery }
        }

        fn serving_at(&mut self, tick: u32) -> Action<()> {
            self.serving(tick, None)
        }

        fn serving(&mut self, tick: u32, wait: Option<ClientWait>) -> Action<()> {
            let is_draining = false;
            self.at(WorkerNetStatus { tick, is_draining }, wait)
        }

        fn draining_at(&mut self, tick: u32) -> Action<()> {
            let is_draining = true;
            self.at(WorkerNetStatus { tick, is_draining }, None)
        }

        fn at(&mut self, status: WorkerNetStatus, wait: Option<ClientWait>) -> Action<()> {
            let now = self.begun + Duration::from_secs(status.tick.into());
            let (connection, limits) = (&self.connection, &self.limits);
            let check = |monitor: &mut ConnectionMonitor| match check_sent(connection, wait, limits, monitor, || ()) {
                Action::Continue => check_idle(connection, limits, monitor),
                action => action,
            };
            self.monitor.decide(status, || now, check)
        }
    }

    /// An exchange under way.
    struct Exchange {
        under_way: ActiveExchange,
        chunk: Chunk,
        delivery: Rc<Delivery>,
    }

    impl Exchange {
        /// Begins its chunk again if little of it is left.
        fn again(&mut self, connection: &Connection) {
            if self.chunk.remaining() > 50_000 {
                return;
            }
            let bytes = Bytes::from_static(&[0; 100_000]);
            self.chunk = self.under_way.hand_out(bytes, ChunkMemory::Own, ChunkPosition::Inner);
            assert!(connection.outgoing.new_delivery.take().is_none());
        }
    }

    #[test]
    fn an_idle_connection_is_closed_after_its_time_and_shut_down_before() {
        let mut monitored = Monitored::new(10, 60);
        let actions = [6, 8, 9, 10].map(|second| monitored.serving_at(second));
        assert_eq!(
            actions,
            [Action::Continue, Action::ShutDown, Action::Continue, Action::Close(())]
        );
        assert!(!monitored.connection.is_aborted.get());
    }

    #[test]
    fn an_exchange_restarts_the_idle_time() {
        let mut monitored = Monitored::new(10, 60);
        assert_eq!(monitored.serving_at(6), Action::Continue);
        drop(ActiveExchange::begin(&monitored.connection));
        let actions = [8, 14, 16].map(|second| monitored.serving_at(second));
        assert_eq!(actions, [Action::Continue, Action::Continue, Action::ShutDown]);
    }

    #[test]
    fn a_connection_shut_down_by_draining_is_not_shut_down_again() {
        let mut monitored = Monitored::new(10, 60);
        let actions = [1, 9, 10].map(|second| monitored.draining_at(second));
        assert_eq!(actions, [Action::ShutDown, Action::Continue, Action::Close(())]);
    }

    #[test]
    fn a_stalled_exchange_is_aborted_whatever_else_the_connection_takes() {
        let mut monitored = Monitored::new(10, 60);
        let (stalled, mut other) = (monitored.exchange(), monitored.exchange());
        for second in 1..60 {
            // Less than both together would have to take.
            other.chunk.advance(600);
            assert_eq!(monitored.serving_at(second), Action::Continue);
            assert!(!stalled.delivery.is_aborted.get(), "{second}");
        }
        assert_eq!(monitored.serving_at(62), Action::Continue);
        assert!(stalled.delivery.is_aborted.get() && !other.delivery.is_aborted.get());
        assert!(!monitored.connection.is_aborted.get());
    }

    #[test]
    fn exchanges_that_are_fast_enough_together_are_excused_until_their_turn() {
        let mut monitored = Monitored::new(10, 60);
        let (waiting, mut other) = (monitored.exchange(), monitored.exchange());
        for second in 1..70 {
            other.chunk.advance(1200);
            assert_eq!(monitored.serving_at(second), Action::Continue);
        }
        assert!(!waiting.delivery.is_aborted.get());
        // Two turns of a frame and a window each, then the time limit.
        let mut is_aborted = |second: u32| {
            other.chunk.advance(1200);
            other.again(&monitored.connection);
            assert_eq!(monitored.serving_at(second), Action::Continue);
            waiting.delivery.is_aborted.get()
        };
        let aborted_at = (70..400).find(|second| is_aborted(*second));
        assert_eq!(aborted_at, Some(197));
        assert!(!monitored.connection.is_aborted.get());
    }

    #[test]
    fn exchanges_that_take_turns_go_on_however_long_the_turns_are() {
        let mut monitored = Monitored::new(10, 60);
        let mut exchanges: Vec<_> = (0..100).map(|_| monitored.exchange()).collect();
        // 50 KB a second, and each turn is as long as the time limit.
        for second in 1..1000_u32 {
            let turn = usize::try_from(second).unwrap() % 60;
            for exchange in exchanges.iter_mut().skip(turn).step_by(60) {
                exchange.chunk.advance(30_000);
                exchange.again(&monitored.connection);
            }
            assert_eq!(monitored.serving_at(second), Action::Continue);
        }
        assert!(exchanges.iter().all(|exchange| !exchange.delivery.is_aborted.get()));
    }

    #[test]
    fn a_socket_that_takes_little_does_not_excuse_closed_windows_for_ever() {
        let mut monitored = Monitored::new(10, 60);
        let (stalled, mut other) = (monitored.exchange(), monitored.exchange());
        let waited = Duration::from_secs(1);
        let mut is_aborted = |second: u32| {
            other.chunk.advance(2000);
            other.again(&monitored.connection);
            let wait = Some(ClientWait { waited, taken: 2000 });
            assert_eq!(monitored.serving(second, wait), Action::Continue);
            stalled.delivery.is_aborted.get()
        };
        let aborted_at = (1..400).find(|second| is_aborted(*second));
        assert_eq!(aborted_at, Some(142));
    }

    #[test]
    fn an_exchange_that_waits_for_the_server_is_not_aborted() {
        let mut monitored = Monitored::new(10, 60);
        let mut exchange = monitored.exchange();
        exchange.under_way.wait_on_server();
        let actions = [1, 50, 100, 200].map(|second| monitored.serving_at(second));
        assert_eq!(actions, [Action::Continue; 4]);
        assert!(!exchange.delivery.is_aborted.get());
    }

    /// A body of one chunk, whose exchange is over.
    fn complete_body(connection: &Rc<Connection>) -> Chunk {
        let mut under_way = ActiveExchange::begin(connection);
        under_way.wait_on_client();
        let bytes = Bytes::from_static(&[0; 100_000]);
        under_way.hand_out(bytes, ChunkMemory::Own, ChunkPosition::Last)
    }

    #[test]
    fn complete_bodies_that_nobody_takes_end_the_connection_although_others_progress() {
        let mut monitored = Monitored::new(10, 60);
        let _stalled = complete_body(&monitored.connection);
        let mut other = monitored.exchange();
        let mut action = |second: u32| {
            other.chunk.advance(400);
            other.again(&monitored.connection);
            drop(complete_body(&monitored.connection));
            monitored.serving_at(second)
        };
        let closed_at = (1..400).find(|second| action(*second) != Action::Continue);
        assert_eq!(closed_at, Some(62));
        assert!(monitored.connection.is_aborted.get());
    }

    #[test]
    fn complete_bodies_that_a_slow_client_takes_go_on() {
        let mut monitored = Monitored::new(10, 60);
        let mut bodies = [
            complete_body(&monitored.connection),
            complete_body(&monitored.connection),
        ];
        // Each takes three times the time limit, in turn with the other.
        for second in 1..2000 {
            let body = &mut bodies[second as usize % 2];
            body.advance(1000);
            if !body.has_remaining() {
                *body = complete_body(&monitored.connection);
            }
            assert_eq!(monitored.serving_at(second), Action::Continue);
        }
    }

    #[test]
    fn last_chunks_that_nobody_takes_end_the_connection() {
        let mut monitored = Monitored::new(10, 60);
        let mut under_way = ActiveExchange::begin(&monitored.connection);
        under_way.wait_on_client();
        let bytes = Bytes::from_static(&[0; 100]);
        let _chunk = under_way.hand_out(bytes, ChunkMemory::Shared, ChunkPosition::Last);
        drop(under_way);
        let actions = [1, 59].map(|second| monitored.serving_at(second));
        assert_eq!(actions, [Action::Continue; 2]);
        assert_eq!(monitored.serving_at(61), Action::Close(()));
        assert!(monitored.connection.is_aborted.get());
    }
}
