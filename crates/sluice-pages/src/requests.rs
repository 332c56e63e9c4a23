//! The page of the requests in progress.

use std::time::Duration;

use maud::{Markup, html};
use sluice_report::requests::{ActiveRequest, RequestList};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{figure, table, unbroken};
use crate::scripts::end_button;
use crate::view::View;

/// Requests that the page shows; the JSON has all.
const SHOWN_MAX: usize = 200;

impl View for RequestList {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        let columns = [
            "asked for",
            "state",
            "time",
            "client",
            "answered by",
            "in, out",
            "request",
            "",
        ];
        let rows: Vec<_> = self
            .requests
            .iter()
            .take(SHOWN_MAX)
            .map(|request| row(request, buttons))
            .collect();
        html! {
            p {
                (text::number(self.total as u64)) " in progress"
                @if self.total > rows.len() { "; the oldest " (text::number(rows.len() as u64)) " are shown" }
                ". This page is one of them."
            }
            @if self.silent_workers > 0 {
                p { (self.silent_workers) " workers did not answer in time: their requests are missing." }
            }
            (table(&columns, &rows))
        }
    }
}

fn row(request: &ActiveRequest, buttons: &Buttons<'_>) -> Vec<Markup> {
    vec![
        html! { span.long { (request.method) " " (request.host) (request.target) } },
        html! { (request.state.name()) },
        figure(text::time(Duration::from_millis(request.age_ms))),
        html! { (request.client) @if let Some(user) = &request.user { br; "user " (user) } },
        html! {
            (request.handler)
            @if let Some(script) = &request.script { br; span.breaks { (script) } }
            @if let Some(pid) = request.pid { br; "process " (pid) }
        },
        html! { (unbroken(text::bytes(request.received_bytes))) ", " (unbroken(text::bytes(request.sent_bytes))) },
        html! { code { (request.id) } br; (unbroken(format!("{}, worker {}", request.protocol, request.worker))) },
        end_button(buttons, &request.id),
    ]
}
