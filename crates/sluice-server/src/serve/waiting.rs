//! The things that a request waits for, before its answer passes the gate or while it is carried out.

use sluice_files::cache_work::PendingVariant;
use sluice_files::foreign::Share;
use sluice_files::listing::page::ListingRequest;
use sluice_files::send_file::SendFile;
use sluice_http::fault::Fault;

use crate::serve::agent::PendingAnswer;
use crate::serve::authorize::Verification;
use crate::serve::decide::held::{HeldFile, HeldUp};
use crate::serve::decide::{ReportAnswer, ScriptTarget};
use crate::serve::request_limits::Queued;

pub(crate) enum Wait {
    /// The client gets an error; there is nothing to wait for.
    Refused(Fault),
    Password(Box<Verification>),
    Agent(Box<PendingAnswer>),
    /// A thread looks up files whose file system may not answer.
    Elsewhere(Box<LeftLookup>),
    Throttle(Box<Queued>),
    Variant(Box<PendingVariant>),
    Listing(Box<ListingRequest>),
    Report(Box<ReportAnswer>),
    Script(Box<ScriptTarget>),
}

/// A lookup that an event loop has left to another thread, because its file system may not answer.
pub(crate) struct LeftLookup {
    pub share: Share,
    pub lookup: Lookup,
}

pub(crate) enum Lookup {
    Decision,
    /// The file of a decision that has passed the gate.
    Held(HeldFile),
    SendFile(Box<SendFile>),
}

impl Wait {
    pub(crate) fn for_lookup(share: Share, lookup: Lookup) -> Wait {
        Wait::Elsewhere(Box::new(LeftLookup { share, lookup }))
    }

    pub(crate) fn is_for_gate(&self) -> bool {
        matches!(self, Wait::Password(_) | Wait::Agent(_) | Wait::Throttle(_))
    }
}

impl From<HeldUp> for Wait {
    fn from(held_up: HeldUp) -> Wait {
        match held_up {
            HeldUp::Refused(fault) => Wait::Refused(fault),
            HeldUp::Left(share, file) => Wait::for_lookup(share, Lookup::Held(file)),
        }
    }
}

impl From<Fault> for Wait {
    fn from(fault: Fault) -> Wait {
        Wait::Refused(fault)
    }
}
