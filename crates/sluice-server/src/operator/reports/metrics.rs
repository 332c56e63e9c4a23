//! `metrics`: the state of the server for Prometheus and others. Threads read what may take time.

use http::header::ACCEPT;
use sluice_http::fault::Fault;
use sluice_pages::metrics::{self, CONTENT_TYPE, Measured};
use sluice_pages::prometheus;

use crate::operator::reports::ask::Ask;
use crate::operator::reports::page::PageResponse;
use crate::operator::reports::{answer, machine};

pub(super) fn respond(ask: Ask) -> PageResponse {
    Box::pin(async move {
        let state = std::sync::Arc::clone(&ask.context.state);
        let is_older = wants_older_format(&ask);
        let encode = move || {
            let process = machine::process();
            metrics::encode(Measured {
                status: state.status(),
                scripts: state.resources.report(),
                shares: state.statistics.shares(state.resources.script_series()),
                version: env!("CARGO_PKG_VERSION"),
                memory_bytes: process.memory_bytes,
                descriptors: process.descriptors,
                processor_seconds: process.processor_seconds,
            })
        };
        match tokio::task::spawn_blocking(encode).await {
            Ok(Ok(text)) if is_older => {
                let text = prometheus::of_open_metrics(&text);
                Ok(answer::new(prometheus::CONTENT_TYPE, text.into()))
            }
            Ok(Ok(text)) => Ok(answer::new(CONTENT_TYPE, text.into())),
            _ => Err(Fault::unexpected("the metrics are no text")),
        }
    })
}

/// Whether the client names plain text and not OpenMetrics, or the query says `format=prometheus`.
fn wants_older_format(ask: &Ask) -> bool {
    let accept = || ask.fields.get_all(ACCEPT).iter();
    let names = |kind: &str| accept().any(|value| value.to_str().is_ok_and(|value| value.contains(kind)));
    ask.query.split('&').any(|pair| pair == "format=prometheus")
        || names("text/plain") && !names("application/openmetrics-text")
}
