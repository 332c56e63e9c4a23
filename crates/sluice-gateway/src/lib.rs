//! What the server and a script say to each other, as pure values.
//!
//! Floor 0: everything here is a function of its arguments. Nothing is read or written, no clock is asked, no random number
//! is drawn, no process is known; so each rule of the talk can be tested by itself, and the same code serves every mode of
//! running a script.
//!
//! In the order of an exchange:
//!
//! | | to the script |
//! |---|---|
//! | [`CgiRequest`] → [`Variables`] | what a script is told of a request (RFC 3875 §4.1, Apache, WASD) |
//! | [`isindex_arguments`] | the arguments that a search gives to a CGI script (RFC 3875 §4.4) |
//! | [`Environment`] | what a process is born with; in CGI, the request as well |
//! | [`encode_request`] | the record that tells a living process of a request (CGIplus, RTE) |
//! | [`Sentinels`] | the texts that end a response and frame a callout |
//!
//! | | from the script |
//! |---|---|
//! | [`Scanner`] → [`Output`] | takes the mailbox apart: reply, callouts, end |
//! | [`CalloutRequest`], [`Answer`] | what a callout asks; the form of its answer |
//! | [`HeadParser`] → [`Reply`] | the reply's head, and which of the four kinds it is (RFC 3875 §6.2) |
//! | [`RecordAdjustment`] | whether records of text get the newline that they lack |
//!
//! What goes wrong on the script's side comes out as [`OutputFault`] or [`HeadFault`], in words for the script's author.
//! Starting processes, reading mailboxes, acting on callouts and sharing memory are the business of the floors above.
#![forbid(unsafe_code)]

mod adjustment;
mod callout;
mod callout_lines;
mod environment;
mod environment_dump;
mod head_fault;
mod meta_variables;
mod names;
mod output;
mod query;
mod reply;
mod request_record;
mod scanner;
mod script_head;
mod send_file;
mod sentinel;
mod variables;

pub use adjustment::RecordAdjustment;
pub use callout::{Answer, BUFFER_BYTES_DEFAULT, BufferKind, Callout, CalloutRequest, Lifetime, parse_callout};
pub use environment::{CGIPLUSBUF, CGIPLUSIN, Environment};
pub use head_fault::{Excerpt, HeadFault};
pub use meta_variables::CgiRequest;
pub use names::host_name;
pub use output::{CALLOUT_BYTES_MAX, CALLOUT_LINE_BYTES_MAX, EndMark, MailboxKind, Output, OutputFault};
pub use query::isindex_arguments;
pub use reply::{BodyMode, Reply, ReplyHead, ScriptControl};
pub use request_record::{RequestEncoding, RequestRecord, RequestRecordFault, decode_request, encode_request};
pub use scanner::Scanner;
pub use script_head::{HeadLimits, HeadParser};
pub use send_file::{SEND_FILE_FIELDS, X_ACCEL_REDIRECT, X_SENDFILE};
pub use sentinel::{SENTINEL_BYTES, Sentinels};
pub use variables::Variables;
