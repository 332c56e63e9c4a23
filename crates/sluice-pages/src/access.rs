//! The page of access control: wrong passwords, throttles and rates.

use std::time::Duration;

use maud::{Markup, html};

use sluice_report::access::{AccessReport, FailedSender, RateReport, ThrottleReport, Whose};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{fact, facts, figure, section, table};
use crate::view::View;

impl View for AccessReport {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let failures = &self.failures;
        let senders: Vec<_> = failures.senders.iter().map(sender_row).collect();
        let throttles: Vec<_> = self.throttles.iter().map(throttle_row).collect();
        let rates: Vec<_> = self.rates.iter().map(rate_row).collect();
        html! {
            (section("failures", "Wrong passwords", &html! {
                (facts(&[
                    fact("wrong since the start", text::number(failures.wrong)),
                    fact("requests refused (429)", text::number(failures.refused)),
                ]))
                (table(&["user", "address", "realm", "wrong", "refused", "last", "refused until"], &senders))
            }))
            (section("throttles", "Throttles", &table(
                &["route", "limit", "being answered", "waiting", "refused", "waited too long", "whose"], &throttles)))
            (section("rates", "Rates", &table(&["route", "limit", "clients", "refused", "without a request left"], &rates)))
        }
    }
}

fn sender_row(sender: &FailedSender) -> Vec<Markup> {
    vec![
        html! { (sender.user.as_deref().unwrap_or("(a token)")) },
        html! { (sender.client) },
        html! { (sender.realm) },
        figure(text::number(sender.wrong)),
        figure(text::number(sender.refused)),
        html! { (text::moment(sender.last)) },
        html! { (sender.refused_until.map_or_else(|| "–".to_owned(), text::moment)) },
    ]
}

fn throttle_row(throttle: &ThrottleReport) -> Vec<Markup> {
    let whose = |whose: &Whose| match whose {
        Whose::Route => "everybody".to_owned(),
        Whose::Client(address) => address.to_string(),
        Whose::User(name) => format!("user {name}"),
    };
    vec![
        html! { (throttle.route) },
        html! { (throttle.limit) },
        figure(text::number(throttle.running as u64)),
        figure(text::number(throttle.waiting as u64)),
        figure(text::number(throttle.refused)),
        figure(text::number(throttle.timed_out)),
        html! { @for key in &throttle.keys { (whose(&key.of)) ": " (key.running) ", " (key.waiting) " waiting" br; } },
    ]
}

fn rate_row(rate: &RateReport) -> Vec<Markup> {
    let wait = |millis: u64| text::time(Duration::from_millis(millis));
    vec![
        html! { (rate.route) },
        html! { (rate.limit) },
        figure(text::number(rate.clients as u64)),
        figure(text::number(rate.refused)),
        html! { @for limited in &rate.limited { (limited.client) ", for " (wait(limited.wait_millis)) br; } },
    ]
}
