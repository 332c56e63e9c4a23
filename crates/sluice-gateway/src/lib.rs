//! The protocol between the server and a script (CGI, CGIplus, RTE), as pure values.
//!
//! Floor 0: everything here is a function of its arguments. Nothing reads or writes, asks a clock, draws a random number or knows a process, so each
//! rule can be tested by itself and the same code serves every mode of running a script.
//!
//! In the order of an exchange:
//!
//! | | to the script |
//! |---|---|
//! | [`CgiRequest`] → [`Variables`] | the CGI variables of a request (RFC 3875 §4.1, Apache, WASD) |
//! | [`isindex_arguments`] | the command line of a CGI script for an ISINDEX query (RFC 3875 §4.4) |
//! | [`Variables::cgi_environment`] | the environment of a new process; in CGI it includes the request's variables |
//! | [`encode_request`] | the record that hands a request to a running process (CGIplus, RTE) |
//! | [`Sentinels`] | the texts that end a response and enclose a callout |
//!
//! | | from the script |
//! |---|---|
//! | [`Scanner`] → [`Output`] | splits the mailbox into reply bytes, callouts and the end of the response |
//! | [`CalloutRequest`], [`Answer`] | a parsed callout line, and the answer line |
//! | [`HeadParser`] → [`Reply`] | the reply's head, and which of the four kinds it is (RFC 3875 §6.2) |
//! | [`ChunkDecoder`] | the body of a reply that has framed it itself |
//! | [`RecordLines`], [`RecordAdjustment`] | which records of text get a missing newline |
//! | [`ScriptControl`] | the directives of `Script-Control`, which ask the server for something |
//!
//! Errors that a script makes are [`OutputFault`] and [`HeadFault`]; their messages address the script's author.
#![forbid(unsafe_code)]

mod adjustment;
mod agent;
mod callout;
mod chunked;
mod environment;
mod environment_dump;
mod head_fault;
mod meta_variables;
mod names;
mod output;
mod query;
mod record_lines;
mod reply;
mod request_record;
mod scanner;
mod script_control;
mod script_head;
mod sentinel;
mod special_fields;
mod time_span;
mod variables;

pub use adjustment::RecordAdjustment;
pub use agent::{AgentAnswer, AgentLine};
pub use callout::{Answer, BUFFER_BYTES_DEFAULT, BufferKind, BufferPart, Callout, CalloutRequest, parse_callout};
pub use chunked::{ChunkDecoder, ChunkFault};
pub use environment::{CGIPLUSBUF, CGIPLUSIN, CGIPLUSSOCK};
pub use head_fault::{Excerpt, HeadFault};
pub use meta_variables::CgiRequest;
pub use names::host_name;
pub use output::{CALLOUT_BYTES_MAX, CALLOUT_LINE_BYTES_MAX, EndMark, MailboxKind, Output, OutputFault};
pub use query::isindex_arguments;
pub use record_lines::{MissingNewlines, RecordLines};
pub use reply::{Reply, ReplyHead};
pub use request_record::{RequestEncoding, RequestWish, encode_request};
pub use scanner::Scanner;
pub use script_control::{BodyMode, ErrorRequest, ScriptControl};
pub use script_head::{HeadLimits, HeadParser};
pub use sentinel::{SENTINEL_BYTES, Sentinels};
pub use special_fields::{SEND_FILE_FIELDS, X_ACCEL_REDIRECT, X_SENDFILE};
pub use variables::Variables;
