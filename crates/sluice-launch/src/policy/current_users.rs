//! The policy of a launcher whose configuration is loaded again while it runs.
//!
//! Requests that began before a reload start their programs as the routes of their configuration say, perhaps minutes later: after an upload. So the
//! programs of earlier configurations still start for a while; their users do not.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::policy::route_programs::RoutePrograms;
use crate::policy::run_as::{Decided, Refusal, RunAs, UserPolicy, WishedProgram};
use crate::policy::share::Share;
use crate::policy::user_policy::ScriptUsers;

/// How long programs of a configuration start after it was replaced.
const KEPT: Duration = Duration::from_secs(600);

const EARLIER_MAX: usize = 8;

/// A policy that can be replaced, when the configuration is loaded again.
#[derive(Debug, Default)]
pub struct CurrentUsers(RwLock<Policies>);

#[derive(Clone, Debug, Default)]
struct Policies {
    current: Arc<ScriptUsers>,
    /// Policies before it, the last one first, each with the moment until which its programs start.
    earlier: Vec<(Instant, Arc<ScriptUsers>)>,
}

impl CurrentUsers {
    /// Has later starts use this policy. Programs of the one before still start for ten minutes, as far as their users are those of this policy.
    pub fn set(&self, users: ScriptUsers) {
        self.set_at(users, Instant::now());
    }

    fn set_at(&self, users: ScriptUsers, now: Instant) {
        let mut policies = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if *policies.current == users {
            return;
        }
        let replaced = std::mem::replace(&mut policies.current, Arc::new(users));
        // A reload sets two policies: first one for the old and the new configuration, which says all that the old one says.
        let has = |programs: &RoutePrograms| replaced.programs.iter().any(|wider| wider.includes(programs));
        let is_included = |users: &ScriptUsers| users.programs.iter().all(has);
        policies
            .earlier
            .retain(|(until, users)| *until > now && !is_included(users));
        policies.earlier.insert(0, (now + KEPT, replaced));
        policies.earlier.truncate(EARLIER_MAX);
    }

    fn decide_at(&self, wished: &WishedProgram<'_>, now: Instant) -> Result<Decided, Refusal> {
        let Policies { current, mut earlier } = self.policies();
        earlier.retain(|(until, _)| *until > now);
        let earlier: Vec<_> = earlier.into_iter().map(|(_, users)| users).collect();
        current.decide_with(&earlier, wished)
    }

    fn policies(&self) -> Policies {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl UserPolicy for CurrentUsers {
    fn decide(&self, wished: &WishedProgram<'_>) -> Result<Decided, Refusal> {
        self.decide_at(wished, Instant::now())
    }

    fn share(&self, run_as: &RunAs) -> Share {
        self.policies().current.share(run_as)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;
    use crate::confine::limits::ProcessLimits;
    use crate::policy::route_programs::RouteSource;

    /// A policy with one route, whose processes may have so many open files.
    fn policy(files: u64) -> ScriptUsers {
        let source = RouteSource {
            file: Some(c"/bin/true".into()),
            ..RouteSource::default()
        };
        ScriptUsers {
            programs: vec![RoutePrograms {
                sources: vec![source],
                limits: limits(files),
                ..RoutePrograms::default()
            }],
            ..ScriptUsers::default()
        }
    }

    fn limits(files: u64) -> ProcessLimits {
        ProcessLimits {
            open_files_max: Some(files),
            ..ProcessLimits::default()
        }
    }

    #[test]
    fn programs_of_an_earlier_configuration_start_for_a_while() {
        let start = Instant::now();
        let users = CurrentUsers::default();
        let decide = |files, seconds| {
            let wished = WishedProgram {
                run_as: &RunAs::Usual,
                path: c"/bin/true",
                arguments: &[c"/bin/true".into()],
                directory: c"/bin",
                limits: &limits(files),
                confinement: None,
            };
            users.decide_at(&wished, start + Duration::from_secs(seconds)).is_ok()
        };
        users.set_at(policy(100), start);
        assert!(decide(100, 0) && !decide(101, 0));
        users.set_at(policy(50), start + Duration::from_secs(60));
        // The same again changes nothing.
        users.set_at(policy(50), start + Duration::from_secs(600));
        assert!(decide(50, 60) && decide(100, 60) && decide(100, 659));
        assert!(decide(50, 661) && !decide(100, 661));
        assert!(!decide(101, 661));
    }

    /// The policy that a reload sets first: sources of programs with the same limits are joined.
    fn both(new: &ScriptUsers, old: &ScriptUsers) -> ScriptUsers {
        let mut both = new.clone();
        match both.programs[0].limits == old.programs[0].limits {
            true => both.programs[0].sources.extend(old.programs[0].sources.clone()),
            false => both.programs.extend(old.programs.clone()),
        }
        both
    }

    #[test]
    fn a_reload_adds_one_earlier_configuration() {
        let users = CurrentUsers::default();
        let reloads = u64::try_from(EARLIER_MAX).unwrap();
        let policies: Vec<ScriptUsers> = (0..=reloads)
            .map(|number| {
                let mut policy = policy(number / 2);
                policy.programs[0].sources[0].file = CString::new(format!("/bin/{number}")).ok();
                policy
            })
            .collect();
        users.set(policies[0].clone());
        for reload in policies.windows(2) {
            users.set(both(&reload[1], &reload[0]));
            users.set(reload[1].clone());
        }
        let earlier = users.policies().earlier;
        for policy in &policies[..policies.len() - 1] {
            let programs = &policy.programs[0];
            let mut kept = earlier.iter().flat_map(|(_, users)| &users.programs);
            assert!(kept.any(|wider| wider.includes(programs)), "{:?}", programs.sources);
        }
    }

    #[test]
    fn earlier_configurations_are_bounded() {
        let users = CurrentUsers::default();
        (0..100).for_each(|files| users.set(policy(files)));
        assert_eq!(users.policies().earlier.len(), EARLIER_MAX);
    }
}
