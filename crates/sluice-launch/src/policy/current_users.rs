//! The policy of a launcher whose configuration is loaded again while it runs.
//!
//! Requests that began before a reload start their programs as the routes of their configuration say, perhaps minutes later: after an upload. So the
//! programs of earlier configurations still start for a while; their users do not. Not here: the decision (`user_policy`).

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::policy::run_as::{Decided, Refusal, RunAs, UserPolicy, WishedProgram};
use crate::policy::share::Share;
use crate::policy::user_policy::ScriptUsers;

/// How long programs of a configuration start after it was replaced.
const KEPT: Duration = Duration::from_secs(600);

/// Earlier configurations that are kept.
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
        policies.earlier.retain(|(until, _)| *until > now);
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
    use super::*;
    use crate::confine::limits::ProcessLimits;
    use crate::policy::route_programs::{RoutePrograms, RouteSource};

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

    #[test]
    fn earlier_configurations_are_bounded() {
        let users = CurrentUsers::default();
        (0..100).for_each(|files| users.set(policy(files)));
        assert_eq!(users.policies().earlier.len(), EARLIER_MAX);
    }
}
