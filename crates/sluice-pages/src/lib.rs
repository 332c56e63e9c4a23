//! How reports about a running server are shown: as HTML, as charts, and as OpenMetrics text. Floor 4, safe Rust.
//!
//! ```text
//! value (sluice_report) ─┬─ View::html ─▶ Frame ─▶ page        NAME
//!                        ├─ serde_json ─────────▶ JSON         NAME.json
//!                        └─ metrics::encode ────▶ OpenMetrics  metrics (prometheus: the older format)
//! ```
//! The HTML of a report is made of the same value as its JSON, so that neither knows more than the other. There is no I/O and no clock here.
#![forbid(unsafe_code)]

mod access;
pub mod action;
mod activity;
mod cache;
mod chart;
mod columns;
mod configuration;
mod connections;
pub mod frame;
mod html;
mod logs;
mod machine;
pub mod metrics;
mod metrics_of_scripts;
mod overview;
pub mod prometheus;
mod requests;
mod scripts;
mod statistics;
pub mod view;
pub mod watch;
mod watch_form;
