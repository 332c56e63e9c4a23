//! The contents of a script's mailbox, as `scanner` reports them to the server.

use std::fmt;

use bytes::Bytes;

use crate::callout::CalloutRequest;

/// Bytes in the longest callout line: twice the longest path (PATH_MAX).
pub const CALLOUT_LINE_BYTES_MAX: usize = 8 * 1024;

/// Bytes in all lines of one callout. A longer one was most likely never closed, and is swallowing the body.
pub const CALLOUT_BYTES_MAX: usize = 1024 * 1024;

/// The kind of a script's mailbox, its channel for output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxKind {
    /// A pipe: a stream of bytes; chunk boundaries mean nothing.
    Stream,
    /// A sequence of records: one write of the script is one record.
    Record,
}

/// The mark that ends a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndMark {
    /// The end sentinel (CGIplus and RTE).
    Sentinel,
    /// End-of-file (CGI); the end sentinel is body text like any other.
    EndOfFile,
}

/// One item in a script's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Bytes of the reply, head or body. From a stream never empty; from a record mailbox one record, perhaps empty, or its lines before a sentinel.
    Bytes(Bytes),
    /// One callout line, reported as soon as it is complete: the script may wait for the answer before it closes the callout.
    Callout(CalloutRequest),
    /// The end of the callout; the following bytes belong to the reply.
    CalloutClosed,
    /// The response is complete.
    End,
    /// A violation of the protocol: the script's fault. The scanner reports nothing more.
    Fault(OutputFault),
}

/// A script's violation of the mailbox protocol. Always the script's fault.
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
