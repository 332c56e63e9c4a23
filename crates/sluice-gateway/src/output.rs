//! What comes out of a script's mailbox: the words in which `scanner` speaks to the server.
//!
//! Only types and bounds live here; the reading is done in `scanner`.

use std::fmt;

use bytes::Bytes;

use crate::callout::CalloutRequest;

/// Bytes in the longest callout line: two of the longest paths (PATH_MAX).
pub const CALLOUT_LINE_BYTES_MAX: usize = 8 * 1024;

/// Bytes in all lines of one callout: a callout that goes on longer was never closed, and is eating the body.
pub const CALLOUT_BYTES_MAX: usize = 1024 * 1024;

/// How a script's output arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxKind {
    /// A pipe: bytes, cut anywhere.
    Stream,
    /// A sequence of records: one write of the script is one record.
    Record,
}

/// What ends a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndMark {
    /// The end sentinel (CGIplus and RTE).
    Sentinel,
    /// End-of-file (CGI); the end sentinel is body text like any other.
    EndOfFile,
}

/// What a script's output holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Bytes of the reply, head or body; never empty. From a record mailbox: one record.
    Bytes(Bytes),
    /// One callout line, as soon as it is complete: the script may wait for the answer before it closes the callout.
    Callout(CalloutRequest),
    /// The callout is over; what follows belongs to the reply.
    CalloutClosed,
    /// The response is complete.
    End,
    /// The script broke the rules; nothing more comes out.
    Fault(OutputFault),
}

/// How a script broke the rules of its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFault {
    /// A callout line is longer than [`CALLOUT_LINE_BYTES_MAX`].
    CalloutLineTooLong,
    /// A callout is longer than [`CALLOUT_BYTES_MAX`].
    CalloutTooLong,
    /// The end sentinel came inside a callout.
    EndInsideCallout,
    /// The escape sentinel came inside a callout.
    EscapeInsideCallout,
    /// The output ended inside a callout.
    CalloutNotClosed,
}

impl fmt::Display for OutputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputFault::CalloutLineTooLong => {
                write!(f, "a callout line is longer than {CALLOUT_LINE_BYTES_MAX} bytes")?;
            }
            OutputFault::CalloutTooLong => write!(f, "a callout is longer than {CALLOUT_BYTES_MAX} bytes")?,
            OutputFault::EndInsideCallout => f.write_str("the response was ended (CGIPLUSEOF) inside a callout")?,
            OutputFault::EscapeInsideCallout => f.write_str("a callout was opened (CGIPLUSESC) inside a callout")?,
            OutputFault::CalloutNotClosed => f.write_str("the output ended inside a callout")?,
        }
        f.write_str(": write the text in CGIPLUSEOT (in CGI: WWW_GATEWAY_EOT) after the last line of each callout")
    }
}

impl std::error::Error for OutputFault {}
