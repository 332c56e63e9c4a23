//! A request for a report, in the form that pages and actions use.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use sluice_http::request_body::RequestBody;
use tokio::time::{MissedTickBehavior, interval};

use crate::context::{Context, HeldConfig};
use crate::dispatch::Site;
use crate::operator::reports::visitor::Visitor;

/// How often a stream looks whether its configuration was replaced.
const BASIS_CHECKED: Duration = Duration::from_secs(1);

pub(crate) struct Ask {
    /// The path below that of the route; empty for the first page.
    pub name: String,
    pub query: String,
    pub method: Method,
    /// The origin of the reports as the client sees it: `http://localhost:8080`.
    pub origin: String,
    pub fields: HeaderMap,
    pub client: IpAddr,
    pub visitor: Visitor,
    pub extent: Extent,
    pub server: String,
    pub body: RequestBody,
    pub config: Rc<HeldConfig>,
    pub context: Rc<Context>,
}

#[derive(Clone, Debug)]
pub(crate) enum Extent {
    Everything,
    /// Pages that show neither requests nor clients nor logs, and no action. The place of the access rules.
    Totals(Box<str>),
}

/// The configuration that let somebody have a stream. It is not kept: a stream may last longer than a configuration, whose cache is large. One that
/// differs only in its cache, which was emptied, is the same.
pub(crate) struct Basis {
    context: Rc<Context>,
    site: Weak<Site>,
}

impl Basis {
    pub(crate) fn of(ask: &Ask) -> Basis {
        Basis {
            context: Rc::clone(&ask.context),
            site: Arc::downgrade(ask.config.site(0)),
        }
    }

    /// Whether it was replaced: then the visitor must ask again, because another one may say no.
    pub(crate) fn is_replaced(&self) -> bool {
        !self.site.ptr_eq(&Arc::downgrade(self.context.config().site(0)))
    }

    pub(crate) async fn replaced(&self) {
        let mut ticks = interval(BASIS_CHECKED);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.is_replaced() {
            ticks.tick().await;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    Html,
    Json,
}

impl Ask {
    /// Takes the notation: JSON if the name ends with `.json` (which is removed), the query says so, or Accept names JSON and not HTML; else HTML.
    pub(crate) fn take_notation(&mut self) -> Notation {
        if let Some(name) = self.name.strip_suffix(".json") {
            self.name = if name == "overview" {
                String::new()
            } else {
                name.to_owned()
            };
            return Notation::Json;
        }
        let accept = self.fields.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let is_accepted = accept.is_some_and(|accept| {
            let accept = accept.to_ascii_lowercase();
            accept.contains("application/json") && !accept.contains("text/html")
        });
        match self.value("format").as_deref() {
            Some("json") => Notation::Json,
            None if is_accepted => Notation::Json,
            _ => Notation::Html,
        }
    }

    /// A value of the query; empty for a name without one.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        Values::parse(&self.query).take(name)
    }

    pub(crate) fn by(&self) -> String {
        match &self.visitor {
            Visitor::User(_) => format!("{} from {}", self.visitor, self.client),
            Visitor::Client(_) => self.visitor.to_string(),
        }
    }
}

/// Names and values of a query or of the body of a form (`application/x-www-form-urlencoded`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(Vec<(String, String)>);

impl Values {
    /// Reads every pair; one that is not UTF-8 gets replacement characters.
    pub(crate) fn parse(text: &str) -> Values {
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Values(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }

    fn take(mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let values = Values::parse("action=purge&text=a+b%26c&&live&bad=%ff");
        for (name, expected) in [
            ("action", Some("purge")),
            ("text", Some("a b&c")),
            ("live", Some("")),
            ("bad", Some("\u{fffd}")),
            ("none", None),
        ] {
            assert_eq!(values.get(name), expected, "{name}");
        }
    }
}
