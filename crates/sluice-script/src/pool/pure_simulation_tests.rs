//! The pool by simulation: random events over many seeds, with the invariants checked after each. At the end of each run everything that can
//! end does, and no request may be left waiting.

use std::collections::HashSet;
use std::path::Path;

use super::*;
use crate::pool::ScriptId;

/// The processes and waiters of a simulation.
#[derive(Default)]
struct World {
    /// A busy process once for each of its requests.
    busy: Vec<ProcessId>,
    idle: Vec<ProcessId>,
    /// Being started in advance.
    starting: Vec<ProcessId>,
    /// About to end.
    ending: Vec<ProcessId>,
    waiting: Vec<Ticket>,
    /// Processes that were retired.
    retired: HashSet<ProcessId>,
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
        let at = list.iter().position(|other| *other == id);
        list.remove(at.expect("known to the simulation"));
    }

    fn take_random(&mut self, which: fn(&mut World) -> &mut Vec<ProcessId>) -> Option<ProcessId> {
        let count = which(self).len();
        let at = self.random_below(count);
        (count > 0).then(|| which(self).swap_remove(at))
    }

    fn grant(&mut self, ticket: Ticket) {
        let at = self.waiting.iter().position(|other| *other == ticket);
        self.waiting.remove(at.expect("a waiter is granted once"));
    }

    fn work(&mut self, id: ProcessId) {
        assert!(!self.retired.contains(&id), "a retired process gets a request");
        self.busy.push(id);
    }

    /// The process that a request gets: an idle one, or one that serves others.
    fn lend(&mut self, id: ProcessId) {
        if !self.busy.contains(&id) {
            World::take(&mut self.idle, id);
        }
        self.work(id);
    }

    fn retire(&mut self, id: ProcessId) {
        assert!(
            !self.busy.contains(&id),
            "a process is retired in the middle of a request"
        );
        self.retired.insert(id);
    }

    fn apply(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Retire(id, _) => {
                    World::take(&mut self.idle, id);
                    self.retire(id);
                }
                Action::Start(ticket, id) => {
                    self.grant(ticket);
                    self.work(id);
                }
                Action::Hand(ticket, id) => {
                    self.grant(ticket);
                    self.lend(id);
                }
                Action::Prepare(id) => self.starting.push(id),
            }
        }
    }

    fn put(&mut self, id: ProcessId, release: Release) {
        match release {
            // Its other requests go on.
            Release::Keep if self.busy.contains(&id) => {}
            Release::Keep => self.idle.push(id),
            Release::Hand(ticket) => {
                self.grant(ticket);
                self.work(id);
            }
            Release::Retire(_) => self.retire(id),
        }
    }

    /// A request, half of them for scripts of an engine. A process that has run the script is preferred within its worker.
    fn request(&mut self, pool: &mut Pool, now: Instant, room: Room<'_>) -> Decision {
        let applicant = Applicant {
            worker: self.random_below(3),
            script: (self.random_below(2) == 0).then(|| {
                let number = self.random_below(6);
                ScriptId::of(Path::new(&number.to_string()))
            }),
            client: (self.random_below(2) == 0).then(|| {
                let last = u8::try_from(self.random_below(4)).unwrap();
                ClientId::of([192, 0, 2, last].into())
            }),
        };
        let own = pool.processes.iter();
        let own: Vec<_> = own
            .filter(|slot| slot.idle_since.is_some() && slot.worker == applicant.worker)
            .collect();
        let has_own = !own.is_empty() && pool.may_lend();
        let ran = own.iter().filter(|slot| slot.recent.has(applicant.script));
        let ran: Vec<_> = ran.map(|slot| slot.id).collect();
        let decision = pool.request(applicant, now, room);
        match decision {
            Decision::Use(id) => assert!(ran.is_empty() || ran.contains(&id), "one that has run it is idle"),
            _ => assert!(!has_own, "one of the worker is idle"),
        }
        decision
    }

    fn step(&mut self, pool: &mut Pool, now: Instant, room: Room<'_>) {
        match self.random_below(14) {
            0..4 => match self.request(pool, now, room) {
                Decision::Use(id) => self.lend(id),
                Decision::Start(id) => self.work(id),
                Decision::Wait(ticket) => self.waiting.push(ticket),
                Decision::Refuse(_) => {}
            },
            4..7 => self.release(pool, now, room),
            7 => self.prepared(pool, now, room),
            8 => {
                let lists: [fn(&mut World) -> &mut Vec<ProcessId>; 4] = [
                    |world| &mut world.busy,
                    |world| &mut world.idle,
                    |world| &mut world.starting,
                    |world| &mut world.ending,
                ];
                let which = lists[self.random_below(4)];
                if let Some(id) = self.take_random(which) {
                    self.busy.retain(|other| *other != id);
                    let actions = pool.ended(id, now, room);
                    self.apply(actions);
                }
            }
            9 if !self.waiting.is_empty() => {
                let at = self.random_below(self.waiting.len());
                pool.cancel(self.waiting.swap_remove(at));
            }
            10 => {
                // A fault, in an exchange or in the reply to PROCTOR.
                if let Some(id) = self.take_random(|world| &mut world.busy) {
                    pool.ending(id);
                    self.busy.retain(|other| *other != id);
                    self.ending.push(id);
                }
                if let Some(id) = self.take_random(|world| &mut world.starting) {
                    pool.failed(id, now);
                    self.ending.push(id);
                }
            }
            11 if self.random_below(20) == 0 => {
                let actions = pool.replace_all(Reason::ScriptChanged);
                self.apply(actions);
            }
            _ => {
                let actions = pool.tick(now, room);
                self.apply(actions);
            }
        }
    }

    fn release(&mut self, pool: &mut Pool, now: Instant, room: Room<'_>) {
        if let Some(id) = self.take_random(|world| &mut world.busy) {
            let memory = self.random_below(120) as u64;
            let (release, actions) = pool.release(id, Some(memory), now, Claim::None, room);
            self.put(id, release);
            self.apply(actions);
        }
    }

    fn prepared(&mut self, pool: &mut Pool, now: Instant, room: Room<'_>) {
        if let Some(id) = self.take_random(|world| &mut world.starting) {
            let trial = match self.random_below(2) {
                0 => Trial::None,
                _ => Trial::Passed,
            };
            let (release, actions) = pool.ready(id, self.random_below(3), trial, now, room);
            self.put(id, release);
            self.apply(actions);
        }
    }

    fn check(&self, pool: &Pool, seed: u64) {
        let busy = self.busy_processes();
        let all = busy + self.idle.len() + self.starting.len() + self.ending.len();
        let settings = pool.settings;
        assert_eq!(pool.processes.len(), all, "seed {seed}: a process is lost");
        assert!(all <= settings.max + 1, "seed {seed}: more than one process over max");
        assert!(busy <= settings.max, "seed {seed}: more busy processes than max");
        assert_eq!(pool.queue.len(), self.waiting.len(), "seed {seed}: a waiter is lost");
        assert!(pool.queue.len() <= settings.queue_max, "seed {seed}");
        let has_room = pool.processes.iter().any(|slot| slot.has_room(pool.at_once));
        let may_wait = self.idle.is_empty() && !has_room || !pool.may_lend();
        assert!(
            self.waiting.is_empty() || may_wait,
            "seed {seed}: a request waits beside a process that could serve it"
        );
        for slot in pool.processes.iter().filter(|slot| !slot.is_ending) {
            let requests = self.busy.iter().filter(|id| **id == slot.id).count();
            assert_eq!(slot.in_use, requests, "seed {seed}: requests of a process");
            assert!(slot.in_use <= pool.at_once, "seed {seed}: more requests than at once");
            assert!(
                slot.idle_since.is_none() || requests == 0,
                "seed {seed}: idle and in use"
            );
        }
    }

    fn busy_processes(&self) -> usize {
        self.busy.iter().collect::<HashSet<_>>().len()
    }
}

