//! The page of the requests in progress.

use std::time::Duration;

use maud::{Markup, Render, html};
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
        let shown = &self.requests[..self.requests.len().min(SHOWN_MAX)];
        html! {
            p {
                (text::number(self.total as u64)) " in progress"
                @if self.total > shown.len() { "; the oldest " (text::number(shown.len() as u64)) " are shown" }
                ". This page is one of them."
            }
            @if self.silent_workers > 0 {
                p { (self.silent_workers) " workers did not answer in time: their requests are missing." }
            }
            (table(
                ["asked for", "state", "time", "client", "answered by", "in, out", "request", ""],
                shown.iter().map(|request| row(request, buttons))))
        }
    }
}

fn row(request: &ActiveRequest, buttons: &Buttons<'_>) -> [Markup; 8] {
    [
        html! { span.long { (request.method) " " (request.host) (request.target) } },
        request.state.name().render(),
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
