//! The page of the script processes.

use std::time::Duration;

use maud::{Markup, html};

use sluice_report::scripts::{Ended, Phase, Pool, ProcessReport, ProcessRequest, Refused, Scripts, Waiter};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{Fact, fact, facts, section, table};
use crate::view::View;

impl View for Scripts {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        let columns = [
            "process",
            "state",
            "since",
            "age",
            "requests",
            "processor",
            "memory",
            "shared",
            "request",
            "worker",
            "why started",
        ];
        html! {
            p { (text::number(self.running as u64)) " of " (text::number(self.max as u64)) " processes run." }
            @if self.pools.is_empty() { p { "No script has run yet." } }
            @else { (summary(self)) }
            @for (number, pool) in self.pools.iter().enumerate() {
                (section(&format!("pool-{number}"), &pool.script, &html! {
                    (facts(&pool_facts(pool)))
                    @if !pool.processes.is_empty() {
                        (buttons.button_with("retire", "Retire", &[("script", &retired_by(pool))]))
                        (table(&columns, &pool.processes.iter().map(|process| process_row(process, buttons)).collect::<Vec<_>>()))
                    }
                    @if !pool.waiters.is_empty() { (waiting_table(pool, buttons)) }
                    @if !pool.ended.is_empty() { (ended_table(pool)) }
                }))
            }
        }
    }
}

/// A line for each pool, which leads to its section.
fn summary(scripts: &Scripts) -> Markup {
    let row = |(number, pool): (usize, &Pool)| {
        let count = |phase: Phase| pool.processes.iter().filter(|process| process.phase == phase).count();
        let ended = pool.ended.first().map(|ended| ended.exit.as_str());
        vec![
            html! { a href=(format!("#pool-{number}")) { (pool.script) } },
            html! { (pool.mode) },
            html! { (pool.origin) },
            html! { (count(Phase::Busy)) },
            html! { (count(Phase::Idle)) },
            html! { (pool.waiting) },
            html! { (text::number(pool.refused.total())) },
            html! { (text::number(pool.started)) },
            html! { (ended.unwrap_or("–")) },
        ]
    };
    let rows: Vec<_> = scripts.pools.iter().enumerate().map(row).collect();
    let columns = [
        "script",
        "mode",
        "route",
        "busy",
        "idle",
        "waiting",
        "refused",
        "started",
        "the last one ended with",
    ];
    table(&columns, &rows)
}

/// The name by which it can be retired.
fn retired_by(pool: &Pool) -> String {
    let of_engine = pool.processes.iter().find_map(|process| process.script.clone());
    of_engine.unwrap_or_else(|| pool.script.clone())
}

fn pool_facts(pool: &Pool) -> Vec<Fact<'_>> {
    let mut rows = vec![fact("mode", &pool.mode)];
    if !pool.site.is_empty() {
        rows.push(fact("site", &pool.site));
    }
    rows.push(fact("route", &pool.origin));
    if pool.is_replaced {
        rows.push(fact("configuration", "replaced: no further requests"));
    }
    if pool.max > 0 {
        rows.push(fact("processes at most", text::number(pool.max as u64)));
        rows.push(fact(
            "waiting",
            format!("{} of {}", pool.waiting, text::number(pool.queue_max as u64)),
        ));
    }
    rows.push(fact("started", text::number(pool.started)));
    if pool.refused.total() > 0 {
        let Refused {
            queue_full,
            timed_out,
            no_room,
            client_share,
            backed_off,
        } = pool.refused;
        rows.push(fact(
            "refused",
            format!(
                "{queue_full} because the queue was full, {timed_out} after a long wait, {no_room} after a long wait for room, \
                 {client_share} because the client had its share, {backed_off} after failures"
            ),
        ));
    }
    rows
}

fn waiting_table(pool: &Pool, buttons: &Buttons<'_>) -> Markup {
    let row = |waiter: &Waiter| {
        vec![
            html! { code { (waiter.id) } },
            html! { (text::time(Duration::from_millis(waiter.waited_ms))) },
            end_button(buttons, &waiter.id),
        ]
    };
    html! {
        h3 { "Requests that wait" }
        (table(&["request", "for", ""], &pool.waiters.iter().map(row).collect::<Vec<_>>()))
    }
}

fn ended_table(pool: &Pool) -> Markup {
    let row = |ended: &Ended| {
        vec![
            html! { (ended.pid) },
            html! { (text::moment(ended.at)) },
            html! { (ended.why) },
            html! { (ended.exit) },
            html! { (text::number(ended.uses)) },
            html! { (text::uptime(ended.lived_ms / 1000)) },
        ]
    };
    html! {
        h3 { "How the last processes ended" }
        (table(&["process", "when", "why", "exit", "requests", "lived"], &pool.ended.iter().map(row).collect::<Vec<_>>()))
    }
}

fn process_row(process: &ProcessReport, buttons: &Buttons<'_>) -> Vec<Markup> {
    let size = |bytes: Option<u64>| html! { (bytes.map_or_else(|| "–".to_owned(), text::bytes)) };
    let usage = process.usage;
    vec![
        html! { (process.pid.map_or_else(|| "–".to_owned(), |pid| pid.to_string())) },
        html! { (process.phase.name()) @if let Some(script) = &process.script { br; (script) } },
        html! { (text::time(Duration::from_millis(process.since_ms))) },
        html! { (text::uptime(process.age_ms / 1000)) },
        html! { (text::number(process.uses)) },
        html! { (usage.map_or_else(|| "–".to_owned(), |usage| text::time(Duration::from_millis(usage.processor_ms)))) },
        size(usage.map(|usage| usage.rss_bytes)),
        size(usage.and_then(|usage| usage.pss_bytes)),
        process
            .request
            .as_ref()
            .map(|request| request_html(request, buttons))
            .unwrap_or_default(),
        html! { (process.worker) },
        html! { (process.cause) },
    ]
}

fn request_html(request: &ProcessRequest, buttons: &Buttons<'_>) -> Markup {
    html! {
        code { (request.id) }
        @if let Some(target) = &request.target { br; (request.method) " " (target) }
        @if let Some(client) = &request.client { br; "of " (client) }
        @if let Some(age) = request.age_ms { ", " (text::time(Duration::from_millis(age))) }
        @if request.target.is_some() { (end_button(buttons, &request.id)) }
    }
}

/// The button that ends a request.
pub(crate) fn end_button(buttons: &Buttons<'_>, id: &str) -> Markup {
    buttons.button_with("end", "End", &[("id", id)])
}