fn settings(world: &mut World) -> PoolSettings {
    let max = 1 + world.random_below(4);
    PoolSettings {
        max,
        min: world.random_below(max + 1),
        idle: Duration::from_secs(60),
        requests_max: (world.random_below(2) == 0).then_some(3),
        lifetime_max: (world.random_below(2) == 0).then_some(Duration::from_secs(300)),
        memory_bytes_max: (world.random_below(2) == 0).then_some(100),
        client_requests_max: (world.random_below(2) == 0).then_some(2),
        queue_max: world.random_below(6),
        queue_timeout: Duration::from_secs(30),
    }
}

#[test]
fn no_simulation_loses_a_process_or_a_waiter_or_exceeds_a_limit() {
    for seed in 0..600 {
        let mut world = World { random: seed, ..World::default() };
        let settings = settings(&mut world);
        // Most processes serve one request at a time.
        let at_once = [1, 1, 2, 3][world.random_below(4)];
        let mut pool = Pool::new(settings, at_once).with_backoff();
        if world.random_below(4) > 0 {
            pool = pool.with_preparation(seed);
        }
        let is_narrow = world.random_below(4) == 0;
        let mut asked = 0;
        let mut now = Instant::now();
        for _ in 0..500 {
            now += Duration::from_millis(world.random_below(20_000) as u64);
            // Sometimes the bounds that pools share are reached.
            let mut room = |_| {
                asked += 1;
                !is_narrow || asked % 3 > 0
            };
            world.step(&mut pool, now, &mut room);
            world.check(&pool, seed);
        }
        settle(&mut world, &mut pool, now, seed);
    }
}

