//! The pool by example and by simulation: random events over many seeds, with the invariants checked after each.

use std::path::Path;

use super::backoff::{BACKOFF_MIN, FAILURES_FREE};
use super::queue::FAIRNESS;
use super::*;

fn pool(max: usize, queue_max: usize) -> Pool {
    let settings = PoolSettings {
        max,
        min: 0,
        idle: Duration::from_secs(60),
        requests_max: None,
        queue_max,
        queue_timeout: Duration::from_secs(30),
    };
    Pool::new(settings).with_backoff()
}

/// No bound is reached.
fn always() -> bool {
    true
}

fn started(decision: Decision) -> ProcessId {
    match decision {
        Decision::Start(id) => id,
        other => panic!("expected a start, got {other:?}"),
    }
}

fn script(number: usize) -> ScriptId {
    ScriptId::of(Path::new(&number.to_string()))
}

#[test]
fn an_engine_that_has_run_a_script_is_preferred_for_it_before_one_of_the_own_worker() {
    let (mut pool, now) = (pool(9, 9), Instant::now());
    let ids: Vec<_> = (0..3)
        .map(|number| started(pool.request(number % 2, Some(script(number)), now, &mut always)))
        .collect();
    for id in &ids {
        pool.release(*id, now, Claim::None, &mut always);
    }
    let later = now + SPARE_AFTER;
    for (wanted, expected) in [(0, ids[0]), (1, ids[1]), (2, ids[2])] {
        let decision = pool.request(0, Some(script(wanted)), later, &mut always);
        assert_eq!(decision, Decision::Use(expected));
        pool.release(expected, later, Claim::None, &mut always);
    }
    // Of scripts that none has run, the own worker's process that was busy last gets it, and has run it then.
    assert_eq!(
        pool.request(0, Some(script(7)), later, &mut always),
        Decision::Use(ids[2])
    );
    let Decision::Use(other) = pool.request(0, Some(script(7)), later, &mut always) else {
        panic!("another is idle")
    };
    assert_ne!(other, ids[2]);
}

#[test]
fn a_process_that_another_worker_can_spare_is_taken_before_a_new_one_is_started() {
    let (mut pool, now) = (pool(9, 9), Instant::now());
    let first = started(pool.request(0, None, now, &mut always));
    pool.release(first, now, Claim::None, &mut always);
    assert_eq!(
        pool.request(1, None, now + SPARE_AFTER, &mut always),
        Decision::Use(first)
    );
}

#[test]
fn a_request_gets_its_workers_process_then_a_new_one_then_anothers_then_waits_then_is_refused() {
    let (mut pool, now) = (pool(2, 1), Instant::now());
    let first = started(pool.request(0, None, now, &mut always));
    assert_eq!(
        pool.release(first, now, Claim::None, &mut always),
        (Release::Keep, None)
    );
    assert_eq!(pool.request(0, None, now, &mut always), Decision::Use(first));
    pool.release(first, now, Claim::None, &mut always);
    let second = started(pool.request(1, None, now, &mut always));
    assert_eq!(
        pool.request(1, None, now, &mut always),
        Decision::Use(first),
        "at max another worker's idle one is taken"
    );
    let Decision::Wait(ticket) = pool.request(0, None, now, &mut always) else {
        panic!("expected to wait")
    };
    assert_eq!(pool.refusal(now), Some(Refusal::QueueFull));
    assert_eq!(
        pool.request(0, None, now, &mut always),
        Decision::Refuse(Refusal::QueueFull)
    );
    assert_eq!(
        pool.release(second, now, Claim::None, &mut always).0,
        Release::Hand(ticket)
    );
    assert_eq!(pool.refusal(now), None);
}

#[test]
fn a_young_waiter_on_the_processs_worker_goes_first_but_not_before_an_old_one() {
    let (mut pool, now) = (pool(1, 9), Instant::now());
    let process = started(pool.request(0, None, now, &mut always));
    let Decision::Wait(other) = pool.request(1, None, now, &mut always) else {
        panic!()
    };
    let Decision::Wait(own) = pool.request(0, None, now, &mut always) else {
        panic!()
    };
    assert_eq!(
        pool.release(process, now, Claim::None, &mut always).0,
        Release::Hand(own)
    );
    let Decision::Wait(_) = pool.request(0, None, now, &mut always) else {
        panic!()
    };
    assert_eq!(
        pool.release(process, now + FAIRNESS, Claim::None, &mut always).0,
        Release::Hand(other)
    );
}

#[test]
fn processes_that_end_before_their_first_reply_delay_the_next_start() {
    let (mut pool, mut now) = (pool(4, 9), Instant::now());
    for _ in 0..=FAILURES_FREE {
        let id = started(pool.request(0, None, now, &mut always));
        assert_eq!(pool.ended(id, now, &mut always), None);
    }
    assert_eq!(
        pool.request(0, None, now, &mut always),
        Decision::Refuse(Refusal::BackOff(BACKOFF_MIN))
    );
    now += BACKOFF_MIN;
    let id = started(pool.request(0, None, now, &mut always));
    pool.release(id, now, Claim::None, &mut always);
    pool.ended(id, now, &mut always);
    started(pool.request(0, None, now, &mut always));
}

