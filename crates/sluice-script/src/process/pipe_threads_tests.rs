//! The share of a user: jobs that hang take no thread from others, and a user all of whose jobs hang gets no process.

use std::ffi::CString;
use std::sync::mpsc::{Receiver, Sender, channel};

use sluice_launch::own_uid;

use super::*;

/// Jobs that wait until this is dropped.
pub(crate) struct Held(Vec<Sender<()>>);

/// Begins as many jobs of an owner as may run at once.
pub(crate) fn hold(threads: &PipeThreads, owner: &Arc<PipeOwner>) -> Held {
    let (begin, begun) = channel();
    let mut ends = Vec::new();
    for _ in 0..RUNNING_OF_USER_MAX {
        let (end, ended) = channel::<()>();
        ends.push(end);
        let begin = begin.clone();
        let job = move || {
            begin.send(()).expect("the test waits");
            assert!(ended.recv().is_err());
        };
        threads.perform(
            owner,
            "test",
            Work::Call { verb: "hold", bytes: 0, call: Box::new(job) },
        );
    }
    (0..RUNNING_OF_USER_MAX).for_each(|_| await_with(threads, &begun));
    Held(ends)
}

/// Waits as a worker does, which calls `advance` now and then.
fn await_with(threads: &PipeThreads, begun: &Receiver<()>) {
    let began = Instant::now();
    while begun.recv_timeout(Duration::from_millis(10)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60));
        threads.advance();
    }
}

/// Makes jobs look as old as those that hang.
fn age(threads: &PipeThreads) {
    for running in &mut threads.0.lock().running {
        running.since -= running.time_limit;
    }
    threads.advance();
}

fn owner_of(file: &std::path::Path) -> RunAs {
    RunAs::Owner(CString::new(file.as_os_str().as_bytes()).unwrap())
}

#[test]
fn an_owner_whose_pipes_are_locked_gets_no_process_by_any_script() {
    let directory = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| directory.path().join(name));
    std::fs::write(&own, "").unwrap();
    std::fs::write(&other, "").unwrap();
    // An ordinary user has no file of another one, but the system has.
    let other = match std::os::unix::fs::chown(&other, Some(64_032), None) {
        Ok(()) => other,
        Err(_) => "/etc/passwd".into(),
    };
    let threads = PipeThreads::new();
    let (end, ended) = channel();
    let owner = PipeOwner::new(RunAs::User("ann".into()), own_uid(), move |_, _| end.send(()).unwrap());
    let held = hold(&threads, &owner);
    assert!(!threads.refuses(&owner_of(&own)), "none hangs yet");
    age(&threads);
    assert_eq!(ended.try_iter().count(), RUNNING_OF_USER_MAX, "each process is ended");
    // The owner is known by the number, whatever the setting was.
    assert!(threads.refuses(&owner_of(&own)));
    assert!(threads.refuses(&RunAs::User("ann".into())));
    assert!(!threads.refuses(&owner_of(&other)));
    assert!(!threads.refuses(&owner_of(&directory.path().join("missing"))));
    assert!(!threads.refuses(&RunAs::User("bob".into())));
    // A route without a user may have the same one, which its last process shows.
    assert!(!threads.refuses(&RunAs::Usual));
    threads.note_user(&RunAs::Usual, own_uid() + 1);
    assert!(!threads.refuses(&RunAs::Usual));
    threads.note_user(&RunAs::Usual, own_uid());
    assert!(threads.refuses(&RunAs::Usual));
    drop(held.0);
    let began = Instant::now();
    while threads.refuses(&owner_of(&own)) {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::yield_now();
    }
    threads.close_all();
}

#[test]
fn a_process_that_ends_stands_for_no_setting_of_a_user() {
    let owner = PipeOwner::ending(7);
    assert!(!owner.runs_as(&RunAs::Usual) && !owner.runs_as(&RunAs::User("ann".into())));
    assert_eq!(owner.user().to_string(), "the user with number 7");
    let running = PipeOwner::new(RunAs::Usual, 7, |_, _| {});
    assert!(running.runs_as(&RunAs::Usual));
}
