//! Logs the faults of exchanges, at a level that depends on the culprit.

use std::fmt;

use http::StatusCode;
use sluice_http::fault::{Culprit, Fault};
use sluice_http::request_id::UniqueId;

/// Logs a fault of the exchange `id` in one line. `status` is that of the error page; `None` if the head of the response
/// was already sent.
pub(crate) fn log_fault(fault: &Fault, id: UniqueId, status: Option<StatusCode>, text: fmt::Arguments<'_>) {
    let status = status.map(|status| status.as_u16());
    match fault.culprit() {
        // Frequent, because every mistyped URL causes one; the access log has them too.
        Culprit::Client if fault.is_not_found() => tracing::debug!(status, %id, "{text}"),
        Culprit::Client => tracing::info!(status, %id, "{text}"),
        Culprit::Script => tracing::warn!(status, %id, "{text}"),
        Culprit::Server => tracing::error!(status, %id, "{text}"),
    }
}
