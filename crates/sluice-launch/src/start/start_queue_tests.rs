//! Shares of the threads: a user whose starts hang costs the others nothing.

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);
const ALICE: Share = Share::User(1);
const BOB: Share = Share::User(2);

/// A queue with its time, in which a job is its own number.
struct Scene {
    queue: StartQueue<u64>,
    began: Instant,
    now: Instant,
    next: u64,
}

impl Scene {
    fn new(usual: usize) -> Scene {
        let now = Instant::now();
        let mut queue = StartQueue::new(usual, TIMEOUT, now);
        for _ in 0..usual {
            queue.add_thread();
        }
        Scene { queue, began: now, now, next: 0 }
    }

    fn push(&mut self, share: Share) -> u64 {
        self.next += 1;
        let label = Label { number: self.next, share };
        self.queue.push(label, self.now, self.next);
        self.next
    }

    /// Lets every idle thread take what it may; returns what was taken.
    fn take_all(&mut self) -> Vec<u64> {
        let count = self.queue.threads.len();
        let idle = (0..count).filter(|thread| matches!(self.queue.threads[*thread], Thread::Idle));
        let idle: Vec<usize> = idle.collect();
        idle.into_iter()
            .filter_map(|thread| self.queue.take(thread, self.now))
            .collect()
    }

    /// Lets time pass, with the checks of a launcher. Returns what was given up, and what was refused.
    fn pass(&mut self, time: Duration) -> (Vec<u64>, Vec<u64>) {
        let (mut given_up, mut refused) = (Vec::new(), Vec::new());
        let until = self.now + time;
        while self.now < until {
            self.now += SLOW_AFTER;
            let found = self.queue.check(self.now);
            for _ in 0..found.needed_threads {
                self.queue.add_thread();
            }
            given_up.extend(found.given_up.iter().map(|label| label.number));
            refused.extend(found.refused.iter().map(|refused| refused.job));
            self.take_all();
        }
        (given_up, refused)
    }

    fn is_in_progress(&self, number: u64) -> bool {
        self.queue.progress().any(|progress| progress.label.number == number)
    }

    fn end(&mut self, number: u64) {
        let thread = self
            .queue
            .threads
            .iter()
            .position(|thread| matches!(thread, Thread::Busy(progress) if progress.label.number == number));
        self.queue.finish(thread.unwrap());
    }

    fn in_progress_of(&self, share: &Share) -> usize {
        self.queue
            .progress()
            .filter(|progress| progress.label.share == *share)
            .count()
    }
}

#[test]
fn starts_begin_in_order_on_the_usual_threads() {
    let mut scene = Scene::new(2);
    let numbers: Vec<u64> = (0..4).map(|_| scene.push(ALICE)).collect();
    assert_eq!(scene.take_all(), numbers[..2]);
    scene.end(numbers[0]);
    assert_eq!(scene.take_all(), numbers[2..3]);
    let found = scene.queue.check(scene.now);
    assert!(found.needed_threads == 0 && found.late.is_empty() && found.refused.is_empty());
}

#[test]
fn a_user_whose_starts_hang_leaves_a_thread_to_the_others() {
    let mut scene = Scene::new(2);
    for _ in 0..1000 {
        scene.push(ALICE);
    }
    scene.take_all();
    let of_bob = scene.push(BOB);
    scene.pass(SLOW_AFTER);
    assert!(scene.is_in_progress(of_bob), "{:?}", scene.queue.threads);
    scene.end(of_bob);
    // For as long as it goes on, the next one of Bob begins at once.
    for _ in 0..100 {
        scene.pass(SLOW_AFTER);
        let of_bob = scene.push(BOB);
        assert_eq!(scene.take_all(), [of_bob]);
        scene.end(of_bob);
    }
    assert!(scene.in_progress_of(&ALICE) <= SLOW_OF_SHARE_MAX);
}

#[test]
fn slow_starts_of_one_user_have_a_bound_and_further_ones_wait_no_longer_than_a_start_may_take() {
    let mut scene = Scene::new(2);
    let numbers: Vec<u64> = (0..20).map(|_| scene.push(ALICE)).collect();
    scene.take_all();
    let (_, refused) = scene.pass(TIMEOUT - SLOW_AFTER);
    assert_eq!(scene.in_progress_of(&ALICE), SLOW_OF_SHARE_MAX);
    assert!(refused.is_empty());
    let (_, refused) = scene.pass(SLOW_AFTER * 2);
    assert_eq!(refused, numbers[SLOW_OF_SHARE_MAX..]);
    assert!(scene.queue.threads.len() <= 2 + SLOW_OF_SHARE_MAX);
}

#[test]
fn starts_that_cannot_be_ended_are_given_up_and_further_ones_of_their_user_are_refused_at_once() {
    let mut scene = Scene::new(2);
    let numbers: Vec<u64> = (0..SLOW_OF_SHARE_MAX).map(|_| scene.push(ALICE)).collect();
    scene.take_all();
    let (given_up, _) = scene.pass(TIMEOUT + GRACE + SLOW_AFTER * 10);
    assert_eq!(given_up, numbers);
    let late = scene.push(ALICE);
    assert_eq!(scene.take_all(), []);
    let of_bob = scene.push(BOB);
    assert_eq!(scene.take_all(), [of_bob]);
    assert_eq!(scene.pass(SLOW_AFTER), (vec![], vec![late]));
    // One that comes back makes room.
    scene.end(numbers[0]);
    let next = scene.push(ALICE);
    assert_eq!(scene.take_all(), [next]);
}

#[test]
fn a_queue_is_stuck_only_if_nobody_deals_with_a_start_that_hangs() {
    let mut scene = Scene::new(1);
    scene.push(ALICE);
    scene.take_all();
    assert!(!scene.queue.is_stuck(scene.now + TIMEOUT));
    // Without any check.
    assert!(scene.queue.is_stuck(scene.now + TIMEOUT * 2));
    // It is given up, and another thread has its place.
    scene.pass(TIMEOUT * 2);
    assert!(!scene.queue.is_stuck(scene.now));
    let of_bob = scene.push(BOB);
    scene.pass(SLOW_AFTER);
    assert!(scene.is_in_progress(of_bob));
    scene.end(of_bob);
    // An idle hour is no fault.
    scene.now += Duration::from_secs(3600);
    scene.push(BOB);
    assert!(!scene.queue.is_stuck(scene.now));
    assert!(scene.now > scene.began);
}

#[test]
fn a_launcher_whose_threads_all_hang_is_stuck() {
    let mut scene = Scene::new(2);
    for user in 0..100 {
        for _ in 0..SLOW_OF_SHARE_MAX {
            scene.push(Share::User(user));
        }
    }
    scene.take_all();
    scene.pass(TIMEOUT * 10);
    assert_eq!(scene.queue.threads.len(), 2 + FURTHER_THREADS_MAX);
    assert!(scene.queue.is_stuck(scene.now));
}

#[test]
fn threads_that_the_system_refuses_take_no_places() {
    let mut scene = Scene::new(2);
    for _ in 0..=FURTHER_THREADS_MAX {
        let number = scene.queue.add_thread();
        scene.queue.refuse_thread(number);
    }
    scene.push(ALICE);
    scene.take_all();
    scene.now += SLOW_AFTER;
    assert_eq!(scene.queue.check(scene.now).needed_threads, 1);
    assert_eq!(scene.queue.add_thread(), 2, "the first number that is free");
    assert_eq!(scene.queue.add_thread(), 3);
    assert_eq!(scene.queue.threads.len(), 4);
}
