//! The pool by example and by simulation: random events over many seeds, with the invariants checked after each.

use std::path::Path;

use super::backoff::{BACKOFF_MIN, FAILURES_FREE};
use super::queue::FAIRNESS;
use super::*;
use crate::pool::ScriptId;

fn pool(max: usize, queue_max: usize) -> Pool {
    Pool::new(pool_settings(max, queue_max), 1).with_backoff()
}

pub(super) fn pool_settings(max: usize, queue_max: usize) -> PoolSettings {
    PoolSettings {
        max,
        min: 0,
        idle: Duration::from_secs(60),
        requests_max: None,
        lifetime_max: None,
        memory_bytes_max: None,
        client_requests_max: None,
        queue_max,
        queue_timeout: Duration::from_secs(30),
    }
}

/// No bound is reached.
pub(super) fn always(_: Need) -> bool {
    true
}

/// The bounds are reached.
fn never(_: Need) -> bool {
    false
}

/// A request on a worker for a script.
pub(super) fn by(worker: usize, script: Option<ScriptId>) -> Applicant {
    Applicant { worker, script, client: None }
}

pub(super) fn started(decision: Decision) -> ProcessId {
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
        .map(|number| started(pool.request(by(number % 2, Some(script(number))), now, &mut always)))
        .collect();
    for id in &ids {
        pool.release(*id, None, now, Claim::None, &mut always);
    }
    let later = now + SPARE_AFTER;
    for (wanted, expected) in [(0, ids[0]), (1, ids[1]), (2, ids[2])] {
        let decision = pool.request(by(0, Some(script(wanted))), later, &mut always);
        assert_eq!(decision, Decision::Use(expected));
        pool.release(expected, None, later, Claim::None, &mut always);
    }
    // Of scripts that none has run, the own worker's process that was busy last gets it, and has run it then.
    assert_eq!(
        pool.request(by(0, Some(script(7))), later, &mut always),
        Decision::Use(ids[2])
    );
    let Decision::Use(other) = pool.request(by(0, Some(script(7))), later, &mut always) else {
        panic!("another is idle")
    };
    assert_ne!(other, ids[2]);
}

#[test]
fn a_process_that_another_worker_can_spare_is_taken_before_a_new_one_is_started() {
    let (mut pool, now) = (pool(9, 9), Instant::now());
    let first = started(pool.request(by(0, None), now, &mut always));
    pool.release(first, None, now, Claim::None, &mut always);
    assert_eq!(
        pool.request(by(1, None), now + SPARE_AFTER, &mut always),
        Decision::Use(first)
    );
}

#[test]
fn a_request_gets_its_workers_process_then_a_new_one_then_anothers_then_waits_then_is_refused() {
    let (mut pool, now) = (pool(2, 1), Instant::now());
    let first = started(pool.request(by(0, None), now, &mut always));
    assert_eq!(
        pool.release(first, None, now, Claim::None, &mut always),
        (Release::Keep, vec![])
    );
    assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(first));
    pool.release(first, None, now, Claim::None, &mut always);
    let second = started(pool.request(by(1, None), now, &mut always));
    assert_eq!(
        pool.request(by(1, None), now, &mut always),
        Decision::Use(first),
        "at max another worker's idle one is taken"
    );
    let Decision::Wait(ticket) = pool.request(by(0, None), now, &mut always) else {
        panic!("expected to wait")
    };
    assert_eq!(pool.refusal(now), Some(Refusal::QueueFull));
    assert_eq!(
        pool.request(by(0, None), now, &mut always),
        Decision::Refuse(Refusal::QueueFull)
    );
    assert_eq!(
        pool.release(second, None, now, Claim::None, &mut always).0,
        Release::Hand(ticket)
    );
    assert_eq!(pool.refusal(now), None);
}

#[test]
fn a_young_waiter_on_the_processs_worker_goes_first_but_not_before_an_old_one() {
    let (mut pool, now) = (pool(1, 9), Instant::now());
    let process = started(pool.request(by(0, None), now, &mut always));
    let Decision::Wait(other) = pool.request(by(1, None), now, &mut always) else {
        panic!()
    };
    let Decision::Wait(own) = pool.request(by(0, None), now, &mut always) else {
        panic!()
    };
    assert_eq!(
        pool.release(process, None, now, Claim::None, &mut always).0,
        Release::Hand(own)
    );
    let Decision::Wait(_) = pool.request(by(0, None), now, &mut always) else {
        panic!()
    };
    assert_eq!(
        pool.release(process, None, now + FAIRNESS, Claim::None, &mut always).0,
        Release::Hand(other)
    );
}

