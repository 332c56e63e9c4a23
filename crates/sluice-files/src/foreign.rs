//! Lookups in file systems that another process or machine serves (FUSE, NFS), which may answer nothing for as long as it likes.
//!
//! An event loop never enters one. It looks up what the kernel has in its cache of names (RESOLVE_CACHED), below an open directory of a local file
//! system and without crossing a mount (RESOLVE_NO_XDEV). A name that is not in the cache is looked up in its directory, which any process that may
//! read it can hold locked: by getdents64(2) into memory that does not answer. Where the cache is not enough the lookup is left: the whole decision is made once more by a thread that may be lost (`elsewhere`), which notes the answers that the event loop could not get; then
//! the event loop repeats the decision with these answers. So the code of a decision is the same on both, and local files cost nothing more.
//!
//! ```text
//! event loop                      thread that may be lost
//! here(no answers, decide) ─ left ─▶ noting(decide) ─ answers ─▶ here(answers, decide)
//! ```

pub(crate) mod file_system;
pub(crate) mod served_file;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::time::Duration;

use sluice_http::fault::{Fault, ServerFault};
use sluice_launch::{Answer, NoAnswer, look_elsewhere, prepare_lookups};
use tokio::time::sleep;

pub use file_system::{Links, Share, metadata};

/// How long a request waits for a lookup or a read in a file system that another process or machine serves.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The manner of a thread where the kernel may have to ask another process or machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Waits: tools, tests, the start of the server.
    Waits,
    /// Leaves the lookup to another thread.
    Leaves,
    /// Waits, and notes the answers for an event loop. For the share of a directory only for local file systems.
    Notes,
    /// Waits for local file systems, and leaves lookups elsewhere.
    WaitsLocally,
}

/// A kind of question, of which each has a type of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Opening a file of a directory for reading.
    Open,
    /// The metadata of a file of a directory.
    Metadata,
    /// Opening a file of a directory without symbolic links.
    WithoutLinks,
    /// Whether a file of a directory was rewritten.
    Original,
    /// The script that a path of a route leads to.
    Script,
}

/// Answers that a thread has noted.
#[derive(Default)]
pub struct Answers(Vec<Noted>);

struct Noted {
    question: Question,
    /// The number of the directory or route.
    of: u64,
    name: Box<str>,
    answer: Box<dyn Any + Send>,
}

struct State {
    manner: Manner,
    /// To be used, or noted.
    answers: Answers,
    /// The share of the first lookup that was left.
    left: Option<Share>,
    /// The share for which this thread notes answers.
    share: Share,
}

impl State {
    /// Whether it is that of an event loop which has neither answers nor left a lookup.
    fn is_of_event_loop(&self) -> bool {
        self.manner == Manner::Leaves
            && self.answers.0.is_empty()
            && self.left.is_none()
            && self.share == Share::UNKNOWN
    }
}

thread_local! {
    static STATE: RefCell<State> = const {
        RefCell::new(State {
            manner: Manner::Waits,
            answers: Answers(Vec::new()),
            left: None,
            share: Share::UNKNOWN,
        })
    };
}

thread_local! {
    /// The events that the file cache has counted in the decision in progress, by number, because a decision that leaves a lookup is repeated.
    static COUNTED: Cell<[u16; 8]> = const { Cell::new([0; 8]) };
}

pub(crate) fn note_counted(event: usize) {
    let mut counts = COUNTED.get();
    counts[event] = counts[event].saturating_add(1);
    COUNTED.set(counts);
}

/// The events that the calling thread has counted since the last call or the beginning of a decision.
pub(crate) fn take_counted() -> [u16; 8] {
    COUNTED.take()
}

#[derive(Debug)]
struct Left;

impl std::fmt::Display for Left {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("left to another thread, because its file system may not answer")
    }
}

impl std::error::Error for Left {}

/// Has the calling thread, an event loop, leave each lookup that may wait for another process or machine.
pub fn never_wait() {
    prepare_lookups();
    STATE.with_borrow_mut(|state| state.manner = Manner::Leaves);
}

/// Makes a decision without waiting for another process or machine, with a thread's answers. A share means that a lookup was left and the result is void.
pub fn here<T>(answers: Answers, decide: impl FnOnce() -> T) -> (T, Option<Share>) {
    take_counted();
    // Usually there are no answers, and the calling thread, an event loop, is in the same state anyway.
    if answers.0.is_empty() && STATE.with_borrow(State::is_of_event_loop) {
        let decided = decide();
        return (decided, STATE.with_borrow_mut(|state| state.left.take()));
    }
    let scope = Scope::begin(Manner::Leaves, answers, Share::UNKNOWN);
    let decided = decide();
    let (answers, left) = scope.end();
    drop(answers);
    (decided, left)
}