#[test]
fn a_process_that_ends_after_a_reply_is_replaced_at_once_for_a_waiter() {
    let (mut pool, now) = (pool(1, 9), Instant::now());
    let id = started(pool.request(0, None, now, &mut always));
    pool.release(id, now, Claim::None, &mut always);
    assert_eq!(pool.request(0, None, now, &mut always), Decision::Use(id));
    let Decision::Wait(ticket) = pool.request(0, None, now, &mut always) else {
        panic!()
    };
    assert!(matches!(pool.ended(id, now, &mut always), Some(Action::Start(who, _)) if who == ticket));
}

#[test]
fn idle_processes_end_by_age_except_for_the_minimum_and_those_with_their_own_lifetime() {
    let (mut pool, now) = (pool(4, 9), Instant::now());
    pool.settings.min = 1;
    let ids: Vec<_> = (0..3)
        .map(|_| started(pool.request(0, None, now, &mut always)))
        .collect();
    pool.set_lifetime(ids[2], None);
    for id in &ids {
        pool.release(*id, now, Claim::None, &mut always);
    }
    assert_eq!(pool.tick(now + Duration::from_secs(59), &mut always), []);
    let retired = pool.tick(now + Duration::from_secs(60), &mut always);
    assert_eq!(
        retired,
        [
            Action::Retire(ids[0], Reason::Idle),
            Action::Retire(ids[1], Reason::Idle)
        ]
    );
}

#[test]
fn an_engine_is_not_started_while_one_is_idle_in_another_worker() {
    let (mut pool, now) = (pool(9, 9), Instant::now());
    let id = started(pool.request(0, Some(script(1)), now, &mut always));
    pool.release(id, now, Claim::None, &mut always);
    for (worker, wanted) in [(1, 1), (0, 1), (1, 2)] {
        assert_eq!(
            pool.request(worker, Some(script(wanted)), now, &mut always),
            Decision::Use(id)
        );
        pool.release(id, now, Claim::None, &mut always);
    }
    // A script that is a program is started again soon: the move costs as much.
    let other = pool.request(0, None, now, &mut always);
    assert_ne!(other, Decision::Use(id));
}

#[test]
fn a_changed_script_ends_idle_processes_now_and_busy_ones_after_their_reply() {
    let (mut pool, now) = (pool(4, 9), Instant::now());
    let (idle, busy) = (
        started(pool.request(0, None, now, &mut always)),
        started(pool.request(0, None, now, &mut always)),
    );
    pool.release(idle, now, Claim::None, &mut always);
    assert_eq!(
        pool.replace_all(Reason::ScriptChanged),
        [Action::Retire(idle, Reason::ScriptChanged)]
    );
    assert_eq!(
        pool.release(busy, now, Claim::None, &mut always).0,
        Release::Retire(Reason::ScriptChanged)
    );
    assert!(pool.is_empty());
}

/// The processes and waiters of a simulation.
#[derive(Default)]
struct World {
    busy: Vec<ProcessId>,
    idle: Vec<ProcessId>,
    waiting: Vec<Ticket>,
    random: u64,
}

impl World {
    /// SplitMix64: enough for a simulation, and the same on every machine.
    fn random_below(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % below.max(1) as u64).unwrap()
    }

    fn take(list: &mut Vec<ProcessId>, id: ProcessId) {
        let at = list
            .iter()
            .position(|other| *other == id)
            .expect("known to the simulation");
        list.remove(at);
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Retire(id, _) => World::take(&mut self.idle, id),
            Action::Start(ticket, id) => {
                self.waiting.retain(|other| *other != ticket);
                self.busy.push(id);
            }
        }
    }

    /// A request, half of them for scripts of an engine. A process that has run the script is preferred within its worker.
    fn request(&mut self, pool: &mut Pool, now: Instant) -> Decision {
        let worker = self.random_below(3);
        let script = (self.random_below(2) == 0).then(|| script(self.random_below(6)));
        let own = pool.processes.iter();
        let own: Vec<_> = own
            .filter(|slot| slot.idle_since.is_some() && slot.worker == worker)
            .collect();
        let has_own = !own.is_empty();
        let ran: Vec<_> = own
            .iter()
            .filter(|slot| slot.recent.has(script))
            .map(|slot| slot.id)
            .collect();
        let decision = pool.request(worker, script, now, &mut always);
        match decision {
            Decision::Use(id) => assert!(ran.is_empty() || ran.contains(&id), "one that has run it is idle"),
            _ => assert!(!has_own, "one of the worker is idle"),
        }
        decision
    }

    fn step(&mut self, pool: &mut Pool, now: Instant) {
        match self.random_below(10) {
            0..4 => match self.request(pool, now) {
                Decision::Use(id) => {
                    World::take(&mut self.idle, id);
                    self.busy.push(id);
                }
                Decision::Start(id) => self.busy.push(id),
                Decision::Wait(ticket) => self.waiting.push(ticket),
                Decision::Refuse(_) => {}
            },
            4..7 if !self.busy.is_empty() => {
                let at = self.random_below(self.busy.len());
                let id = self.busy.swap_remove(at);
                let (release, action) = pool.release(id, now, Claim::None, &mut always);
                match release {
                    Release::Keep => self.idle.push(id),
                    Release::Hand(ticket) => {
                        self.waiting.retain(|other| *other != ticket);
                        self.busy.push(id);
                    }
                    Release::Retire(_) => {}
                }
                action.into_iter().for_each(|action| self.apply(action));
            }
            7 => {
                let dying = if self.random_below(2) == 0 {
                    &mut self.busy
                } else {
                    &mut self.idle
                };
                if let Some(id) = dying.pop() {
                    pool.ended(id, now, &mut always)
                        .into_iter()
                        .for_each(|action| self.apply(action));
                }
            }
            8 if !self.waiting.is_empty() => {
                let at = self.random_below(self.waiting.len());
                let ticket = self.waiting.swap_remove(at);
                pool.cancel(ticket);
            }
            _ => pool
                .tick(now, &mut always)
                .into_iter()
                .for_each(|action| self.apply(action)),
        }
    }
}