#[test]
fn processes_that_end_before_their_first_reply_delay_the_next_start() {
    let (mut pool, mut now) = (pool(4, 9), Instant::now());
    for _ in 0..=FAILURES_FREE {
        let id = started(pool.request(by(0, None), now, &mut always));
        assert_eq!(pool.ended(id, now, &mut always), []);
    }
    assert_eq!(
        pool.request(by(0, None), now, &mut always),
        Decision::Refuse(Refusal::BackOff(BACKOFF_MIN))
    );
    now += BACKOFF_MIN;
    let id = started(pool.request(by(0, None), now, &mut always));
    pool.release(id, None, now, Claim::None, &mut always);
    pool.ended(id, now, &mut always);
    started(pool.request(by(0, None), now, &mut always));
}

#[test]
fn a_process_that_ends_after_a_reply_is_replaced_at_once_for_a_waiter() {
    let (mut pool, now) = (pool(1, 9), Instant::now());
    let id = started(pool.request(by(0, None), now, &mut always));
    pool.release(id, None, now, Claim::None, &mut always);
    assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(id));
    let Decision::Wait(ticket) = pool.request(by(0, None), now, &mut always) else {
        panic!()
    };
    assert!(matches!(pool.ended(id, now, &mut always)[..], [Action::Start(who, _)] if who == ticket));
}

#[test]
fn idle_processes_end_by_age_except_for_the_minimum_and_those_with_their_own_lifetime() {
    let (mut pool, now) = (pool(4, 9), Instant::now());
    pool.settings.min = 1;
    let ids: Vec<_> = (0..3)
        .map(|_| started(pool.request(by(0, None), now, &mut always)))
        .collect();
    pool.set_lifetime(ids[2], None);
    for id in &ids {
        pool.release(*id, None, now, Claim::None, &mut always);
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
    let id = started(pool.request(by(0, Some(script(1))), now, &mut always));
    pool.release(id, None, now, Claim::None, &mut always);
    for (worker, wanted) in [(1, 1), (0, 1), (1, 2)] {
        assert_eq!(
            pool.request(by(worker, Some(script(wanted))), now, &mut always),
            Decision::Use(id)
        );
        pool.release(id, None, now, Claim::None, &mut always);
    }
    // A script that is a program is started again soon: the move costs as much.
    let other = pool.request(by(0, None), now, &mut always);
    assert_ne!(other, Decision::Use(id));
}

#[test]
fn a_changed_script_ends_idle_processes_now_and_busy_ones_after_their_reply() {
    let (mut pool, now) = (pool(4, 9), Instant::now());
    let (idle, busy) = (
        started(pool.request(by(0, None), now, &mut always)),
        started(pool.request(by(0, None), now, &mut always)),
    );
    pool.release(idle, None, now, Claim::None, &mut always);
    assert_eq!(
        pool.replace_all(Reason::ScriptChanged),
        [Action::Retire(idle, Reason::ScriptChanged)]
    );
    assert_eq!(
        pool.release(busy, None, now, Claim::None, &mut always).0,
        Release::Retire(Reason::ScriptChanged)
    );
    assert!(pool.is_empty());
}

#[test]
fn without_room_a_request_takes_any_idle_process_or_waits_until_there_is_room() {
    let (mut pool, now) = (pool(4, 9), Instant::now());
    let first = started(pool.request(by(0, None), now, &mut always));
    pool.release(first, None, now, Claim::None, &mut always);
    assert_eq!(
        pool.request(by(1, None), now, &mut never),
        Decision::Use(first),
        "another worker's"
    );
    let Decision::Wait(ticket) = pool.request(by(1, None), now, &mut never) else {
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
        .map(|_| started(pool.request(by(0, None), now, &mut always)))
        .collect();
    pool.release(ids[1], None, now, Claim::None, &mut always);
    assert_eq!(pool.idle_since(Idle::Spare), None, "the minimum");
    pool.release(ids[0], None, now + Duration::from_secs(1), Claim::None, &mut always);
    assert_eq!(pool.idle_since(Idle::Spare), Some(now));
    assert_eq!(
        pool.end_idle(Idle::Spare, Reason::RoomForOthers),
        Some(Action::Retire(ids[1], Reason::RoomForOthers))
    );
    assert_eq!(pool.end_idle(Idle::Spare, Reason::RoomForOthers), None);
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
        let id = started(pool.request(by(0, None), now, &mut always));
        if has_waiter {
            pool.request(by(0, None), now, &mut always);
        }
        let (release, action) = pool.release(id, None, now, claim, &mut never);
        assert_eq!(release == Release::Retire(Reason::RoomForOthers), is_ended, "{claim:?}");
        assert_eq!(action, []);
        assert_eq!(pool.queue.len(), usize::from(has_waiter && is_ended));
    }
}

#[test]
fn a_process_that_is_due_serves_until_its_successor_is_ready() {
    let (pool, now) = (pool(1, 9), Instant::now());
    let mut pool = pool.with_preparation(0);
    pool.settings.requests_max = Some(1);
    let old = started(pool.request(by(0, None), now, &mut always));
    let (release, actions) = pool.release(old, None, now, Claim::None, &mut always);
    let [Action::Prepare(new)] = actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(release, Release::Keep);
    assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(old));
    let Decision::Wait(ticket) = pool.request(by(0, None), now, &mut always) else {
        panic!()
    };
    // There are two processes, and never two busy ones.
    assert_eq!(
        pool.ready(new, 0, Trial::None, now, &mut always),
        (Release::Keep, vec![])
    );
    assert!(matches!(pool.request(by(0, None), now, &mut always), Decision::Wait(_)));
    let (release, actions) = pool.release(old, None, now, Claim::None, &mut always);
    assert_eq!(release, Release::Retire(Reason::Requests));
    assert_eq!(actions, [Action::Hand(ticket, new)]);
}

