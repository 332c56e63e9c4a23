//! Processes that serve several requests at once, by example.

use std::time::Instant;

use super::tests::{always, by, pool_settings, started};
use super::*;

/// A pool of one process that has replied once and is idle, and serves so many requests at once.
fn shared(at_once: usize, queue_max: usize) -> (Pool, ProcessId, Instant) {
    let (mut pool, now) = (Pool::new(pool_settings(1, queue_max), at_once), Instant::now());
    let id = started(pool.request(by(0, None), now, &mut always));
    pool.release(id, None, now, Claim::None, &mut always);
    (pool, id, now)
}

#[test]
fn a_process_serves_up_to_at_once_requests_and_is_idle_after_the_last() {
    let (mut pool, id, now) = shared(3, 9);
    for _ in 0..3 {
        assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(id));
    }
    let Decision::Wait(ticket) = pool.request(by(1, None), now, &mut always) else {
        panic!("a fourth waits")
    };
    assert_eq!(
        pool.release(id, None, now, Claim::None, &mut always),
        (Release::Hand(ticket), vec![])
    );
    for still in [true, true, false] {
        assert_eq!(
            pool.release(id, None, now, Claim::None, &mut always),
            (Release::Keep, vec![])
        );
        assert_eq!(pool.view().idle == 0, still);
    }
}

#[test]
fn a_process_gets_several_requests_at_once_only_after_its_first_reply() {
    let (mut pool, now) = (Pool::new(pool_settings(1, 9), 3), Instant::now());
    let id = started(pool.request(by(0, None), now, &mut always));
    let tickets = [(); 3].map(|()| match pool.request(by(0, None), now, &mut always) {
        Decision::Wait(ticket) => ticket,
        other => panic!("expected to wait, got {other:?}"),
    });
    let (release, actions) = pool.release(id, None, now, Claim::None, &mut always);
    assert_eq!(release, Release::Hand(tickets[0]));
    assert_eq!(actions, [Action::Hand(tickets[1], id), Action::Hand(tickets[2], id)]);
}

#[test]
fn a_process_is_retired_only_with_its_last_request() {
    let (mut pool, id, now) = shared(2, 9);
    for _ in 0..2 {
        assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(id));
    }
    assert_eq!(pool.replace_all(Reason::ScriptChanged), [], "it is busy");
    assert_eq!(
        pool.release(id, None, now, Claim::None, &mut always),
        (Release::Keep, vec![])
    );
    let Decision::Wait(_) = pool.request(by(0, None), now, &mut always) else {
        panic!("it gets no further request")
    };
    let (release, actions) = pool.release(id, None, now, Claim::None, &mut always);
    assert_eq!(release, Release::Retire(Reason::ScriptChanged));
    assert!(matches!(actions[..], [Action::Start(..)]), "{actions:?}");
}

#[test]
fn the_other_requests_of_a_process_that_is_stopped_do_not_make_it_idle() {
    let (mut pool, id, now) = shared(2, 9);
    for _ in 0..2 {
        assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(id));
    }
    pool.ending(id);
    let (release, actions) = pool.release(id, None, now, Claim::None, &mut always);
    assert_eq!((release, actions), (Release::Retire(Reason::Shutdown), vec![]));
    assert_eq!((pool.processes(), pool.view().idle), (1, 0));
    pool.ended(id, now, &mut always);
    assert!(pool.is_empty());
}

#[test]
fn a_shared_process_that_was_not_used_serves_its_other_requests() {
    let (mut pool, id, now) = shared(2, 9);
    for _ in 0..2 {
        assert_eq!(pool.request(by(0, None), now, &mut always), Decision::Use(id));
    }
    assert_eq!(pool.give_back(id, now, &mut always), (Release::Keep, vec![]));
    assert_eq!(pool.view().idle, 0);
    assert_eq!(pool.give_back(id, now, &mut always), (Release::Keep, vec![]));
    assert_eq!(pool.view().idle, 1);
}
