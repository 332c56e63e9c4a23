//! How a process gets its request, and how far it is.
//!
//! Not here: what the relay concludes from it (`relay`).

/// Whether a process has served requests before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// It was started for this request.
    New,
    /// It has.
    Used,
}

/// How the script gets its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// In its environment (CGI).
    InEnvironment,
    /// As the record in CGIPLUSIN, of which the script had read nothing when it was last checked.
    Unread,
    /// As the record in CGIPLUSIN, of which the script had read nothing when it wrote.
    Overtaken,
    /// As the record in CGIPLUSIN, which the script has begun to read: what it writes from now on is taken for its reply.
    Read,
}
