//! One search for the processes that a script has started, among the orphans and all processes below them.
//!
//! Reading about a process may wait without bound (`slow_reads`), so another thread does it. An orphan for which that takes too long belongs to nobody
//! from then on. Members are opened there (pidfd), so that whoever kills them reads nothing.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::end::families::families;
use crate::end::pidfd;
use crate::end::session::{Stat, all_processes, children, has_threads};
use crate::end::{orphan_user, orphans, rlimit_mark, slow_reads};
use crate::users::own_user::own_uid;

/// Processes that are opened in one search, each of which needs a descriptor until it is killed.
const OPENED_MAX: usize = 64;

/// The time after which a search begins no further visits because others took too long.
const VISITS_TIMEOUT: Duration = Duration::from_secs(2);

/// The signs by which all processes that a script has started are recognized.
#[derive(Clone)]
pub(super) struct Family {
    pub(super) session: i32,
    pub(super) mark: Arc<str>,
}

impl Family {
    fn has(&self, pid: i32, stat: Stat) -> bool {
        stat.session == self.session || Signs::read(pid, stat).are_of(self.session, &self.mark)
    }

    /// Opens a process of it. `None` if it has gone.
    fn open(&self, pid: i32) -> Option<OwnedFd> {
        let pidfd = pidfd::open(pid).ok()?;
        // The number may have passed on before it was opened. If it passes on later, the pidfd still refers to the earlier process, which has exited then.
        self.has(pid, Stat::read(pid)?).then_some(pidfd)
    }
}

/// The signs of a process that is in no session of a script.
struct Signs {
    session: i32,
    environment: Vec<u8>,
    leader: Option<i32>,
}

impl Signs {
    fn read(pid: i32, stat: Stat) -> Signs {
        Signs {
            session: stat.session,
            // Unreadable if it belongs to another user, or does not let itself be read (PR_SET_DUMPABLE, prctl(2)).
            environment: fs::read(format!("/proc/{pid}/environ")).unwrap_or_default(),
            leader: rlimit_mark::leader_of(pid),
        }
    }

    fn are_of(&self, session: i32, mark: &str) -> bool {
        let mark = mark.as_bytes();
        let is_marked = || !mark.is_empty() && self.environment.windows(mark.len()).any(|bytes| bytes == mark);
        self.session == session || self.leader == Some(session) || is_marked()
    }
}

/// A process that has not exited, of the script that a search is for.
pub(super) struct Member {
    pub(super) pid: i32,
    /// `None` if there are too many, or it has gone meanwhile.
    pub(super) pidfd: Option<OwnedFd>,
}

/// One search for the processes of a session.
pub(super) struct Pass {
    pub(super) members: Vec<Member>,
    /// No process can have escaped the search. One that exits during it hands its children to the main thread, whose list was read before.
    pub(super) is_conclusive: bool,
}

impl Pass {
    /// `zombies` are the zombies of the pass before, and then of this one: the children of such a process were handed on before this pass.
    pub(super) fn of(family: &Family, zombies: &mut HashSet<i32>) -> Pass {
        let since = Instant::now();
        let known = std::mem::take(zombies);
        let Some(orphans) = orphans::list().ok().flatten() else {
            return Pass::of_all(family, known);
        };
        let mut unknown = orphans.pids;
        unknown.retain(|orphan| families().is_unknown(*orphan, family.session));
        let user = orphan_user::retain_own(&mut unknown, family.session);
        let mut pass = Pass {
            members: Vec::new(),
            is_conclusive: !orphans.has_reaped,
        };
        if unknown.is_empty() {
            return pass;
        }
        let search = Arc::new(Search {
            family: family.clone(),
            others: families().running(),
            known,
        });
        let left = visit_trees(&search, unknown, user.unwrap_or_else(own_uid), |orphan, tree| {
            pass.is_conclusive &= tree.is_conclusive;
            pass.add(tree.members);
            zombies.extend(tree.zombies);
            if let Some(judgement) = tree.judgement {
                judgement.remember(orphan, since);
            }
        });
        pass.is_conclusive &= left.is_empty();
        pass
    }

    fn add(&mut self, members: Vec<Member>) {
        for mut member in members {
            if self.members.len() >= OPENED_MAX {
                member.pidfd = None;
            }
            self.members.push(member);
        }
    }

    /// A search among all processes, for a system without the list of orphans.
    fn of_all(family: &Family, known: HashSet<i32>) -> Pass {
        let search = Search { family: family.clone(), others: Vec::new(), known };
        let mut found = Tree::default();
        for pid in all_processes() {
            search.visit(pid, &mut found);
        }
        Pass { members: found.members, is_conclusive: true }
    }
}

