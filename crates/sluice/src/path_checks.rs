//! Checks of files of the configuration, also regular ones, on one thread per path that may be lost: an owner who keeps a check from being answered delays no other.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_launch::{Answer, LookupShare, look_elsewhere};
use tokio::time::{Instant, sleep_until};

/// How long a round waits for its answers. A disk that is busy answers in this time.
const ROUND_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a path is not answered for.
pub(crate) const SILENT: &str = "its directory does not answer, or somebody keeps it locked";

type Check<T> = Arc<dyn Fn(&Path) -> T + Send + Sync>;

/// The checks of some paths.
pub(crate) struct PathChecks<T> {
    paths: Arc<[PathBuf]>,
    check: Check<T>,
    /// The checks that are not answered yet, perhaps since an earlier round.
    waiting: Vec<Option<Answer<T>>>,
    found: Vec<Option<T>>,
    /// The end of the round, if one is under way.
    until: Option<Instant>,
}

impl<T: Send + 'static> PathChecks<T> {
    pub(crate) fn new(paths: Arc<[PathBuf]>, check: impl Fn(&Path) -> T + Send + Sync + 'static) -> PathChecks<T> {
        PathChecks {
            waiting: paths.iter().map(|_| None).collect(),
            found: Vec::new(),
            paths,
            check: Arc::new(check),
            until: None,
        }
    }

    /// Checks each path. Returns the findings in the order of the paths; `None` without an answer. May be dropped and called again, which begins no new round.
    pub(crate) async fn round(&mut self) -> Vec<Option<T>> {
        let until = match self.until {
            Some(until) => until,
            None => self.begin(),
        };
        tokio::select! {
            () = poll_fn(|context| self.poll(context)) => {}
            () = sleep_until(until) => {}
        }
        self.until = None;
        std::mem::take(&mut self.found)
    }

    fn begin(&mut self) -> Instant {
        self.found = self.paths.iter().map(|_| None).collect();
        for (path, waiting) in self.paths.iter().zip(&mut self.waiting) {
            if waiting.is_none() {
                let (check, path) = (Arc::clone(&self.check), path.clone());
                *waiting = Some(look_elsewhere(LookupShare::of_path(&path), move || check(&path)));
            }
        }
        *self.until.insert(Instant::now() + ROUND_TIMEOUT)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for (waiting, found) in self.waiting.iter_mut().zip(&mut self.found) {
            let Some(answer) = waiting else { continue };
            if let Poll::Ready(answer) = Pin::new(answer).poll(context) {
                *found = answer.ok();
                *waiting = None;
            }
        }
        match self.waiting.iter().all(Option::is_none) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Whether no round is under way.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.until.is_none()
    }
}
