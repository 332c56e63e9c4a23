//! Bounds on script processes that several pools share: those of the whole server (`limits.processes`), and those of one route.
//!
//! A `Permit` is the right to one process within both bounds. It is taken when a pool decides to start a process, and dropped
//! when that process has been reaped; a process that is used again needs none, so this costs a reused process nothing.
//!
//! A pool that gets no permit keeps its request in its queue and is remembered here. The next permit that is dropped wakes
//! the pools in that order. Meanwhile the process that has been idle for longest, of any pool, is ended to make room.
//!
//! The last eighth of the server's bound is for pools without any process, so that a script whose processes all hang leaves room for
//! the others. Above the soft bound of the server, each start ends an idle process, if there is one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::pool::{Claim, Idle, Need};
use crate::process::Reason;

/// Time between two log lines about a bound that is reached.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Attempts to take a permit, each after the bound that refused it knows the pool: one for each bound, and one more.
const ATTEMPTS: usize = 3;

/// Requests of other scripts that have waited for this long get the next process that becomes free, even if further requests of
/// its own script wait: otherwise a script that is always busy would keep its processes for ever.
const OLD_CLAIM: Duration = Duration::from_secs(1);

/// The part of the server's bound that is for pools without any process.
const RESERVE: usize = 8;

/// A pool, as a bound sees it. No method may be called while the caller holds the lock of a pool.
pub(crate) trait Member: Send + Sync {
    /// Starts processes for the requests that wait, until none waits or there is no room; then the pool is remembered again.
    fn start_waiting(self: Arc<Self>);
    /// The time since which its oldest idle process has been idle. `None` if it has no such process.
    fn idle_since(&self, which: Idle) -> Option<Instant>;
    fn end_idle(self: Arc<Self>, which: Idle, reason: Reason);
}

pub(crate) struct ProcessLimit {
    /// The key of the configuration, for the log.
    name: &'static str,
    max: AtomicUsize,
    /// Above it, each start ends an idle process.
    soft_max: AtomicUsize,
    /// Whether a part of it is for pools without any process.
    has_reserve: bool,
    running: AtomicUsize,
    /// Whether `waiting` has entries; read without the lock.
    has_waiting: AtomicBool,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Pools with requests that wait for room, the oldest first.
    waiting: VecDeque<Waiting>,
    members: Vec<Weak<dyn Member>>,
    reported: Option<Instant>,
    unreported: u64,
}

struct Waiting {
    member: Weak<dyn Member>,
    need: Need,
    /// When it had to wait, or got its last process.
    since: Instant,
    /// Whether the pool is being woken, and has not been refused again.
    is_woken: bool,
}

#[derive(Clone)]
pub(crate) struct PoolLimits {
    pub(crate) route: Arc<ProcessLimit>,
    pub(crate) server: Arc<ProcessLimit>,
}

/// The right to one process.
pub(crate) struct Permit(PoolLimits);

impl ProcessLimit {
    pub(crate) fn of_server(max: usize) -> Arc<ProcessLimit> {
        ProcessLimit::new("limits.processes", max, true)
    }

    pub(crate) fn of_route(max: Option<usize>) -> Arc<ProcessLimit> {
        ProcessLimit::new("processes of a route", max.unwrap_or(usize::MAX), false)
    }

    fn new(name: &'static str, max: usize, has_reserve: bool) -> Arc<ProcessLimit> {
        Arc::new(ProcessLimit {
            name,
            max: max.into(),
            soft_max: usize::MAX.into(),
            has_reserve,
            running: 0.into(),
            has_waiting: false.into(),
            shared: Mutex::default(),
        })
    }

    /// Changes the bound. Processes above it are not ended.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn set_soft_max(&self, max: Option<usize>) {
        self.soft_max.store(max.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::SeqCst)
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub(crate) fn add(&self, member: Weak<dyn Member>) {
        let mut shared = self.lock();
        shared.members.retain(|member| member.strong_count() > 0);
        shared.members.push(member);
    }

    /// The bound for a process that is started for this.
    fn max_for(&self, need: Need) -> usize {
        let max = self.max.load(Ordering::SeqCst);
        match need {
            Need::Further | Need::Advance if self.has_reserve => max - max / RESERVE,
            _ => max,
        }
    }

    /// Whether the end of one process would leave room for this.
    fn helps(&self, need: Need) -> bool {
        self.running.load(Ordering::SeqCst) <= self.max_for(need)
    }

