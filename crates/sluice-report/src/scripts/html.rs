//! The page of the script processes.

use std::time::Duration;

use maud::{Markup, html};

use super::{Ended, Phase, Pool, Process, Refused, Request, Scripts, Waiter};
use crate::action::Buttons;
use crate::html::{Fact, fact, facts, section, table};
use crate::text;
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
            @else { (self.summary()) }
            @for (number, pool) in self.pools.iter().enumerate() {
                (section(&format!("pool-{number}"), &pool.script, &html! {
                    (facts(&pool.facts()))
                    @if !pool.processes.is_empty() {
                        (buttons.button_with("retire", "Retire", &[("script", &pool.retired_by())]))
                        (table(&columns, &pool.processes.iter().map(|process| process.row(buttons)).collect::<Vec<_>>()))
                    }
                    @if !pool.waiters.is_empty() { (pool.waiting_table(buttons)) }
                    @if !pool.ended.is_empty() { (pool.ended_table()) }
                }))
            }
        }
    }
}

impl Scripts {
    /// A line for each pool, which leads to its section.
    fn summary(&self) -> Markup {
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
        let rows: Vec<_> = self.pools.iter().enumerate().map(row).collect();
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
}

impl Pool {
    /// The name by which it can be retired.
    fn retired_by(&self) -> String {
        let of_engine = self.processes.iter().find_map(|process| process.script.clone());
        of_engine.unwrap_or_else(|| self.script.clone())
    }

    fn facts(&self) -> Vec<Fact<'_>> {
        let mut rows = vec![fact("mode", &self.mode)];
        if !self.site.is_empty() {
            rows.push(fact("site", &self.site));
        }
        rows.push(fact("route", &self.origin));
        if self.is_replaced {
            rows.push(fact("configuration", "replaced: no further requests"));
        }
        if self.max > 0 {
            rows.push(fact("processes at most", text::number(self.max as u64)));
            rows.push(fact(
                "waiting",
                format!("{} of {}", self.waiting, text::number(self.queue_max as u64)),
            ));
        }
        rows.push(fact("started", text::number(self.started)));
        if self.refused.total() > 0 {
            let Refused {
                queue_full,
                timed_out,
                no_room,
                client_share,
                backed_off,
            } = self.refused;
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

    fn waiting_table(&self, buttons: &Buttons<'_>) -> Markup {
        let row = |waiter: &Waiter| {
            vec![
                html! { code { (waiter.id) } },
                html! { (text::time(Duration::from_millis(waiter.waited_ms))) },
                end_button(buttons, &waiter.id),
            ]
        };
        html! {
            h3 { "Requests that wait" }
            (table(&["request", "for", ""], &self.waiters.iter().map(row).collect::<Vec<_>>()))
        }
    }

    fn ended_table(&self) -> Markup {
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
            (table(&["process", "when", "why", "exit", "requests", "lived"], &self.ended.iter().map(row).collect::<Vec<_>>()))
        }
    }
}

impl Process {
    fn row(&self, buttons: &Buttons<'_>) -> Vec<Markup> {
        let size = |bytes: Option<u64>| html! { (bytes.map_or_else(|| "–".to_owned(), text::bytes)) };
        let usage = self.usage;
        vec![
            html! { (self.pid.map_or_else(|| "–".to_owned(), |pid| pid.to_string())) },
            html! { (self.phase.name()) @if let Some(script) = &self.script { br; (script) } },
            html! { (text::time(Duration::from_millis(self.since_ms))) },
            html! { (text::uptime(self.age_ms / 1000)) },
            html! { (text::number(self.uses)) },
            html! { (usage.map_or_else(|| "–".to_owned(), |usage| text::time(Duration::from_millis(usage.processor_ms)))) },
            size(usage.map(|usage| usage.rss_bytes)),
            size(usage.and_then(|usage| usage.pss_bytes)),
            self.request
                .as_ref()
                .map(|request| request.html(buttons))
                .unwrap_or_default(),
            html! { (self.worker) },
            html! { (self.cause) },
        ]
    }
}

impl Request {
    fn html(&self, buttons: &Buttons<'_>) -> Markup {
        html! {
            code { (self.id) }
            @if let Some(target) = &self.target { br; (self.method) " " (target) }
            @if let Some(client) = &self.client { br; "of " (client) }
            @if let Some(age) = self.age_ms { ", " (text::time(Duration::from_millis(age))) }
            @if self.target.is_some() { (end_button(buttons, &self.id)) }
        }
    }
}

/// The button that ends a request.
pub(crate) fn end_button(buttons: &Buttons<'_>, id: &str) -> Markup {
    buttons.button_with("end", "End", &[("id", id)])
}
