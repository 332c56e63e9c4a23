//! The resources that script processes use: memory and processor time.
//!
//! The launcher reads them (`Probe::usage`). Threads that may be lost ask it, with a share for each user, because somebody can hold the directory of a process below `/proc`.

use std::collections::HashMap;
use std::time::Duration;

use sluice_launch::{LookupShare, Probe, look_elsewhere};
use sluice_report::scripts::Usage;
use tokio::time::{Instant, sleep_until};

/// Processes whose proportional set size is read: counting the pages of a large process takes a millisecond.
const PSS_MAX: usize = 256;

/// How long a report waits for the answers.
const ANSWERS_MAX: Duration = Duration::from_secs(1);

/// The usage of these processes, each with the number of its user. Missing are processes that have ended, and those of users of whom a process is held.
pub(crate) async fn of(processes: Vec<(u32, Probe)>) -> HashMap<i32, Usage> {
    let mut users: HashMap<u32, Vec<(Probe, bool)>> = HashMap::new();
    for (index, (user, probe)) in processes.into_iter().enumerate() {
        users.entry(user).or_default().push((probe, index < PSS_MAX));
    }
    let begin = |(user, processes): (u32, Vec<(Probe, bool)>)| {
        look_elsewhere(LookupShare::processes_of(user), move || ask(&processes))
    };
    let answers: Vec<_> = users.into_iter().map(begin).collect();
    let until = Instant::now() + ANSWERS_MAX;
    let mut all = HashMap::new();
    for answer in answers {
        all.extend(answer.within(sleep_until(until)).await.unwrap_or_default());
    }
    all
}

/// The usage of processes, each with whether its proportional set size is wanted.
fn ask(processes: &[(Probe, bool)]) -> HashMap<i32, Usage> {
    let usage = |(probe, has_pss): &(Probe, bool)| {
        let usage = probe.usage(*has_pss)?;
        let usage = Usage {
            rss_bytes: usage.rss_bytes,
            pss_bytes: usage.pss_bytes,
            processor_ms: usage.processor_ms,
        };
        Some((probe.pid(), usage))
    };
    processes.iter().filter_map(usage).collect()
}
