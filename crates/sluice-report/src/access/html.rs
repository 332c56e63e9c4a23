//! The page of access control: wrong passwords, throttles and rates.

use std::time::Duration;

use maud::{Markup, html};

use super::{AccessReport, FailedSender, RateReport, ThrottleReport, Whose};
use crate::action::Buttons;
use crate::html::{fact, facts, section, table};
use crate::text;
use crate::view::View;

impl View for AccessReport {
    fn html(&self, _: &Buttons<'_>) -> Markup {
        let failures = &self.failures;
        let senders: Vec<_> = failures.senders.iter().map(FailedSender::row).collect();
        let throttles: Vec<_> = self.throttles.iter().map(ThrottleReport::row).collect();
        let rates: Vec<_> = self.rates.iter().map(RateReport::row).collect();
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

impl FailedSender {
    fn row(&self) -> Vec<Markup> {
        vec![
            html! { (self.user.as_deref().unwrap_or("(a token)")) },
            html! { (self.client) },
            html! { (self.realm) },
            html! { (text::number(self.wrong)) },
            html! { (text::number(self.refused)) },
            html! { (text::moment(self.last)) },
            html! { (self.refused_until.map_or_else(|| "–".to_owned(), text::moment)) },
        ]
    }
}

impl ThrottleReport {
    fn row(&self) -> Vec<Markup> {
        let whose = |whose: &Whose| match whose {
            Whose::Route => "everybody".to_owned(),
            Whose::Client(address) => address.to_string(),
            Whose::User(name) => format!("user {name}"),
        };
        vec![
            html! { (self.route) },
            html! { (self.limit) },
            html! { (text::number(self.running as u64)) },
            html! { (text::number(self.waiting as u64)) },
            html! { (text::number(self.refused)) },
            html! { (text::number(self.timed_out)) },
            html! { @for key in &self.keys { (whose(&key.of)) ": " (key.running) ", " (key.waiting) " waiting" br; } },
        ]
    }
}

impl RateReport {
    fn row(&self) -> Vec<Markup> {
        let wait = |millis: u64| text::time(Duration::from_millis(millis));
        vec![
            html! { (self.route) },
            html! { (self.limit) },
            html! { (text::number(self.clients as u64)) },
            html! { (text::number(self.refused)) },
            html! { @for limited in &self.limited { (limited.client) ", for " (wait(limited.wait_millis)) br; } },
        ]
    }
}
