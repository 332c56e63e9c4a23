//! WATCH: live tracing of requests, as WASD has it. What can be watched, who watches, and what a request tells them.
//!
//! Floor 0: nothing here reads or writes a file or a socket. The only clock is the one that dates an event.
//!
//! ```text
//! a connection or an exchange ── note ──▶ Tracer ──▶ Watch (a bounded queue) ──▶ page, terminal, file
//!                                            │  decided by the watch's Filter and Trigger
//!                                            └─ a bounded ring, while that is undecided
//! ```
//!
//! | | |
//! |---|---|
//! | [`Item`], [`Items`] | what can be watched |
//! | [`Event`] | one line, or a chunk of the octets |
//! | [`Spec`], [`Filter`], [`Trigger`] | what a watcher asks for |
//! | [`Hub`], [`WorkerHub`] | the active watches of the server, and a worker's copy of the list |
//! | [`Watch`] | one watcher's queue |
//! | [`Line`], [`Record`], [`Notice`] | an event as a line of text, and as JSON; the lines between events |
//! | [`Tracer`] | how a connection or an exchange records events; nothing while nobody watches |
//! | [`Stage`] | what an exchange does now: shown by reports, and noted by the tracer |
//! | [`Timing`], [`Phase`] | where the time of a request went |
//! | [`mask`], [`Secrets`] | what must not be shown |
//!
//! While nobody watches, an exchange costs one relaxed load, and each place that could note an event one comparison. A watcher that reads slowly
//! delays no request: what its queue cannot hold is lost, and it learns how much. Bytes that are shown or searched pause when the worker has scanned
//! enough of them (`allowance`), so that other requests do not wait.
#![forbid(unsafe_code)]

mod allowance;
mod automaton;
mod candidate;
mod event;
mod filter;
mod hub;
mod item;
mod line;
pub mod mask;
mod named;
mod notation;
mod notice;
mod pattern;
mod record;
mod ring;
mod secrets;
mod spec;
mod stage;
mod timing;
mod tracer;
#[cfg(test)]
mod tracer_tests;
mod watch;

pub use event::{Content, Direction, Event};
pub use filter::{Filter, FilterMatch, TracedAttributes, TracedRequest};
pub use hub::{Hub, Refused, WorkerHub};
pub use item::{Item, Items, UnknownItem};
pub use line::{Line, hex_dump};
pub use notice::{End, Notice};
pub use pattern::Pattern;
pub use record::{PhaseTime, Record};
pub use secrets::{SecretMask, Secrets};
pub use spec::{Spec, Trigger};
pub use stage::Stage;
pub use timing::{Moment, NotATiming, Phase, Timing};
pub use tracer::{Hold, Scanned, Tracer};
pub use watch::{Taken, Watch};
