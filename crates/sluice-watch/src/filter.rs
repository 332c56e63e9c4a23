//! Which requests a watch shows.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;

/// Conditions on a request; all that are given must hold. A condition on something that is not yet known is undecided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// The client's address; `*` for any characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Pattern>,
    /// One of the names of the site, or a host that one of them stands for; `*` for any characters. Case does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<Pattern>,
    /// The path of the request as the client sent it, without its query; `*` for any characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Pattern>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The status, or its first digit followed by `xx`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Pattern>,
    /// The script's file; `*` for any characters. A request that runs no script does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<Pattern>,
    /// The user. A request without a user does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Pattern>,
    /// The id of the exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// It took longer than so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_ms: Option<u64>,
}

/// What is known of a request so far. `None` is not known yet; of a request that has ended (`is_ended`), it is known that there is none.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The client's address, as text.
    pub client: Option<String>,
    /// What the site is called: its hosts, which may be globs (`*.example.org`).
    pub site: Option<Vec<String>>,
    /// The path, as the client sent it, without its query.
    pub path: Option<String>,
    /// The method.
    pub method: Option<String>,
    /// The status of the response.
    pub status: Option<u16>,
    /// The script's file.
    pub script: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The id of the exchange.
    pub id: Option<String>,
    /// How long it has taken so far.
    pub time: Duration,
    /// Nothing more will be known.
    pub is_ended: bool,
}

/// What is known of a request when its head is complete.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The path, as the client sent it, without its query.
    pub path: &'a str,
    /// The method.
    pub method: &'a str,
    /// The id of the exchange.
    pub id: &'a str,
}

impl RequestFacts<'_> {
    /// The same, to add to.
    #[must_use]
    pub fn to_facts(&self) -> Facts {
        Facts {
            client: Some(self.client.to_canonical().to_string()),
            path: Some(self.path.to_owned()),
            method: Some(self.method.to_owned()),
            id: Some(self.id.to_owned()),
            ..Facts::default()
        }
    }
}

/// An address as text, without an allocation. The longest is `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255`.
struct AddressText {
    bytes: [u8; 48],
    length: usize,
}

impl AddressText {
    fn new(address: IpAddr) -> AddressText {
        let mut text = AddressText {
            bytes: [0; 48],
            length: 0,
        };
        let _ = write!(text, "{}", address.to_canonical());
        text
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl std::fmt::Write for AddressText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Whether a request matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Matches,
    /// It does not, whatever comes.
    Differs,
    /// That depends on what is not known yet.
    Undecided,
}

impl Verdict {
    fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Differs, _) | (_, Verdict::Differs) => Verdict::Differs,
            (Verdict::Undecided, _) | (_, Verdict::Undecided) => Verdict::Undecided,
            _ => Verdict::Matches,
        }
    }
}

impl Filter {
    /// Decides with what is known.
    #[must_use]
    pub fn decide(&self, facts: &Facts) -> Verdict {
        let text = |pattern: &Option<Pattern>, fact: &Option<String>| match (pattern, fact) {
            (None, _) => Verdict::Matches,
            (Some(pattern), Some(fact)) => verdict(pattern.matches(fact)),
            (Some(_), None) => unknown(facts),
        };
        let exactly = |wanted: &Option<String>, fact: &Option<String>| match (wanted, fact) {
            (None, _) => Verdict::Matches,
            (Some(wanted), Some(fact)) => verdict(wanted == fact),
            (Some(_), None) => unknown(facts),
        };
        text(&self.client, &facts.client)
            .and(self.decide_site(facts))
            .and(text(&self.path, &facts.path))
            .and(exactly(&self.method, &facts.method))
            .and(text(&self.script, &facts.script))
            .and(text(&self.user, &facts.user))
            .and(exactly(&self.id, &facts.id))
            .and(self.decide_status(facts))
            .and(self.decide_time(facts))
    }

    /// Whether a request can match, by what is known when its head is complete.
    #[must_use]
    pub fn may_match(&self, request: &RequestFacts<'_>) -> bool {
        let may = |pattern: &Option<Pattern>, fact: &str| pattern.as_ref().is_none_or(|pattern| pattern.matches(fact));
        let is = |wanted: &Option<String>, fact: &str| wanted.as_ref().is_none_or(|wanted| wanted == fact);
        let is_client = |pattern: &Pattern| pattern.matches(AddressText::new(request.client).as_str());
        may(&self.path, request.path)
            && is(&self.method, request.method)
            && is(&self.id, request.id)
            && self.client.as_ref().is_none_or(is_client)
    }

    /// Whether a request with this method and path can match, whatever else it is.
    #[must_use]
    pub fn may_match_line(&self, method: &str, path: &str) -> bool {
        self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self.path.as_ref().is_none_or(|pattern| pattern.matches(path))
    }

    /// Whether every condition can be decided for a connection, before it has a request.
    #[must_use]
    pub fn is_of_connections(&self) -> bool {
        let clients_only = Filter {
            client: self.client.clone(),
            ..Filter::default()
        };
        *self == clients_only
    }

