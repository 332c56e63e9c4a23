//! The scripts that run, and the orphans that are known to belong to one of them or to none.
//!
//! At the end of each script every orphan is judged: does it, or a process below it, belong to that script? A process that hides (`rlimit_mark`) is no
//! member of any, and lives on; with many of those, each end of each script would read hundreds of files. So an orphan is judged once, against all
//! scripts that run: one that belongs to none of them belongs to none that starts later either.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The state, which `orphans` also changes when it reaps one.
static FAMILIES: LazyLock<Mutex<Families>> = LazyLock::new(Mutex::default);

#[derive(Default)]
pub(crate) struct Families {
    /// The marks of the scripts that run, by the number of the leader.
    running: HashMap<i32, Arc<str>>,
    /// By the number of the orphan, which nobody else has until it is reaped.
    verdicts: HashMap<i32, Verdict>,
    /// When the last orphan was found to belong to nobody.
    last: Option<Instant>,
}

/// The script that an orphan belongs to.
struct Verdict {
    /// The leader. `None`: no script that ran then.
    leader: Option<i32>,
    since: Instant,
    /// One judgement may fall into an execve(2), when the environment cannot be read.
    is_sure: bool,
    /// The judgement took too long: the orphan is not judged again.
    is_given_up: bool,
}

pub(crate) fn families() -> MutexGuard<'static, Families> {
    FAMILIES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Families {
    /// A script runs from now on. `began` is before its process was created: verdicts since then are forgotten: they may be about its orphans.
    pub(crate) fn begin(&mut self, leader: i32, mark: &Arc<str>, began: Instant) {
        if self.last.is_some_and(|last| last >= began) {
            self.verdicts
                .retain(|_, verdict| verdict.leader.is_some() || verdict.is_given_up || verdict.since < began);
            self.last = self.verdicts.values().map(|verdict| verdict.since).max();
        }
        self.running.insert(leader, Arc::clone(mark));
    }

    /// A script has ended, with all that it has started as far as it was found.
    pub(crate) fn end(&mut self, leader: i32) {
        self.running.remove(&leader);
        if !self.verdicts.is_empty() {
            self.verdicts.retain(|_, verdict| verdict.leader != Some(leader));
        }
    }

    pub(crate) fn running(&self) -> Vec<(i32, Arc<str>)> {
        let running = self.running.iter();
        running.map(|(leader, mark)| (*leader, Arc::clone(mark))).collect()
    }

    /// Whether an orphan may belong to this script, or nobody has judged it.
    pub(crate) fn is_unknown(&self, orphan: i32, leader: i32) -> bool {
        match self.verdicts.get(&orphan) {
            None => true,
            Some(verdict) => !verdict.is_sure || verdict.leader == Some(leader),
        }
    }

    pub(crate) fn is_given_up(&self, orphan: i32) -> bool {
        self.verdicts.get(&orphan).is_some_and(|verdict| verdict.is_given_up)
    }

    /// The judgement of an orphan took too long: from now on it belongs to nobody. Called while no orphan is reaped.
    pub(crate) fn give_up(&mut self, orphan: i32) {
        let verdict = Verdict {
            leader: None,
            since: Instant::now(),
            is_sure: true,
            is_given_up: true,
        };
        self.verdicts.insert(orphan, verdict);
    }

    /// Remembers the script of an orphan, which was judged from this time on. An orphan of nobody is judged twice. Called while no orphan is reaped.
    pub(crate) fn remember(&mut self, orphan: i32, leader: Option<i32>, since: Instant) {
        if self.is_given_up(orphan) {
            return;
        }
        let before = self.verdicts.get(&orphan);
        let before = before.filter(|verdict| leader.is_none() && verdict.leader.is_none());
        let since = before.map_or(since, |verdict| verdict.since);
        let verdict = Verdict {
            leader,
            since,
            is_sure: leader.is_some() || before.is_some(),
            is_given_up: false,
        };
        if leader.is_none() {
            self.last = self.last.max(Some(since));
        }
        self.verdicts.insert(orphan, verdict);
    }

    /// The orphan is reaped: its number may pass to another process.
    pub(crate) fn forget(&mut self, orphan: i32) {
        self.verdicts.remove(&orphan);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_orphan_of_nobody_is_judged_twice_and_again_if_a_script_began_meanwhile() {
        let (orphan, leader) = (1, 2);
        let mark: Arc<str> = Arc::from("mark");
        let mut families = Families::default();
        let now = Instant::now();
        families.remember(orphan, None, now);
        assert!(families.is_unknown(orphan, leader));
        families.remember(orphan, None, now);
        assert!(!families.is_unknown(orphan, leader));
        // A script whose start began after that cannot have it.
        families.begin(leader, &mark, now + Duration::from_secs(1));
        assert!(!families.is_unknown(orphan, leader));
        families.begin(leader, &mark, now - Duration::from_secs(1));
        assert!(families.is_unknown(orphan, leader));
        families.end(leader);
        assert!(families.running.is_empty());
    }

    #[test]
    fn an_orphan_that_was_given_up_is_not_judged_again_whichever_script_begins() {
        let (orphan, leader) = (6, 7);
        let mut families = Families::default();
        let began = Instant::now();
        families.give_up(orphan);
        families.begin(leader, &Arc::from("mark"), began);
        families.remember(orphan, Some(leader), began);
        assert!(!families.is_unknown(orphan, leader));
        families.end(leader);
        assert!(!families.is_unknown(orphan, leader + 1));
    }

    #[test]
    fn an_orphan_of_a_script_is_known_to_all_others_until_that_ends() {
        let (orphan, leader, other) = (3, 4, 5);
        let mut families = Families::default();
        families.begin(leader, &Arc::from("mark"), Instant::now());
        families.remember(orphan, Some(leader), Instant::now());
        assert!(families.is_unknown(orphan, leader) && !families.is_unknown(orphan, other));
        families.end(leader);
        assert!(families.is_unknown(orphan, other));
    }
}
