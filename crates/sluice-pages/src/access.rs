//! The page of access control: wrong passwords, throttles and rates.

use std::time::Duration;

use maud::{Markup, Render, html};

use sluice_report::access::{AccessReport, FailedSender, RateReport, ThrottleReport, Whose};
use sluice_report::text;

use crate::action::Buttons;
use crate::html::{fact, facts, figure, section, table};
use crate::view::View;

impl View for AccessReport {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let failures = &self.failures;
        html! {
            (section("failures", "Wrong passwords", &html! {
                (facts([
                    fact("wrong since the start", text::number(failures.wrong)),
                    fact("requests refused (429)", text::number(failures.refused)),
                ]))
                (table(["user", "address", "realm", "wrong", "refused", "last", "refused until"], failures.senders.iter().map(sender_row)))
            }))
            (section("throttles", "Throttles", &table(
                ["route", "limit", "being answered", "waiting", "refused", "waited too long", "whose"], self.throttles.iter().map(throttle_row))))
            (section("rates", "Rates", &table(
                ["route", "limit", "clients", "refused", "without a request left"], self.rates.iter().map(rate_row))))
        }
    }
}

fn sender_row(sender: &FailedSender) -> [Markup; 7] {
    [
        sender.user.as_deref().unwrap_or("(a token)").render(),
        html! { (sender.client) },
        sender.realm.render(),
        figure(text::number(sender.wrong)),
        figure(text::number(sender.refused)),
        text::moment(sender.last).render(),
        sender.refused_until.map_or("–".to_owned(), text::moment).render(),
    ]
}

fn throttle_row(throttle: &ThrottleReport) -> [Markup; 7] {
    let whose = |whose: &Whose| match whose {
        Whose::Route => "everybody".to_owned(),
        Whose::Client(address) => address.to_string(),
        Whose::User(name) => format!("user {name}"),
    };
    [
        throttle.route.render(),
        throttle.limit.render(),
        figure(text::number(throttle.running as u64)),
        figure(text::number(throttle.waiting as u64)),
        figure(text::number(throttle.refused)),
        figure(text::number(throttle.timed_out)),
        html! { @for key in &throttle.keys { (whose(&key.of)) ": " (key.running) ", " (key.waiting) " waiting" br; } },
    ]
}

fn rate_row(rate: &RateReport) -> [Markup; 5] {
    let wait = |millis: u64| text::time(Duration::from_millis(millis));
    [
        rate.route.render(),
        rate.limit.render(),
        figure(text::number(rate.clients as u64)),
        figure(text::number(rate.refused)),
        html! { @for limited in &rate.limited { (limited.client) ", for " (wait(limited.wait_millis)) br; } },
    ]
}
