//! The level at which a fault of an exchange is logged.

use std::fmt;

use http::StatusCode;
use sluice_http::fault::{Culprit, Fault};
use sluice_http::request_id::UniqueId;

/// Writes one line about a fault of the exchange `id` to the log. `status` is that of the error page; None if the head of
/// the response was sent before.
pub(crate) fn log_fault(fault: &Fault, id: UniqueId, status: Option<StatusCode>, text: fmt::Arguments<'_>) {
    let status = status.map(|status| status.as_u16());
    match fault.culprit() {
        // As many as there are mistyped addresses; the access log has them.
        Culprit::Client if fault.is_not_found() => tracing::debug!(status, %id, "{text}"),
        Culprit::Client => tracing::info!(status, %id, "{text}"),
        Culprit::Script => tracing::warn!(status, %id, "{text}"),
        Culprit::Server => tracing::error!(status, %id, "{text}"),
    }
}