/// Visits orphans with all processes below them, in their order, on a thread of this user, and passes on what was found. Orphans that take too long are given up.
/// Returns those that are left because so many took too long.
fn visit_trees(
    search: &Arc<Search>,
    orphans: Vec<i32>,
    user: u32,
    mut pass_on: impl FnMut(i32, Tree),
) -> VecDeque<i32> {
    let began = Instant::now();
    let mut left = VecDeque::from(orphans);
    while !left.is_empty() && began.elapsed() < VISITS_TIMEOUT {
        let trees = begin_visits(search, left.iter().copied().collect(), user);
        if trees.recv_timeout(slow_reads::TIMEOUT).is_err() {
            // There is no thread. This one waits at most for processes of the user whose script has ended.
            for orphan in left.drain(..) {
                pass_on(orphan, search.visit_tree(orphan));
            }
            break;
        }
        while let Some(orphan) = left.pop_front() {
            let Ok(Some(tree)) = trees.recv_timeout(slow_reads::TIMEOUT) else {
                give_up(orphan, user);
                break;
            };
            pass_on(orphan, tree);
        }
    }
    left
}

/// Begins to visit orphans. The first message says that it has begun; each further one is about an orphan.
fn begin_visits(search: &Arc<Search>, orphans: Vec<i32>, user: u32) -> Receiver<Option<Tree>> {
    // Each has descriptors.
    const AHEAD_MAX: usize = 8;
    let (sender, trees) = mpsc::sync_channel(AHEAD_MAX);
    let search = Arc::clone(search);
    slow_reads::begin(user.into(), move || {
        let messages = std::iter::once(None).chain(orphans.into_iter().map(|orphan| Some(search.visit_tree(orphan))));
        for message in messages {
            if sender.send(message).is_err() {
                // It took too long.
                return;
            }
        }
    });
    trees
}

fn give_up(orphan: i32, user: u32) {
    let Ok(pidfd) = pidfd::open(orphan) else { return };
    orphans::note_unreaped(pidfd.as_fd(), || families().give_up(orphan));
    tracing::warn!(
        "process {orphan} of user {user}, or one below it, cannot be examined: another process holds the lock of its directory in /proc; it goes on if a script has left it behind"
    );
}

struct Search {
    family: Family,
    /// The other scripts that run.
    others: Vec<(i32, Arc<str>)>,
    /// The zombies of the search before.
    known: HashSet<i32>,
}

/// The findings about an orphan and all processes below it.
struct Tree {
    members: Vec<Member>,
    zombies: Vec<i32>,
    is_conclusive: bool,
    /// The judgement, if they all go on and belong to another script or to none.
    judgement: Option<Judgement>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            members: Vec::new(),
            zombies: Vec::new(),
            is_conclusive: true,
            judgement: None,
        }
    }
}

/// The owner of an orphan and all processes below it.
struct Judgement {
    /// The orphan, so that another process of its number is noticed.
    pidfd: OwnedFd,
    /// The other script that they belong to.
    leader: Option<i32>,
}

enum Owner {
    /// The script that the search is for.
    Family,
    /// The script of this leader.
    Other(i32),
    Nobody,
    /// The process has exited, or exits.
    Gone,
}

impl Search {
    /// Visits an orphan and all processes below it.
    fn visit_tree(&self, orphan: i32) -> Tree {
        let pidfd = pidfd::open(orphan).ok();
        let mut tree = Tree::default();
        let (mut unvisited, mut leader, mut is_clear) = (vec![orphan], None, true);
        while let Some(pid) = unvisited.pop() {
            // Before its state, because the list is known to be whole only if the process has not exited afterwards.
            unvisited.extend(children(pid));
            match self.visit(pid, &mut tree) {
                Owner::Other(other) => leader = Some(other),
                Owner::Nobody => {}
                Owner::Family | Owner::Gone => is_clear = false,
            }
        }
        tree.judgement = pidfd.filter(|_| is_clear).map(|pidfd| Judgement { pidfd, leader });
        tree
    }

    fn visit(&self, pid: i32, tree: &mut Tree) -> Owner {
        let Some(stat) = Stat::read(pid) else {
            tree.is_conclusive = false;
            return Owner::Gone;
        };
        if stat.is_zombie && !has_threads(pid) {
            tree.zombies.push(pid);
            tree.is_conclusive &= self.known.contains(&pid);
            return Owner::Gone;
        }
        let signs = Signs::read(pid, stat);
        if signs.are_of(self.family.session, &self.family.mark) {
            let has_room = tree.members.len() < OPENED_MAX;
            tree.members.push(Member {
                pid,
                pidfd: has_room.then(|| self.family.open(pid)).flatten(),
            });
            return Owner::Family;
        }
        let is_of = |(session, mark): &&(i32, Arc<str>)| signs.are_of(*session, mark);
        match self.others.iter().find(is_of) {
            Some((leader, _)) => Owner::Other(*leader),
            None => Owner::Nobody,
        }
    }
}

impl Judgement {
    /// Remembers it, so that the orphan is not visited again at the end of each script.
    fn remember(&self, orphan: i32, since: Instant) {
        orphans::note_unreaped(self.pidfd.as_fd(), || families().remember(orphan, self.leader, since));
    }
}
