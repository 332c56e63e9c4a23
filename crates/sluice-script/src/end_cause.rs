//! Why a script process ends, for reports. The first cause counts: what follows from it is no cause.

use std::fmt;

use crate::pool::Reason;

/// Why a script process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// It served one request, as those of CGI do.
    Served,
    /// Its pool has ended it.
    Retired(Reason),
    /// There was a fault in its exchange.
    Fault,
    /// The client of its exchange has disconnected, and it was not done in time.
    ClientGone,
    /// The administrator has ended its request.
    RequestEnded,
    /// It wrote outside of a reply, or broke the protocol in another way after it.
    Misbehaved,
    /// The server could not use it.
    Unusable,
    /// The server ends.
    Shutdown,
}

impl fmt::Display for EndCause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndCause::Served => out.write_str("its request was served"),
            EndCause::Retired(reason) => reason.fmt(out),
            EndCause::Fault => out.write_str("there was a fault in its exchange"),
            EndCause::ClientGone => out.write_str("its client left, and it was not done in time"),
            EndCause::RequestEnded => out.write_str("its request was ended by the administrator"),
            EndCause::Misbehaved => out.write_str("it broke the protocol after its reply"),
            EndCause::Unusable => out.write_str("the server could not use it"),
            EndCause::Shutdown => out.write_str("the server ends"),
        }
    }
}
