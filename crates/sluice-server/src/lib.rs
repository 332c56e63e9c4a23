//! The server of Sluice: everything between an accepted socket and a finished response. Floor 2, safe Rust.
//!
//! The folders are the stages of a request, in its order: [`accept`], [`dispatch`], [`handler`], [`script`], [`write`]; a
//! stage uses only those after it. `accept::serve` is the table of contents. Beside the path stand what all stages know:
//! the [`address`]es of settings, the [`connection`], the [`exchange`], its [`target`], a [`fault`], the [`limits`], the
//! [`settings`], a [`record_format`], an [`encoding`], the [`log_format`], a [`template`], a [`rule`], the [`names`] of clients;
//! and what carries them: a [`worker`], the [`server`].
#![forbid(unsafe_code)]

mod accept;
pub mod address;
mod connection;
mod context;
mod dispatch;
pub mod encoding;
mod endpoints;
mod exchange;
mod fault;
mod finish;
mod handler;
mod host;
pub mod limits;
pub mod log_format;
mod names;
mod open_error;
mod phase;
pub mod record_format;
mod request_id;
pub mod rule;
mod script;
pub mod server;
pub mod settings;
mod target;
mod tasks;
mod template;
mod worker;
mod write;

pub use accept::explain::{Answer, Explanation, Question, Round, SiteChoice, Step, StepOutcome};
pub use handler::cache::CacheCounters;
pub use handler::listing::page::listing_template;
pub use open_error::OpenError;
pub use server::{Server, StartError, check, explain};
pub use template::{TEMPLATE_BYTES_MAX, Template, TemplateError};
pub use write::error_page::error_template;