    fn try_take(&self, need: Need) -> bool {
        let max = self.max_for(need);
        let one_more = |running: usize| (running < max).then_some(running + 1);
        // Sequentially consistent, as are `has_waiting` and the decrement in `Permit::drop`: either this attempt sees the
        // decrement, or the dropped permit sees the pool that `remember` has added before.
        self.running
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)
            .is_ok()
    }

    fn remember(&self, member: &Weak<dyn Member>, need: Need) {
        let mut shared = self.lock();
        match shared.waiting.iter_mut().find(|waiting| waiting.member.ptr_eq(member)) {
            Some(waiting) => (waiting.need, waiting.is_woken) = (need, false),
            None => shared.waiting.push_back(Waiting {
                member: Weak::clone(member),
                need,
                since: Instant::now(),
                is_woken: false,
            }),
        }
        self.has_waiting.store(true, Ordering::SeqCst);
    }

    /// A pool has got a process: it is the last in line for the next one.
    fn note_start(&self, member: &Weak<dyn Member>) {
        if !self.has_waiting.load(Ordering::SeqCst) {
            return;
        }
        let mut shared = self.lock();
        let place = shared.waiting.iter().position(|waiting| waiting.member.ptr_eq(member));
        if let Some(mut waiting) = place.and_then(|place| shared.waiting.remove(place)) {
            waiting.since = Instant::now();
            shared.waiting.push_back(waiting);
        }
    }

    /// Lets pools that wait start processes, while there is room for them. One that must still wait keeps its place and its age.
    fn wake(&self) {
        if !self.has_waiting.load(Ordering::SeqCst) {
            return;
        }
        let count = self.lock().waiting.len();
        for _ in 0..count {
            let Some(member) = self.next_with_room() else {
                return;
            };
            if let Some(pool) = member.upgrade() {
                pool.start_waiting();
            }
            let mut shared = self.lock();
            // Those that were refused again are not woken any more.
            shared
                .waiting
                .retain(|waiting| !(waiting.is_woken && waiting.member.ptr_eq(&member)));
            self.has_waiting.store(!shared.waiting.is_empty(), Ordering::SeqCst);
        }
    }

    /// The first pool for whose need there is room. If several threads wake pools, each gets another one.
    fn next_with_room(&self) -> Option<Weak<dyn Member>> {
        let running = self.running.load(Ordering::SeqCst);
        let mut shared = self.lock();
        let has_room = |waiting: &&mut Waiting| !waiting.is_woken && running < self.max_for(waiting.need);
        let waiting = shared.waiting.iter_mut().find(has_room)?;
        waiting.is_woken = true;
        Some(Weak::clone(&waiting.member))
    }

    /// The claim of other pools to the process of this one.
    fn claim(&self, member: &Weak<dyn Member>) -> Claim {
        if !self.has_waiting.load(Ordering::Relaxed) {
            return Claim::None;
        }
        let shared = self.lock();
        let has_claim = |waiting: &&Waiting| !waiting.member.ptr_eq(member) && self.helps(waiting.need);
        match shared.waiting.iter().find(has_claim) {
            Some(waiting) if waiting.since.elapsed() >= OLD_CLAIM => Claim::Old,
            Some(_) => Claim::Young,
            None => Claim::None,
        }
    }

    /// Logs that a request waits because the bound is reached.
    fn report(&self) {
        let mut shared = self.lock();
        shared.unreported += 1;
        let is_due = shared.reported.is_none_or(|time| time.elapsed() >= REPORT_INTERVAL);
        let requests = shared.unreported;
        if is_due {
            shared.reported = Some(Instant::now());
            shared.unreported = 0;
        }
        drop(shared);
        if is_due {
            tracing::warn!("{self}: the limit is reached; {requests} requests had to wait for a process");
        }
    }

    /// Ends an idle process if there are more than the soft bound. The caller must not hold the lock of a pool.
    pub(crate) fn trim(&self) {
        if self.running.load(Ordering::Relaxed) > self.soft_max.load(Ordering::Relaxed) {
            self.end_idle(Idle::Spare, Reason::SoftLimit);
        }
    }

    /// Ends the process of these that has been idle for longest. False if there is none.
    fn end_idle(&self, which: Idle, reason: Reason) -> bool {
        let members: Vec<_> = self.lock().members.iter().filter_map(Weak::upgrade).collect();
        let idle = members.into_iter();
        let idle = idle.filter_map(|member| Some((member.idle_since(which)?, member)));
        let oldest = idle.min_by_key(|(since, _)| *since);
        oldest.map(|(_, member)| member.end_idle(which, reason)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for ProcessLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (running, max) = (&self.running, &self.max);
        write!(
            out,
            "{} = {}: {} script processes",
            self.name,
            max.load(Ordering::Relaxed),
            running.load(Ordering::Relaxed)
        )
    }
}