    fn decide_site(&self, facts: &Facts) -> Verdict {
        match (&self.site, &facts.site) {
            (None, _) => Verdict::Matches,
            (Some(wanted), Some(names)) => verdict(names.iter().any(|name| is_site(wanted, name))),
            (Some(_), None) => unknown(facts),
        }
    }

    fn decide_status(&self, facts: &Facts) -> Verdict {
        match (&self.status, facts.status) {
            (None, _) => Verdict::Matches,
            (Some(pattern), Some(status)) => {
                let class = format!("{}xx", status / 100);
                verdict(pattern.matches(&status.to_string()) || pattern.matches(&class))
            }
            (Some(_), None) => unknown(facts),
        }
    }

    fn decide_time(&self, facts: &Facts) -> Verdict {
        match self.slower_than_ms {
            None => Verdict::Matches,
            Some(limit) if facts.time > Duration::from_millis(limit) => Verdict::Matches,
            Some(_) => unknown(facts),
        }
    }
}

/// Whether a name is that of the wanted site; either may be a glob.
fn is_site(wanted: &Pattern, name: &str) -> bool {
    let wanted = Pattern::new(wanted.to_string().to_ascii_lowercase());
    let name = name.to_ascii_lowercase();
    wanted.matches(&name) || Pattern::new(name).matches(&wanted.to_string())
}

fn verdict(matches: bool) -> Verdict {
    if matches { Verdict::Matches } else { Verdict::Differs }
}

fn unknown(facts: &Facts) -> Verdict {
    match facts.is_ended {
        true => Verdict::Differs,
        false => Verdict::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            client: Some("192.0.2.1".into()),
            path: Some("/a/b".into()),
            method: Some("GET".into()),
            ..Facts::default()
        }
    }

    #[test]
    fn what_is_not_known_is_undecided_until_the_end() {
        let filter = Filter {
            path: Some(Pattern::new("/a/*")),
            status: Some(Pattern::new("5xx")),
            ..Filter::default()
        };
        let mut facts = facts();
        assert_eq!(filter.decide(&facts), Verdict::Undecided);
        facts.status = Some(502);
        assert_eq!(filter.decide(&facts), Verdict::Matches);
        facts.status = Some(404);
        assert_eq!(filter.decide(&facts), Verdict::Differs);
        facts.status = None;
        facts.is_ended = true;
        assert_eq!(filter.decide(&facts), Verdict::Differs);
    }

    #[test]
    fn what_the_head_decides_is_decided_without_an_allocation() {
        let request = |client: &str| RequestFacts {
            client: client.parse().unwrap(),
            path: "/a/b",
            method: "GET",
            id: "x1",
        };
        let of_client = |pattern: &str| Filter {
            client: Some(Pattern::new(pattern)),
            ..Filter::default()
        };
        for (filter, client, expected) in [
            (Filter::default(), "192.0.2.1", true),
            (of_client("192.0.2.*"), "::ffff:192.0.2.1", true),
            (of_client("192.0.2.1"), "192.0.2.10", false),
            (of_client("2001:db8:*"), "2001:db8:1111:2222:3333:4444:5555:6666", true),
        ] {
            let request = request(client);
            assert_eq!(filter.may_match(&request), expected, "{filter:?} {client}");
            assert_eq!(
                filter.decide(&request.to_facts()) != Verdict::Differs,
                expected,
                "{filter:?} {client}"
            );
        }
        let other = Filter {
            method: Some("POST".into()),
            ..Filter::default()
        };
        assert!(other.may_match_line("POST", "/") && !other.may_match_line("GET", "/"));
        assert!(!other.may_match(&request("192.0.2.1")));
    }

    #[test]
    fn a_site_is_known_by_each_of_its_names() {
        let facts = Facts {
            site: Some(
                ["example.org", "Example.net", "*.example.org", "default"]
                    .map(str::to_owned)
                    .into(),
            ),
            ..facts()
        };
        for (wanted, expected) in [
            ("example.org", true),
            ("EXAMPLE.NET", true),
            ("www.example.org", true),
            ("*.example.org", true),
            ("*.org", true),
            ("default", true),
            ("www.example.net", false),
            ("example.com", false),
        ] {
            let filter = Filter {
                site: Some(Pattern::new(wanted)),
                ..Filter::default()
            };
            assert_eq!(filter.decide(&facts), verdict(expected), "{wanted}");
        }
    }

    #[test]
    fn one_condition_that_differs_decides() {
        let filter = Filter {
            method: Some("POST".into()),
            user: Some(Pattern::new("ann")),
            ..Filter::default()
        };
        assert_eq!(filter.decide(&facts()), Verdict::Differs);
        assert_eq!(Filter::default().decide(&facts()), Verdict::Matches);
    }

    #[test]
    fn a_slow_request_matches_as_soon_as_it_is_slow() {
        let filter = Filter {
            slower_than_ms: Some(10),
            ..Filter::default()
        };
        let mut facts = facts();
        facts.time = Duration::from_millis(10);
        assert_eq!(filter.decide(&facts), Verdict::Undecided);
        facts.time = Duration::from_millis(11);
        assert_eq!(filter.decide(&facts), Verdict::Matches);
        assert!(!filter.is_of_connections());
    }
}
