//! Lines that a program writes: a thread collects them, and tests wait for them.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::DEADLINE;

/// The warnings and errors in a server's log, except what scripts wrote and the warning about running as root.
pub fn warnings_and_errors(log: &str) -> Vec<String> {
    let is_warning_or_error = |line: &&str| {
        (line.contains(" WARN ") || line.contains(" ERROR "))
            && !line.contains(" script: ")
            && !line.contains("running as root")
    };
    log.lines().filter(is_warning_or_error).map(str::to_owned).collect()
}

/// Everything read from one pipe so far.
#[derive(Clone)]
pub(crate) struct Lines(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<String>,
    has_ended: bool,
}

impl Lines {
    /// Reads to end-of-file in its own thread.
    pub(crate) fn read(pipe: impl Read + Send + 'static) -> Lines {
        let lines = Lines(Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() }));
        let shared = Arc::clone(&lines.0);
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line);
                shared.lock().lines.push(text.trim_end_matches('\n').to_owned());
                shared.changed.notify_all();
                line.clear();
            }
            shared.lock().has_ended = true;
            shared.changed.notify_all();
        });
        lines
    }

    /// The lines so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().lines.clone()
    }

    /// The lines so far, as one text.
    pub(crate) fn text(&self) -> String {
        self.all().iter().map(|line| format!("{line}\n")).collect()
    }

    /// Waits for `count` lines that satisfy the condition. Fails the test if they do not arrive.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize, mut condition: impl FnMut(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        let enough = self.wait(DEADLINE, |state| {
            found = state.lines.iter().filter(|line| condition(line)).cloned().collect();
            found.len() >= count || state.has_ended
        });
        assert!(
            enough && found.len() >= count,
            "waited for {count} lines and found {found:#?} in:\n{}",
            self.text()
        );
        found
    }

    /// Waits until the writer has closed its end; false at the deadline.
    pub(crate) fn wait_end(&self, deadline: Duration) -> bool {
        self.wait(deadline, |state| state.has_ended)
    }

    fn wait(&self, deadline: Duration, mut condition: impl FnMut(&State) -> bool) -> bool {
        let until = Instant::now() + deadline;
        let mut state = self.0.lock();
        loop {
            if condition(&state) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