impl PoolLimits {
    /// A permit. `None` if a bound is reached, which wakes the pool when there is room again, except for a start in advance: its next tick tries
    /// again. The caller may hold the lock of the pool.
    pub(crate) fn take(&self, need: Need, member: &Weak<dyn Member>) -> Option<Permit> {
        for _ in 0..ATTEMPTS {
            match self.try_take(need) {
                Ok(permit) => {
                    self.server.note_start(member);
                    self.route.note_start(member);
                    return Some(permit);
                }
                Err(_) if need == Need::Advance => return None,
                Err(full) => full.remember(member, need),
            }
        }
        None
    }

    fn try_take(&self, need: Need) -> Result<Permit, &ProcessLimit> {
        if !self.server.try_take(need) {
            return Err(&self.server);
        }
        if !self.route.try_take(need) {
            // Nobody is woken, because the caller may hold a lock: a pool refused meanwhile waits for the next permit that is dropped, or for its next tick.
            self.server.running.fetch_sub(1, Ordering::SeqCst);
            return Err(&self.route);
        }
        Ok(Permit(self.clone()))
    }

    /// The claim of other pools to a process that is free now; two reads if none waits. The caller must not hold the lock of the pool.
    pub(crate) fn claim(&self, member: impl Fn() -> Weak<dyn Member>) -> Claim {
        let limits = [&self.server, &self.route];
        if limits.iter().all(|limit| !limit.has_waiting.load(Ordering::Relaxed)) {
            return Claim::None;
        }
        let member = member();
        let [server, route] = limits.map(|limit| limit.claim(&member));
        server.max(route)
    }

    /// Makes room for a request that waits because `take` has failed for this.
    pub(crate) fn make_room(&self, need: Need) {
        for limit in self.full(need).filter(|limit| limit.helps(need)) {
            let is_made = limit.end_idle(Idle::Spare, Reason::RoomForOthers);
            // One that waits for its first request is worth less than a script that cannot serve at all.
            if !is_made && need == Need::First {
                limit.end_idle(Idle::Any, Reason::RoomForOthers);
            }
        }
    }

    /// Logs that a request waits because `take` has failed for this.
    pub(crate) fn report(&self, need: Need) {
        for limit in self.full(need) {
            limit.report();
        }
    }

    fn full(&self, need: Need) -> impl Iterator<Item = &ProcessLimit> {
        let limits = [&*self.server, &*self.route];
        let has_room = move |limit: &ProcessLimit| limit.running.load(Ordering::SeqCst) < limit.max_for(need);
        limits.into_iter().filter(move |limit| !has_room(limit))
    }
}