/// Does something that waits for local file systems only; otherwise as `here`.
pub(crate) fn locally<T>(job: impl FnOnce() -> T) -> (T, Option<Share>) {
    let scope = Scope::begin(Manner::WaitsLocally, Answers::default(), Share::UNKNOWN);
    let done = job();
    (done, scope.end().1)
}

/// Makes a decision on a thread that may be lost, to collect answers for an event loop. A directory's thread may leave a lookup to one of another share.
fn noting<T>(share: Share, decide: impl FnOnce() -> T) -> (Answers, Option<Share>) {
    let scope = Scope::begin(Manner::Notes, Answers::default(), share);
    drop(decide());
    scope.end()
}

/// Has threads that may be lost make a decision, whose answers an event loop could not get. `make` copies the question.
///
/// # Errors
/// As of `elsewhere`.
pub async fn noted<T, J: FnOnce() -> T + Send + 'static>(
    share: Share,
    what: &str,
    make: impl Fn() -> J,
) -> Result<Answers, Fault> {
    let mut share = share;
    loop {
        let job = make();
        match elsewhere(share, what, move || noting(share, job)).await? {
            (answers, None) => return Ok(answers),
            // That thread leaves nothing.
            (_, Some(other)) => share = other,
        }
    }
}

/// Does something on a thread that may be lost, and waits for it. `what` is looked up or read.
///
/// # Errors
/// 503: there was no answer in time, or others have waited in vain for this share.
pub async fn elsewhere<T: Send + 'static>(
    share: Share,
    what: &str,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    answer_to(what, begin(share, job)).await
}

pub(crate) fn begin<T: Send + 'static>(share: Share, job: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    look_elsewhere(share.threads(), move || {
        let _scope = Scope::begin(Manner::Waits, Answers::default(), share);
        job()
    })
}

/// Waits for what `begin` has begun, from now on; errors as of `elsewhere`.
pub(crate) async fn answer_to<T: Send + 'static>(what: &str, answer: Answer<T>) -> Result<T, Fault> {
    let answer = answer.within(sleep(ANSWER_TIMEOUT)).await;
    answer.map_err(|why| match why {
        NoAnswer::Silent => ServerFault::Unanswered(what.into()).into(),
        NoAnswer::Panicked => ServerFault::Unexpected("a lookup has panicked").into(),
    })
}

/// Does something as `elsewhere` does, and keeps the calling thread, which is no event loop, waiting for it.
///
/// # Errors
/// There was no answer in time, or the job has panicked.
pub fn await_elsewhere<T: Send + 'static>(
    share: Share,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    begin(share, job).wait(ANSWER_TIMEOUT)
}

/// Answers a question, on an event loop by a thread's answers if there are any. `stand_in` makes a second, equal answer for a thread that notes the first.
pub fn answered<T: Send + 'static>(
    question: Question,
    of: u64,
    name: &str,
    stand_in: fn(&T) -> T,
    answer: impl FnOnce() -> T,
) -> T {
    match manner() {
        Manner::Waits | Manner::WaitsLocally => answer(),
        Manner::Leaves => take(question, of, name).unwrap_or_else(answer),
        Manner::Notes => {
            let found = answer();
            // An event loop asks again, and leaves it to a thread of another share.
            if has_left() {
                return found;
            }
            let again = stand_in(&found);
            let noted = Noted {
                question,
                of,
                name: name.into(),
                answer: Box::new(found),
            };
            STATE.with_borrow_mut(|state| state.answers.0.push(noted));
            again
        }
    }
}

fn take<T: 'static>(question: Question, of: u64, name: &str) -> Option<T> {
    STATE.with_borrow_mut(|state| {
        let noted = &mut state.answers.0;
        let mut each = noted.iter();
        let at = each.position(|noted| noted.question == question && noted.of == of && *noted.name == *name)?;
        noted.remove(at).answer.downcast().ok().map(|answer| *answer)
    })
}