#[test]
fn a_successor_that_fails_leaves_the_process_that_is_due() {
    let (pool, now) = (pool(1, 9), Instant::now());
    let mut pool = pool.with_preparation(0);
    pool.settings.lifetime_max = Some(Duration::from_secs(60));
    let old = started(pool.request(by(0, None), now, &mut always));
    pool.release(old, None, now, Claim::None, &mut always);
    let mut later = now + Duration::from_secs(60);
    pool.set_lifetime(old, None);
    for _ in 0..=FAILURES_FREE {
        let actions = pool.tick(later, &mut always);
        let [Action::Prepare(new)] = actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(pool.ended(new, later, &mut always), []);
    }
    assert_eq!(pool.tick(later, &mut always), [], "the next start is delayed");
    assert_eq!(pool.request(by(0, None), later, &mut always), Decision::Use(old));
    pool.release(old, None, later, Claim::None, &mut always);
    later += Duration::from_secs(1);
    let actions = pool.tick(later, &mut always);
    assert!(matches!(actions[..], [Action::Prepare(_)]), "the delay is over");
}

#[test]
fn without_room_a_process_that_is_due_is_ended_first() {
    let (pool, now) = (pool(1, 9), Instant::now());
    let mut pool = pool.with_preparation(0);
    pool.settings.memory_bytes_max = Some(1000);
    let id = started(pool.request(by(0, None), now, &mut always));
    let kept = pool.release(id, Some(1000), now, Claim::None, &mut never);
    assert_eq!(kept, (Release::Keep, vec![]));
    pool.request(by(0, None), now, &mut always);
    let (release, actions) = pool.release(id, Some(1001), now, Claim::None, &mut never);
    assert_eq!((release, actions), (Release::Retire(Reason::Memory), vec![]));
}

#[test]
fn a_successor_ends_when_its_predecessor_would_have_for_lack_of_requests() {
    let (pool, now) = (pool(1, 9), Instant::now());
    let mut pool = pool.with_preparation(0);
    pool.settings.lifetime_max = Some(Duration::from_secs(30));
    let old = started(pool.request(by(0, None), now, &mut always));
    pool.release(old, None, now, Claim::None, &mut always);
    let later = now + Duration::from_secs(30);
    let actions = pool.tick(later, &mut always);
    let [Action::Prepare(new)] = actions[..] else {
        panic!("{actions:?}")
    };
    let (release, actions) = pool.ready(new, 0, Trial::None, later, &mut always);
    assert_eq!(
        (release, actions),
        (Release::Keep, vec![Action::Retire(old, Reason::Lifetime)])
    );
    let end = now + Duration::from_secs(60);
    assert_eq!(pool.tick(end, &mut always), [Action::Retire(new, Reason::Idle)]);
}

