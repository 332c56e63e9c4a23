//! Logs the faults of exchanges, at a level that depends on the culprit, and counts those that repeat.
//!
//! A client can cause a fault with each request, so of each kind of fault only the first lines of an interval are logged. Each worker has a log of its own.

use std::cell::RefCell;
use std::fmt;
use std::time::Instant;

use http::StatusCode;
use sluice_http::escape::Escaped;
use sluice_http::fault::{Culprit, Fault};
use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};
use sluice_http::request_id::UniqueId;

/// More lines are logged about scripts' and the server's faults than about clients', by this factor: the administrator must act on each of them.
const OTHER_CULPRITS_FACTOR: u32 = 10;

#[derive(Default)]
pub(crate) struct FaultLog {
    /// Few: there are as many as faults have statuses.
    kinds: RefCell<Vec<(FaultKind, RateLimitedLog)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct FaultKind {
    culprit: Culprit,
    /// The status of the error page. `None` if the head of the response was already sent.
    status: Option<StatusCode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logged {
    /// The line is in the server log, if that has this level.
    At(tracing::Level),
    Suppressed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A route, or a symbolic link that is not followed: the administrator may have to change something.
    Route,
    Path,
}

impl FaultLog {
    /// Logs a fault of the exchange `id` in one line. `status` is that of the error page; `None` if the head of the response
    /// was already sent. `lines_max` is the limit on lines of one kind, `cause` that of a 404.
    pub(crate) fn log(
        &self,
        lines_max: u32,
        fault: &Fault,
        cause: Cause,
        id: UniqueId,
        status: Option<StatusCode>,
        text: fmt::Arguments<'_>,
    ) -> Logged {
        let kind = FaultKind { culprit: fault.culprit(), status };
        if fault.is_first_challenge()
            || (kind.culprit == Culprit::Client && fault.is_not_found() && cause == Cause::Path)
        {
            // Frequent, because every mistyped URL below the root causes one; access logs have them too. Not limited: a reader of this level needs every one.
            tracing::debug!(status = status.map(|status| status.as_u16()), %id, "{}", Escaped(text));
            return Logged::At(tracing::Level::DEBUG);
        }
        if !self.admits(lines_max, kind) {
            return Logged::Suppressed;
        }
        kind.log(id, &Escaped(text));
        Logged::At(kind.level())
    }

    /// Logs that the head of a request was refused before it became an exchange with a request line.
    pub(crate) fn log_refused_head(&self, lines_max: u32, id: UniqueId, status: StatusCode, text: fmt::Arguments<'_>) {
        let kind = FaultKind { culprit: Culprit::Client, status: Some(status) };
        if self.admits(lines_max, kind) {
            kind.log(id, &Escaped(text));
        }
    }

    pub(crate) fn advance(&self) {
        let now = Instant::now();
        for (kind, limited) in &*self.kinds.borrow() {
            kind.log_suppressed(limited.take_due(RateLimitedLog::INTERVAL, now));
        }
    }

    fn admits(&self, lines_max: u32, kind: FaultKind) -> bool {
        let now = Instant::now();
        let mut kinds = self.kinds.borrow_mut();
        let at = kinds.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            kinds.push((kind, RateLimitedLog::default()));
            kinds.len() - 1
        });
        let limited = &kinds[at].1;
        kind.log_suppressed(limited.take_due(RateLimitedLog::INTERVAL, now));
        limited.admits(kind.lines_max(lines_max), RateLimitedLog::INTERVAL, now)
    }
}

/// The counts of the last interval are not lost.
impl Drop for FaultLog {
    fn drop(&mut self) {
        for (kind, limited) in &*self.kinds.borrow() {
            kind.log_suppressed(limited.take());
        }
    }
}

impl FaultKind {
    /// The limit on lines of this kind, of the one on faults of clients.
    fn lines_max(self, lines_max: u32) -> u32 {
        match self.culprit {
            Culprit::Client => lines_max,
            Culprit::Script | Culprit::Server => lines_max.saturating_mul(OTHER_CULPRITS_FACTOR),
        }
    }

    fn level(self) -> tracing::Level {
        match self.culprit {
            Culprit::Client => tracing::Level::INFO,
            Culprit::Script => tracing::Level::WARN,
            Culprit::Server => tracing::Level::ERROR,
        }
    }

    fn log(self, id: UniqueId, text: &Escaped<fmt::Arguments<'_>>) {
        let status = self.status.map(|status| status.as_u16());
        match self.culprit {
            Culprit::Client => tracing::info!(status, %id, "{text}"),
            Culprit::Script => tracing::warn!(status, %id, "{text}"),
            Culprit::Server => tracing::error!(status, %id, "{text}"),
        }
    }

    fn log_suppressed(self, suppressed: Option<Suppressed>) {
        let Some(suppressed) = suppressed else { return };
        let status = self.status.map(|status| status.as_u16());
        let text = format_args!("{suppressed}");
        match self.culprit {
            Culprit::Client => tracing::info!(status, "faults of clients: {text}"),
            Culprit::Script => tracing::warn!(status, "faults of scripts: {text}"),
            Culprit::Server => tracing::error!(status, "faults of the server: {text}"),
        }
    }
}