/// Lets everything end that can: then no request waits, and there are `min` processes.
fn settle(world: &mut World, pool: &mut Pool, mut now: Instant, seed: u64) {
    let mut always = |_: Need| true;
    for _ in 0..200 {
        now += Duration::from_secs(61);
        while let Some(id) = world.ending.pop() {
            let actions = pool.ended(id, now, &mut always);
            world.apply(actions);
        }
        while !world.starting.is_empty() {
            world.prepared(pool, now, &mut always);
        }
        world.release(pool, now, &mut always);
        let actions = pool.tick(now, &mut always);
        world.apply(actions);
        world.check(pool, seed);
        let kept = world.busy_processes() + world.idle.len() + world.starting.len();
        // After a failure one is started after the other.
        let is_kept = kept >= pool.settings.min || !world.starting.is_empty();
        assert!(!pool.prepares || is_kept, "seed {seed}: {kept} processes");
    }
    assert!(world.waiting.is_empty(), "seed {seed}: a request waits for ever");
}

#[test]
fn min_is_kept_whichever_process_dies() {
    for seed in 0..200 {
        let mut world = World { random: seed, ..World::default() };
        let settings = PoolSettings { min: 2, max: 4, ..settings(&mut world) };
        let at_once = 1 + world.random_below(2);
        let mut pool = Pool::new(settings, at_once).with_backoff().with_preparation(seed);
        let mut now = Instant::now();
        let mut always = |_: Need| true;
        for _ in 0..300 {
            // Long enough that no process seems to fail at its start, and no start is delayed.
            now += Duration::from_secs(61);
            world.step(&mut pool, now, &mut always);
            let actions = pool.tick(now, &mut always);
            world.apply(actions);
            world.check(&pool, seed);
            let alive = world.busy_processes() + world.idle.len() + world.starting.len();
            let is_full = pool.processes.len() >= settings.max;
            let is_probed = !world.starting.is_empty();
            assert!(alive >= 2 || is_full || is_probed, "seed {seed}: {alive} processes");
        }
    }
}