#[test]
fn processes_of_a_pool_are_not_all_due_at_once() {
    let (pool, now) = (pool(64, 9), Instant::now());
    let mut pool = pool.with_preparation(7);
    pool.settings.requests_max = Some(1000);
    pool.settings.lifetime_max = Some(Duration::from_secs(3600));
    for _ in 0..64 {
        started(pool.request(by(0, None), now, &mut always));
    }
    let mut requests: Vec<_> = pool.processes.iter().map(|slot| slot.requests_max).collect();
    let mut ends: Vec<_> = pool.processes.iter().map(|slot| slot.ends_at.unwrap() - now).collect();
    assert!(requests.iter().all(|requests| (900..=1000).contains(requests)));
    assert!(ends.iter().all(|end| (3240..=3600).contains(&end.as_secs())));
    for list in [&mut requests, &mut ends.iter_mut().map(|end| end.as_secs()).collect()] {
        list.sort_unstable();
        list.dedup();
        assert!(list.len() > 20, "{list:?}");
    }
}

#[test]
fn missing_processes_are_started_and_those_that_die_at_once_are_delayed() {
    let (pool, mut now) = (pool(4, 9), Instant::now());
    let mut pool = pool.with_preparation(0);
    pool.settings.min = 2;
    let prepared = |actions: &[Action]| -> Vec<ProcessId> {
        let ids = actions.iter().map(|action| match action {
            Action::Prepare(id) => *id,
            other => panic!("{other:?}"),
        });
        ids.collect()
    };
    let first = prepared(&pool.tick(now, &mut always));
    assert_eq!(first.len(), 2);
    for id in &first {
        assert_eq!(
            pool.ready(*id, 0, Trial::None, now, &mut always),
            (Release::Keep, vec![])
        );
    }
    assert_eq!(pool.request(by(1, None), now, &mut never), Decision::Use(first[1]));
    // Killed within a request: there are two again at once.
    pool.release(first[1], None, now, Claim::None, &mut always);
    let mut last = prepared(&pool.ended(first[0], now, &mut always))[0];
    let mut starts = 0;
    let begin = now;
    while now < begin + Duration::from_secs(600) {
        starts += 1;
        pool.ready(last, 0, Trial::None, now, &mut always);
        let mut actions = pool.ended(last, now, &mut always);
        while actions.is_empty() {
            now += Duration::from_secs(1);
            actions = pool.tick(now, &mut always);
        }
        last = prepared(&actions)[0];
    }
    assert!((10..30).contains(&starts), "{starts} starts in ten minutes");
    // A script that is not there is not tried, until it has changed.
    pool.set_gone();
    pool.not_started(last, now, &mut always);
    assert_eq!(pool.tick(now + Duration::from_secs(600), &mut always), []);
    pool.replace_all(Reason::ScriptChanged);
    assert_eq!(prepared(&pool.tick(now, &mut always)).len(), 2);
}

#[test]
fn failures_in_advance_delay_no_request_and_a_process_that_is_due_does_not_wait_for_ever() {
    let (pool, mut now) = (pool(2, 9), Instant::now());
    let mut pool = pool.with_preparation(0);
    (pool.settings.min, pool.settings.requests_max) = (1, Some(5));
    let fail = |pool: &mut Pool, actions: Vec<Action>, now| {
        for action in actions {
            let Action::Prepare(id) = action else {
                panic!("{action:?}")
            };
            pool.failed(id, now);
            pool.ended(id, now, &mut never);
        }
    };
    for _ in 0..2 * FAILURES_FREE {
        let actions = pool.tick(now, &mut always);
        fail(&mut pool, actions, now);
    }
    let old = started(pool.request(by(0, None), now, &mut always));
    let mut served = 0;
    loop {
        served += 1;
        now += Duration::from_millis(500);
        let (release, actions) = pool.release(old, None, now, Claim::None, &mut always);
        if release == Release::Retire(Reason::Requests) {
            break;
        }
        fail(&mut pool, actions, now);
        assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(old));
    }
    assert!((100..200).contains(&served), "{served} requests");
    assert!(matches!(
        pool.request(by(0, None), now, &mut always),
        Decision::Start(_)
    ));
}