#[test]
fn no_simulation_loses_a_process_or_a_waiter_or_exceeds_a_limit() {
    for seed in 0..300 {
        let mut world = World {
            random: seed,
            ..World::default()
        };
        let (max, queue_max) = (1 + world.random_below(4), world.random_below(6));
        let mut pool = pool(max, queue_max);
        pool.settings.requests_max = (world.random_below(2) == 0).then_some(3);
        let mut now = Instant::now();
        for _ in 0..500 {
            now += Duration::from_millis(world.random_below(20_000) as u64);
            world.step(&mut pool, now);
            let (idle, busy) = (world.idle.len(), world.busy.len());
            assert!(idle + busy <= max, "seed {seed}: more processes than max");
            assert_eq!(pool.processes.len(), idle + busy, "seed {seed}: a process is lost");
            assert_eq!(pool.queue.len(), world.waiting.len(), "seed {seed}: a waiter is lost");
            assert!(pool.queue.len() <= queue_max);
            let may_start = idle + busy < max && pool.backoff.wait(now).is_none();
            assert!(
                world.waiting.is_empty() || idle == 0,
                "seed {seed}: a request waits beside an idle process"
            );
            // Only a cancelled backoff leaves waiters until the next tick.
            if may_start && !world.waiting.is_empty() {
                pool.tick(now, &mut always)
                    .into_iter()
                    .for_each(|action| world.apply(action));
                assert!(world.waiting.is_empty() || world.idle.len() + world.busy.len() == max);
            }
        }
    }
}

#[test]
fn without_room_a_request_takes_any_idle_process_or_waits_until_there_is_room() {
    let (mut pool, now) = (pool(4, 9), Instant::now());
    let first = started(pool.request(0, None, now, &mut always));
    pool.release(first, now, Claim::None, &mut always);
    let mut never = || false;
    assert_eq!(
        pool.request(1, None, now, &mut never),
        Decision::Use(first),
        "another worker's"
    );
    let Decision::Wait(ticket) = pool.request(1, None, now, &mut never) else {
        panic!("expected to wait")
    };
    assert_eq!(pool.start_for_waiting(now, &mut never), None);
    assert!(matches!(pool.start_for_waiting(now, &mut always), Some(Action::Start(who, _)) if who == ticket));
    assert_eq!(pool.start_for_waiting(now, &mut always), None, "nobody waits");
}

#[test]
fn the_oldest_idle_process_above_the_minimum_makes_room_for_others() {
    let (mut pool, now) = (pool(4, 9), Instant::now());
    pool.settings.min = 1;
    let ids: Vec<_> = (0..2)
        .map(|_| started(pool.request(0, None, now, &mut always)))
        .collect();
    pool.release(ids[1], now, Claim::None, &mut always);
    assert_eq!(pool.idle_since(), None, "the minimum");
    pool.release(ids[0], now + Duration::from_secs(1), Claim::None, &mut always);
    assert_eq!(pool.idle_since(), Some(now));
    assert_eq!(pool.end_idle(), Some(Action::Retire(ids[1], Reason::RoomForOthers)));
    assert_eq!(pool.end_idle(), None);
}

#[test]
fn a_process_that_becomes_free_is_ended_if_others_have_a_claim_to_its_room() {
    for (claim, has_waiter, is_ended) in [
        (Claim::None, false, false),
        (Claim::Young, false, true),
        (Claim::Young, true, false),
        (Claim::Old, true, true),
    ] {
        let (mut pool, now) = (pool(1, 9), Instant::now());
        let id = started(pool.request(0, None, now, &mut always));
        if has_waiter {
            pool.request(0, None, now, &mut always);
        }
        let (release, action) = pool.release(id, now, claim, &mut || false);
        assert_eq!(release == Release::Retire(Reason::RoomForOthers), is_ended, "{claim:?}");
        assert_eq!(action, None);
        assert_eq!(pool.queue.len(), usize::from(has_waiter && is_ended));
    }
}