impl Drop for Permit {
    /// The caller must not hold the lock of a pool.
    fn drop(&mut self) {
        let PoolLimits { route, server } = &self.0;
        for limit in [route, server] {
            limit.running.fetch_sub(1, Ordering::SeqCst);
        }
        for limit in [route, server] {
            limit.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that keeps the permits that it gets.
    struct Fake {
        limits: PoolLimits,
        waiting: Mutex<usize>,
        permits: Mutex<Vec<Permit>>,
    }

    impl Fake {
        fn new(limits: &PoolLimits) -> Arc<Fake> {
            Arc::new(Fake {
                limits: limits.clone(),
                waiting: Mutex::new(0),
                permits: Mutex::default(),
            })
        }

        fn member(self: &Arc<Fake>) -> Weak<dyn Member> {
            let weak: Weak<Fake> = Arc::downgrade(self);
            weak
        }

        fn request(self: &Arc<Fake>) {
            let mut waiting = self.waiting.lock().unwrap();
            match self.limits.take(self.need(), &self.member()) {
                Some(permit) => self.permits.lock().unwrap().push(permit),
                None => *waiting += 1,
            }
        }

        fn need(&self) -> Need {
            match self.permits.lock().unwrap().is_empty() {
                true => Need::First,
                false => Need::Further,
            }
        }

        fn running(&self) -> usize {
            self.permits.lock().unwrap().len()
        }

        fn end_one(&self) {
            let permit = self.permits.lock().unwrap().pop();
            drop(permit);
        }
    }

    impl Member for Fake {
        fn start_waiting(self: Arc<Fake>) {
            let mut waiting = self.waiting.lock().unwrap();
            while *waiting > 0
                && let Some(permit) = self.limits.take(self.need(), &self.member())
            {
                *waiting -= 1;
                self.permits.lock().unwrap().push(permit);
            }
        }

        fn idle_since(&self, _: Idle) -> Option<Instant> {
            None
        }

        fn end_idle(self: Arc<Fake>, _: Idle, _: Reason) {}
    }

    fn limits(route: Option<usize>, server: &Arc<ProcessLimit>) -> PoolLimits {
        PoolLimits {
            route: ProcessLimit::of_route(route),
            server: Arc::clone(server),
        }
    }

    #[test]
    fn pools_that_wait_get_room_in_turn() {
        let server = ProcessLimit::of_server(2);
        let (one, other) = (Fake::new(&limits(None, &server)), Fake::new(&limits(None, &server)));
        for _ in 0..4 {
            one.request();
        }
        other.request();
        assert_eq!((one.running(), other.running()), (2, 0));
        one.end_one();
        one.end_one();
        assert_eq!((one.running(), other.running()), (1, 1));
        server.set_max(9);
        assert_eq!((one.running(), other.running()), (2, 1));
    }

    #[test]
    fn a_pool_that_waits_keeps_its_age_while_there_is_no_room_for_it() {
        let server = ProcessLimit::of_server(8);
        let (busy, other) = (Fake::new(&limits(None, &server)), Fake::new(&limits(None, &server)));
        (0..6).for_each(|_| busy.request());
        (0..2).for_each(|_| other.request());
        assert_eq!((busy.running(), other.running()), (6, 1));
        let age = || server.lock().waiting.front().map(|waiting| waiting.since);
        let began = age().unwrap();
        // Room that is only for pools without a process.
        for _ in 0..3 {
            let brief = Fake::new(&limits(None, &server));
            brief.request();
            assert_eq!(brief.running(), 1);
            brief.end_one();
            assert_eq!((age(), other.running()), (Some(began), 1));
        }
        busy.end_one();
        assert_eq!((busy.running(), other.running()), (5, 2));
        assert!(!server.has_waiting.load(Ordering::SeqCst));
    }

    #[test]
    fn a_route_has_its_own_bound_within_that_of_the_server() {
        let server = ProcessLimit::of_server(3);
        let narrow = limits(Some(1), &server);
        let (one, other) = (Fake::new(&narrow), Fake::new(&limits(None, &server)));
        for _ in 0..3 {
            one.request();
            other.request();
        }
        assert_eq!((one.running(), other.running()), (1, 2));
        other.end_one();
        assert_eq!(
            (one.running(), other.running()),
            (1, 2),
            "room of the server, not of the route"
        );
        one.end_one();
        assert_eq!(one.running(), 1);
        assert_eq!(server.running.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn one_pool_leaves_an_eighth_of_the_servers_processes_to_pools_without_any() {
        let server = ProcessLimit::of_server(16);
        let hanging = Fake::new(&limits(None, &server));
        for _ in 0..20 {
            hanging.request();
        }
        assert_eq!(hanging.running(), 14);
        let others: Vec<_> = (0..3).map(|_| Fake::new(&limits(None, &server))).collect();
        others.iter().for_each(Fake::request);
        let running: Vec<_> = others.iter().map(|other| other.running()).collect();
        assert_eq!(running, [1, 1, 0]);
        // A process of another pool is no help for the first one, so it may stay.
        assert_eq!(
            others[0].limits.claim(|| others[0].member()),
            Claim::Young,
            "of the third"
        );
        others[1].end_one();
        assert_eq!(others[2].running(), 1);
        assert_eq!(others[0].limits.claim(|| others[0].member()), Claim::None);
        assert_eq!(hanging.running(), 14);
    }

    #[test]
    fn threads_never_exceed_the_bound_and_lose_no_request() {
        let server = ProcessLimit::of_server(3);
        let pools: Vec<_> = (0..4).map(|_| Fake::new(&limits(None, &server))).collect();
        std::thread::scope(|scope| {
            for pool in &pools {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        pool.request();
                        assert!(server.running.load(Ordering::SeqCst) <= 3);
                        pool.end_one();
                    }
                });
            }
        });
        // Each end lets one that waits begin.
        for _ in 0..20_000 {
            pools.iter().for_each(|pool| pool.end_one());
        }
        let waiting: usize = pools.iter().map(|pool| *pool.waiting.lock().unwrap()).sum();
        assert_eq!((waiting, server.running.load(Ordering::SeqCst)), (0, 0));
    }
}
