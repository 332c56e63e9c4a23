//! The things that a request waits for, before its answer passes the gate or while it is carried out.
//!
//! Not here: waiting (`carry_out`).

use sluice_files::cache_work::PendingVariant;
use sluice_files::listing::page::ListingRequest;
use sluice_http::fault::Fault;

use crate::serve::agent::PendingAnswer;
use crate::serve::authorize::Verification;
use crate::serve::decide::{ReportAnswer, ScriptTarget};
use crate::serve::request_limits::Queued;

/// Why a request has no response yet.
pub(crate) enum Wait {
    /// The client gets an error; there is nothing to wait for.
    Refused(Fault),
    /// A thread verifies a password.
    Password(Box<Verification>),
    /// An authentication agent answers.
    Agent(Box<PendingAnswer>),
    /// The queue of a throttle.
    Throttle(Box<Queued>),
    /// A file whose compressed variant is being made.
    Variant(Box<PendingVariant>),
    Listing(Box<ListingRequest>),
    Report(Box<ReportAnswer>),
    Script(Box<ScriptTarget>),
}

impl Wait {
    /// Whether the answer has not passed the gate yet.
    pub(crate) fn is_for_gate(&self) -> bool {
        matches!(self, Wait::Password(_) | Wait::Agent(_) | Wait::Throttle(_))
    }
}

impl From<Fault> for Wait {
    fn from(fault: Fault) -> Wait {
        Wait::Refused(fault)
    }
}