/// Whether the calling thread leaves a lookup, which may wait for another process or machine, or for a directory that a process holds. `share` says
/// whose it is. A thread of the share of a local directory leaves a lookup of any other kind, because a foreign file system that does not answer would take that thread.
pub(crate) fn leaves(share: impl FnOnce() -> Share) -> bool {
    let (manner, own, has_left) = STATE.with_borrow(|state| (state.manner, state.share, state.left.is_some()));
    let leaves_local = match manner {
        Manner::Waits => return false,
        Manner::Notes if !own.is_local() => return false,
        Manner::Notes | Manner::WaitsLocally => false,
        Manner::Leaves if has_left => return true,
        Manner::Leaves => true,
    };
    // May make system calls.
    let share = share();
    if !leaves_local && share.is_local() {
        return false;
    }
    if !has_left {
        STATE.with_borrow_mut(|state| state.left = Some(share));
    }
    true
}

fn manner() -> Manner {
    STATE.with_borrow(|state| state.manner)
}

/// Whether the calling thread, an event loop, leaves what the kernel does not have in its cache.
fn leaves_uncached() -> bool {
    manner() == Manner::Leaves
}

/// Whether the calling thread leaves what needs a path of the whole machine, such as an explanation of a refusal.
pub fn leaves_path(path: &Path) -> bool {
    leaves(|| Share::of_path(path))
}

/// Whether the calling thread waits without noting anything.
fn just_waits() -> bool {
    manner() == Manner::Waits
}

/// Whether the decision in progress has left a lookup, so that nothing may be concluded from its answer.
#[must_use]
pub fn has_left() -> bool {
    STATE.with_borrow(|state| state.left.is_some())
}

fn own_share() -> Share {
    STATE.with_borrow(|state| state.share)
}

pub(crate) fn left() -> io::Error {
    io::Error::other(Left)
}

/// Whether a lookup was left.
#[must_use]
pub fn is_left(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<Left>())
}

/// The manner of a thread for a while: that before it comes back when this is dropped, also if the decision panics.
struct Scope(State);

impl Scope {
    fn begin(manner: Manner, answers: Answers, share: Share) -> Scope {
        let state = State { manner, answers, left: None, share };
        Scope(STATE.replace(state))
    }

    /// The answers that are left or were noted, and the share of the first lookup that was left.
    fn end(self) -> (Answers, Option<Share>) {
        STATE.with_borrow_mut(|state| (std::mem::take(&mut state.answers), state.left))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        STATE.with_borrow_mut(|state| std::mem::swap(state, &mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::read_at;
    use crate::directory::Directory;

    fn text(directory: &Directory, name: &str) -> io::Result<String> {
        let (file, _) = directory.open_below(name)?;
        // The threads share the offset of the file.
        let content = read_at(&file, 0, 100)?;
        Ok(String::from_utf8(content).unwrap())
    }

    #[test]
    fn a_lookup_in_a_file_system_that_is_not_local_is_left_and_repeated_with_the_answers_of_a_thread() {
        let directory = Directory::open(Path::new("/proc/sys/kernel")).unwrap();
        let (found, left) = here(Answers::default(), || text(&directory, "ostype"));
        assert!(is_left(&found.unwrap_err()) && left.is_some());
        let share = left.unwrap();
        let look = || {
            assert_eq!(text(&directory, "ostype").unwrap(), "Linux\n");
            assert_eq!(text(&directory, "none").unwrap_err().kind(), io::ErrorKind::NotFound);
        };
        let answers = noting(share, look).0;
        let ((), left) = here(answers, look);
        assert_eq!(left, None);
        assert_eq!(
            text(&directory, "ostype").unwrap(),
            "Linux\n",
            "this thread waits again"
        );
    }

    #[test]
    fn a_local_file_is_opened_and_a_link_that_leaves_its_directory_is_left() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        std::fs::write(root.path().join("d/a"), "a").unwrap();
        std::fs::write(root.path().join("b"), "b").unwrap();
        std::os::unix::fs::symlink("../b", root.path().join("d/b")).unwrap();
        let mut directory = Directory::open(&root.path().join("d")).unwrap();
        directory.follow = sluice_settings::FollowLinks::Yes;
        let (found, left) = here(Answers::default(), || text(&directory, "a"));
        assert_eq!((found.unwrap().as_str(), left), ("a", None));
        let (_, left) = here(Answers::default(), || text(&directory, "b"));
        // The kernel cannot say from its cache that a link leaves.
        let (_, left) = noting(left.unwrap(), || text(&directory, "b"));
        assert!(!left.unwrap().is_local());
        let (answers, left) = noting(left.unwrap(), || text(&directory, "b"));
        assert_eq!(left, None);
        let (found, left) = here(answers, || text(&directory, "b"));
        assert_eq!((found.unwrap().as_str(), left), ("b", None));
    }
}
