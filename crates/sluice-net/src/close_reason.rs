//! Why a connection is closed, for WATCH.

use std::fmt;

/// Why a connection is closed. The first reason that is known counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// No other reason is known: the response was the last one, because one of its fields, its version or its error says so.
    #[default]
    LastResponse,
    /// The client has announced that it sends no other request.
    LastRequest,
    ClientClosed,
    ClientReset,
    /// The client has left during an exchange, or may have left (`half_close_timeout`).
    ClientLeft,
    Idle,
    HeadTimedOut,
    HeadRefused,
    TooSlow,
    Draining,
    MakesRoom,
    FreesMemory,
    RequestEnded,
    /// Before the version of HTTP was known.
    NothingSent,
    ProxyHeader,
    Handshake,
    /// The exchange had become a tunnel, which is over.
    TunnelEnded,
    /// A response was aborted, which was noted with its exchange.
    Aborted,
    /// An error that is noted by itself.
    Error,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloseReason::LastResponse => "the response was the last one",
            CloseReason::LastRequest => "the client has announced that its request is the last one",
            CloseReason::ClientClosed => "the client has closed it",
            CloseReason::ClientReset => "the client has reset it",
            CloseReason::ClientLeft => {
                "its client has left, or sends nothing more and takes nothing (half_close_timeout)"
            }
            CloseReason::Idle => "idle for head_timeout",
            CloseReason::HeadTimedOut => "the head of a request was not complete within head_timeout",
            CloseReason::HeadRefused => "the head of a request was refused",
            CloseReason::TooSlow => "its client took less than send_timeout and send_rate allow",
            CloseReason::Draining => "the server drains",
            CloseReason::MakesRoom => "it was idle longest, and another connection needs its slot (limits.connections)",
            CloseReason::FreesMemory => "too many bytes of its responses wait, and send_memory is used up",
            CloseReason::RequestEnded => "the administrator has ended its request",
            CloseReason::NothingSent => "the client has closed it, or sent nothing within head_timeout",
            CloseReason::ProxyHeader => "no valid header of the PROXY protocol",
            CloseReason::Handshake => "the TLS handshake failed",
            CloseReason::TunnelEnded => "its tunnel has ended",
            CloseReason::Aborted => "a response was aborted before its end",
            CloseReason::Error => "an error",
        })
    }
}
