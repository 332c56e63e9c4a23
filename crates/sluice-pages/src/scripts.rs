//! The page of the script processes.

use std::time::Duration;

use maud::{Markup, Render, html};

use sluice_report::scripts::{Ended, Phase, Pool, ProcessReport, ProcessRequest, Refused, Scripts, Waiter};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{figure, section, table, trouble, unbroken};
use crate::view::View;

impl View for Scripts {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            p { (text::number(self.running as u64)) " of " (text::number(self.max as u64)) " processes run." }
            @if self.pools.is_empty() { p { "No script has run yet." } }
            @else { (summary(self)) }
            @for (number, pool) in self.pools.iter().enumerate() {
                (section(&format!("pool-{number}"), &pool.script, &html! {
                    (about(pool))
                    @if !pool.processes.is_empty() {
                        (buttons.button_with("retire", "Retire", &[("script", &retired_by(pool))]))
                        (table(
                            ["process", "state", "age", "requests", "processor", "memory", "shared", "request", "why started"],
                            pool.processes.iter().map(|process| process_row(process, buttons))))
                    }
                    @if !pool.waiters.is_empty() { (waiting_table(pool, buttons)) }
                    @if !pool.ended.is_empty() { (ended_table(number, pool)) }
                }))
            }
        }
    }
}

/// A line for each pool, which leads to its section.
fn summary(scripts: &Scripts) -> Markup {
    let row = |(number, pool): (usize, &Pool)| {
        let count = |phase: Phase| pool.processes.iter().filter(|process| process.phase == phase).count();
        let ended = pool.ended.first();
        [
            html! { a href=(format!("#pool-{number}")) { (pool.script) } },
            pool.mode.render(),
            html! { span.breaks { (pool.origin) } },
            figure(count(Phase::Busy)),
            figure(count(Phase::Idle)),
            figure(pool.waiting),
            figure(trouble(pool.refused.total())),
            figure(text::number(pool.started)),
            html! { @match ended { Some(ended) => span.trouble[!is_well(ended)] { (ended.exit) }, None => "–" } },
        ]
    };
    let columns = [
        "script", "mode", "route", "busy", "idle", "waiting", "refused", "started", "last end",
    ];
    table(columns, scripts.pools.iter().enumerate().map(row))
}

/// The name by which it can be retired.
fn retired_by(pool: &Pool) -> String {
    let of_engine = pool.processes.iter().find_map(|process| process.script.clone());
    of_engine.unwrap_or_else(|| pool.script.clone())
}

/// Facts beyond the line of the summary.
fn about(pool: &Pool) -> Markup {
    let mut parts = Vec::new();
    if !pool.site.is_empty() {
        parts.push(format!("site {}", pool.site));
    }
    if pool.max > 0 {
        parts.push(format!("at most {} processes", text::number(pool.max as u64)));
        let (waiting, most) = (text::number(pool.waiting as u64), pool.queue_max as u64);
        parts.push(format!(
            "{waiting} of {} may wait",
            text::counted(most, "request", "requests")
        ));
    }
    html! {
        @if !parts.is_empty() { p.faint { (parts.join(" · ")) } }
        @if pool.is_replaced { p.faint { "The configuration was replaced: no further requests." } }
        @if pool.refused.total() > 0 { p.trouble { (refused(&pool.refused)) } }
    }
}

fn refused(refused: &Refused) -> String {
    let Refused {
        queue_full,
        timed_out,
        no_room,
        client_share,
        backed_off,
    } = refused;
    format!(
        "refused: {queue_full} because the queue was full, {timed_out} after a long wait, {no_room} after a long wait for room, \
         {client_share} because the client had its share, {backed_off} after failures"
    )
}

fn waiting_table(pool: &Pool, buttons: &Buttons<'_>) -> Markup {
    let row = |waiter: &Waiter| {
        [
            html! { code { (waiter.id) } },
            text::time(Duration::from_millis(waiter.waited_ms)).render(),
            end_button(buttons, &waiter.id),
        ]
    };
    html! {
        h3 { "Requests that wait" }
        (table(["request", "for", ""], pool.waiters.iter().map(row)))
    }
}

/// How processes ended; open if one ended with a failure.
fn ended_table(number: usize, pool: &Pool) -> Markup {
    let row = |ended: &Ended| {
        let lived = text::uptime(ended.lived_ms / 1000);
        [
            text::moment(ended.at).render(),
            html! { (ended.pid) br; (text::counted(ended.uses, "request", "requests")) ", lived " (unbroken(lived)) },
            html! { (ended.why) br; span.trouble[!is_well(ended)] { (ended.exit) } },
        ]
    };
    let id = format!("ended-{number}");
    html! {
        details id=(id) open[pool.ended.iter().any(|ended| !is_well(ended))] {
            summary { "How the last " (text::counted(pool.ended.len() as u64, "process", "processes")) " ended" }
            (table(["when", "process", "end"], pool.ended.iter().map(row)))
        }
    }
}

fn process_row(process: &ProcessReport, buttons: &Buttons<'_>) -> [Markup; 9] {
    let known = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let usage = process.usage;
    let processor = usage.map(|usage| text::time(Duration::from_millis(usage.processor_ms)));
    let request = process.request.as_ref().map(|request| request_html(request, buttons));
    [
        html! {
            (known(process.pid.map(|pid| pid.to_string())))
            br; (unbroken(format!("worker {}", process.worker)))
        },
        html! {
            (process.phase.name()) " " (unbroken(text::time(Duration::from_millis(process.since_ms))))
            @if let Some(script) = &process.script { br; span.breaks { (script) } }
        },
        figure(text::uptime(process.age_ms / 1000)),
        figure(text::number(process.uses)),
        figure(known(processor)),
        figure(known(usage.map(|usage| text::bytes(usage.rss_bytes)))),
        figure(known(usage.and_then(|usage| usage.pss_bytes).map(text::bytes))),
        request.unwrap_or_default(),
        process.cause.render(),
    ]
}

fn request_html(request: &ProcessRequest, buttons: &Buttons<'_>) -> Markup {
    html! {
        code { (request.id) }
        @if let Some(target) = &request.target { br; span.breaks { (request.method) " " (target) } }
        @if let Some(client) = &request.client { br; "of " (client) }
        @if let Some(age) = request.age_ms { ", " (text::time(Duration::from_millis(age))) }
        @if request.target.is_some() { (end_button(buttons, &request.id)) }
    }
}

pub(crate) fn end_button(buttons: &Buttons<'_>, id: &str) -> Markup {
    buttons.button_with("end", "End", &[("id", id)])
}

/// Whether a process ended without a failure: by itself, or because the server has asked it to.
fn is_well(ended: &Ended) -> bool {
    ended.exit == "exit code 0" || ended.exit.ends_with("(SIGTERM)")
}
