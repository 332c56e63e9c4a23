//! Reports about a running server: their values, and how these are shown as HTML, as JSON and as OpenMetrics text. Floor 2, safe Rust.
//!
//! ```text
//! value (serde) ─┬─ View::html ─▶ Frame ─▶ page        NAME
//!                ├─ serde_json ─────────▶ JSON         NAME.json
//!                └─ metrics::encode ────▶ OpenMetrics  metrics
//! ```
//! The HTML of a report is made of the same value as its JSON, so that neither knows more than the other. Here: no I/O and no clock.
//! Not here: where the values come from (`sluice_server`).
#![forbid(unsafe_code)]

pub mod access;
pub mod action;
pub mod activity;
pub mod cache;
pub mod chart;
pub mod command;
pub mod configuration;
pub mod connections;
pub mod environment;
pub mod frame;
pub mod histogram;
pub mod html;
pub mod logs;
pub mod metrics;
pub mod overview;
pub mod requests;
pub mod scripts;
pub mod statistics;
pub mod status;
pub mod text;
pub mod traffic;
pub mod view;
pub mod watch;