#[test]
fn after_a_failure_one_process_at_a_time_is_started_in_advance() {
    let (pool, now) = (pool(9, 9), Instant::now());
    let mut pool = pool.with_preparation(0);
    pool.settings.min = 5;
    let first = pool.tick(now, &mut always);
    assert_eq!(first.len(), 5);
    for action in first {
        let Action::Prepare(id) = action else { panic!() };
        assert_eq!(pool.ended(id, now, &mut never), []);
    }
    let later = now + Duration::from_secs(60);
    let [Action::Prepare(mut id)] = pool.tick(later, &mut always)[..] else {
        panic!()
    };
    assert_eq!(pool.tick(later, &mut always), [], "the first one is not ready yet");
    for _ in 1..5 {
        let (_, actions) = pool.ready(id, 0, Trial::None, later, &mut always);
        let [Action::Prepare(next)] = actions[..] else {
            panic!("{actions:?}")
        };
        id = next;
    }
    assert_eq!(pool.ready(id, 0, Trial::None, later, &mut always).1, []);
}

#[test]
fn a_process_is_replaced_before_its_processor_time_is_used() {
    let (pool, now) = (pool(9, 9), Instant::now());
    let mut pool = pool.with_preparation(1);
    let time = |used: u64| TimeUse {
        used: Duration::from_millis(used),
        max: Duration::from_secs(10),
    };
    let id = started(pool.request(by(0, None), now, &mut always));
    pool.note_time(id, time(3000), now);
    assert_eq!(
        pool.release(id, None, now, Claim::None, &mut always),
        (Release::Keep, vec![])
    );
    pool.request(by(0, None), now, &mut always);
    pool.note_time(id, time(4000), now);
    assert_eq!(
        pool.release(id, None, now, Claim::None, &mut always),
        (Release::Keep, vec![])
    );
    pool.request(by(0, None), now, &mut always);
    pool.note_time(id, time(5000), now);
    let (release, actions) = pool.release(id, None, now, Claim::None, &mut always);
    assert!(
        release == Release::Keep && matches!(actions[..], [Action::Prepare(_)]),
        "{actions:?}"
    );
    pool.request(by(0, None), now, &mut always);
    pool.note_time(id, time(7500), now);
    assert_eq!(
        pool.release(id, None, now, Claim::None, &mut always).0,
        Release::Retire(Reason::ProcessorTime)
    );
    // Its first request has used so much that the second might not end.
    let id = started(pool.request(by(0, None), now, &mut always));
    pool.note_time(id, time(4000), now);
    assert_eq!(
        pool.release(id, None, now, Claim::None, &mut always).0,
        Release::Retire(Reason::ProcessorTime)
    );
}

#[test]
fn a_client_with_many_requests_waits_behind_others_and_leaves_them_half_of_the_queue() {
    let (mut pool, now) = (pool(2, 8), Instant::now());
    pool.settings.client_requests_max = Some(2);
    let of = |last: u8| Applicant {
        client: Some(ClientId::of([192, 0, 2, last].into())),
        ..Applicant::default()
    };
    let busy = started(pool.request(of(1), now, &mut always));
    started(pool.request(of(1), now, &mut always));
    let mut tickets = Vec::new();
    for client in [1, 1, 1, 2, 3] {
        match pool.request(of(client), now, &mut always) {
            Decision::Wait(ticket) => tickets.push((client, ticket)),
            other => panic!("{other:?}"),
        }
    }
    let refused = pool.request(of(1), now, &mut always);
    assert_eq!(refused, Decision::Refuse(Refusal::ClientShare));
    assert!(matches!(pool.request(of(4), now, &mut always), Decision::Wait(_)));
    // After the first release it has only one process, so its next request is at its turn.
    let next = pool.release(busy, None, now, Claim::None, &mut always).0;
    assert_eq!(next, Release::Hand(tickets[3].1), "the request of client 2");
}
