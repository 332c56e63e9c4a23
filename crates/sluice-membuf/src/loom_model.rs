//! The ring's protocol under loom: every interleaving of two or three threads, and every value that a load may return.
//!
//! Run by `make test-models`. The page, the ledger and the cursors are the real ones. A lock and a condition variable stand in for the kernel (futex,
//! mailbox), without time-outs, so that a lost wake-up is a deadlock, which loom reports. The data are loom's cells, one per byte: a byte that is
//! overwritten before it was freed, or read before it was committed, is a data race, which loom reports, too.
//!
//! loom treats a sequentially consistent operation as acquire-release and models only fences fully; that is why the
//! protocol uses fences. A peer that uses such operations instead is correct by the C++ standard (see doorbell.rs).

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::cursor::{ReadCursor, WriteCursor};
use crate::layout::ControlPage;
use crate::ledger::{Ledger, Taken};
use crate::sync::{AtomicU32, Ordering, lock};

const CAPACITY: u64 = 2;

/// futex(2): for the waker, comparing and going to sleep are one step, because both hold the bucket's lock.
#[derive(Default)]
struct Futex {
    bucket: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn wait(&self, word: &AtomicU32) {
        let bucket = lock(&self.bucket);
        if word.load(Ordering::Relaxed) == 1 {
            drop(self.sleepers.wait(bucket));
        }
    }

    fn wake(&self) {
        let _bucket = lock(&self.bucket);
        self.sleepers.notify_one();
    }
}

/// A pipe that carries doorbells.
#[derive(Default)]
struct Mailbox {
    bytes: Mutex<u32>,
    readable: Condvar,
}

impl Mailbox {
    fn ring(&self) {
        *lock(&self.bytes) += 1;
        self.readable.notify_one();
    }

    fn wait(&self) {
        let mut bytes = lock(&self.bytes);
        while *bytes == 0 {
            bytes = self.readable.wait(bytes).expect("no thread panics with the lock");
        }
        *bytes -= 1;
    }
}

struct World {
    page: ControlPage,
    ledger: Ledger,
    futex: Futex,
    mailbox: Mailbox,
    data: Vec<UnsafeCell<u64>>,
}

// SAFETY: loom checks every access to the cells; correct sharing is what this model tests.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        let page = ControlPage::default();
        page.reset(CAPACITY);
        Arc::new(World {
            page,
            ledger: Ledger::new(),
            futex: Futex::default(),
            mailbox: Mailbox::default(),
            data: (0..CAPACITY).map(|_| UnsafeCell::new(u64::MAX)).collect(),
        })
    }

    /// The script: writes the bytes 0, 1, … one at a time; sleeps until `room_wanted` bytes are free. Returns the number of bytes written.
    fn write(&self, bytes: u64, room_wanted: u64) -> u64 {
        let mut cursor = WriteCursor::new(CAPACITY);
        while cursor.head() < bytes {
            if self.page.is_closed() {
                break;
            }
            let room = cursor.room(self.page.freed()).expect("tail is valid");
            if room.bytes == 0 {
                if self.page.announce_wait(cursor.head() + room_wanted - CAPACITY) {
                    self.futex.wait(&self.page.writer_waits);
                    self.page.withdraw_wait();
                }
                continue;
            }
            self.cell(room.position).with_mut(|cell| {
                // SAFETY: loom reports any concurrent access.
                unsafe { *cell = cursor.head() }
            });
            if self.page.commit(cursor.advance(1)) {
                self.mailbox.ring();
            }
        }
        cursor.head()
    }

    /// The server: takes the next chunk, one byte; sleeps until there is one.
    fn take(&self, cursor: &mut ReadCursor) -> Taken {
        loop {
            let expected = cursor.taken();
            if let Some(taken) = self.ledger.take(&self.page, cursor, 1).expect("head is valid") {
                assert_eq!(self.read(taken), expected, "bytes arrive in order");
                return taken;
            }
            if self.page.announce_sleep(cursor.taken()) {
                self.mailbox.wait();
                self.page.announce_awake();
            }
        }
    }

    fn read(&self, taken: Taken) -> u64 {
        // SAFETY: loom reports any concurrent write.
        self.cell(taken.span.position).with(|cell| unsafe { *cell })
    }

    fn free(&self, taken: Taken) {
        // Read again at the last moment, as a sender may.
        assert_eq!(
            self.read(taken),
            taken.number,
            "bytes do not change until they are freed"
        );
        if self.ledger.free(&self.page, taken.number) {
            self.futex.wake();
        }
    }

    fn cell(&self, position: u64) -> &UnsafeCell<u64> {
        &self.data[usize::try_from(position).expect("small")]
    }
}

/// Explores with a limit on pre-emptions, so that three threads take minutes; bugs in such protocols need two.
fn explore(preemptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.max_branches = 10_000;
    builder.check(model);
}

fn write_and_take(bytes: u64, room_wanted: u64) {
    let world = World::new();
    let script = Arc::clone(&world);
    let script = thread::spawn(move || script.write(bytes, room_wanted));
    let mut cursor = ReadCursor::new(CAPACITY);
    for _ in 0..bytes {
        let taken = world.take(&mut cursor);
        world.free(taken);
    }
    assert_eq!(script.join().expect("the script does not panic"), bytes);
    assert_eq!(world.ledger.tail(), bytes);
}

#[test]
fn loom_no_wake_up_is_lost_and_no_byte_is_overwritten() {
    explore(4, || write_and_take(4, 1));
}

#[test]
fn loom_no_wake_up_is_lost_when_the_script_waits_for_more_room() {
    explore(4, || write_and_take(4, 2));
}

#[test]
fn loom_chunks_freed_by_two_threads_concurrently_wake_the_script() {
    explore(3, || {
        let world = World::new();
        let script = Arc::clone(&world);
        let script = thread::spawn(move || script.write(4, 2));
        let mut cursor = ReadCursor::new(CAPACITY);
        let first = world.take(&mut cursor);
        let second = world.take(&mut cursor);
        let other = Arc::clone(&world);
        let other = thread::spawn(move || other.free(first));
        world.free(second);
        for _ in 0..2 {
            let taken = world.take(&mut cursor);
            world.free(taken);
        }
        other.join().expect("the other thread does not panic");
        assert_eq!(script.join().expect("the script does not panic"), 4);
        assert_eq!(world.ledger.tail(), 4);
    });
}

#[test]
fn loom_close_wakes_a_waiting_script() {
    explore(4, || {
        let world = World::new();
        let script = Arc::clone(&world);
        let script = thread::spawn(move || script.write(u64::MAX, 1));
        if world.page.close() {
            world.futex.wake();
        }
        assert!(script.join().expect("the script does not panic") <= CAPACITY);
    });
}
