//! Which requests a watch shows.

use std::io::Write as _;
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
    /// The time, in milliseconds, that the request exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_ms: Option<u64>,
}

/// The known properties of a request. `None`: not known yet or, if the request `is_ended`, absent.
#[derive(Clone, Debug, Default)]
pub struct TracedAttributes {
    /// The client's address, as text.
    pub client: Option<String>,
    /// The hosts of the site, which may be globs (`*.example.org`).
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
    /// Whether these properties are final.
    pub is_ended: bool,
}

impl TracedAttributes {
    /// Compares a condition with a property, if both are there. A property that is not known may become known until the request has ended.
    fn check<C, P: Copy>(
        &self,
        wanted: Option<&C>,
        property: Option<P>,
        matches: impl FnOnce(&C, P) -> bool,
    ) -> FilterMatch {
        match (wanted, property) {
            (None, _) => FilterMatch::Matches,
            (Some(wanted), Some(property)) if matches(wanted, property) => FilterMatch::Matches,
            (Some(_), None) if !self.is_ended => FilterMatch::Undecided,
            (Some(_), _) => FilterMatch::Differs,
        }
    }
}

/// The properties of a request that are known when its head is complete.
#[derive(Clone, Copy, Debug)]
pub struct TracedRequest<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The path, as the client sent it, without its query.
    pub path: &'a str,
    /// The method.
    pub method: &'a str,
    /// The id of the exchange.
    pub id: &'a str,
}

impl TracedRequest<'_> {
    /// The same properties as attributes, to which others can be added.
    #[must_use]
    pub fn to_attributes(&self) -> TracedAttributes {
        TracedAttributes {
            client: Some(self.client.to_canonical().to_string()),
            path: Some(self.path.to_owned()),
            method: Some(self.method.to_owned()),
            id: Some(self.id.to_owned()),
            ..TracedAttributes::default()
        }
    }
}

/// Whether a request matches. Of several conditions the least decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterMatch {
    /// The request does not match, whatever follows.
    Differs,
    /// The answer depends on properties that are not known yet.
    Undecided,
    /// The request matches.
    Matches,
}

impl Filter {
    /// Decides with what is known.
    #[must_use]
    pub fn decide(&self, known: &TracedAttributes) -> FilterMatch {
        let text = |pattern: &Option<Pattern>, fact: &Option<String>| {
            known.check(pattern.as_ref(), fact.as_deref(), Pattern::matches)
        };
        let exactly = |wanted: &Option<String>, fact: &Option<String>| {
            known.check(wanted.as_ref(), fact.as_deref(), |wanted, fact| wanted == fact)
        };
        let is_one_of = |wanted: &Pattern, names: &[String]| names.iter().any(|name| is_site(wanted, name));
        let is_status = |pattern: &Pattern, status: u16| {
            pattern.matches(&status.to_string()) || pattern.matches(&format!("{}xx", status / 100))
        };
        // A request is known to be slow, but never to be fast enough before its end.
        let is_slow = |limit: &u64| known.time > Duration::from_millis(*limit);
        let slow = self.slower_than_ms.as_ref();
        text(&self.client, &known.client)
            .min(known.check(self.site.as_ref(), known.site.as_deref(), is_one_of))
            .min(text(&self.path, &known.path))
            .min(exactly(&self.method, &known.method))
            .min(text(&self.script, &known.script))
            .min(text(&self.user, &known.user))
            .min(exactly(&self.id, &known.id))
            .min(known.check(self.status.as_ref(), known.status, is_status))
            .min(known.check(slow, slow.is_some_and(is_slow).then_some(()), |_, ()| true))
    }

    /// Whether a request can match, by what is known when its head is complete.
    #[must_use]
    pub fn may_match(&self, request: &TracedRequest<'_>) -> bool {
        let may = |pattern: &Option<Pattern>, fact: &str| pattern.as_ref().is_none_or(|pattern| pattern.matches(fact));
        let is = |wanted: &Option<String>, fact: &str| wanted.as_ref().is_none_or(|wanted| wanted == fact);
        let is_client = |pattern: &Pattern| {
            // Without an allocation: the longest address has 45 letters.
            let mut text = [0; 48];
            let mut rest = &mut text[..];
            let _ = write!(rest, "{}", request.client.to_canonical());
            let left = rest.len();
            str::from_utf8(&text[..text.len() - left]).is_ok_and(|text| pattern.matches(text))
        };
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
        let clients_only = Filter { client: self.client.clone(), ..Filter::default() };
        *self == clients_only
    }
}

/// Whether a name is that of the wanted site; either may be a glob.
fn is_site(wanted: &Pattern, name: &str) -> bool {
    let wanted = Pattern::new(wanted.to_string().to_ascii_lowercase());
    let name = name.to_ascii_lowercase();
    wanted.matches(&name) || Pattern::new(name).matches(&wanted.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> TracedAttributes {
        TracedAttributes {
            client: Some("192.0.2.1".into()),
            path: Some("/a/b".into()),
            method: Some("GET".into()),
            ..TracedAttributes::default()
        }
    }

    #[test]
    fn what_is_not_known_is_undecided_until_the_end() {
        let filter = Filter {
            path: Some(Pattern::new("/a/*")),
            status: Some(Pattern::new("5xx")),
            ..Filter::default()
        };
        let mut attributes = attributes();
        assert_eq!(filter.decide(&attributes), FilterMatch::Undecided);
        attributes.status = Some(502);
        assert_eq!(filter.decide(&attributes), FilterMatch::Matches);
        attributes.status = Some(404);
        assert_eq!(filter.decide(&attributes), FilterMatch::Differs);
        attributes.status = None;
        attributes.is_ended = true;
        assert_eq!(filter.decide(&attributes), FilterMatch::Differs);
    }

    #[test]
    fn what_the_head_decides_is_decided_without_an_allocation() {
        let request = |client: &str| TracedRequest {
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
                filter.decide(&request.to_attributes()) != FilterMatch::Differs,
                expected,
                "{filter:?} {client}"
            );
        }
        let other = Filter { method: Some("POST".into()), ..Filter::default() };
        assert!(other.may_match_line("POST", "/") && !other.may_match_line("GET", "/"));
        assert!(!other.may_match(&request("192.0.2.1")));
    }

    #[test]
    fn a_site_is_known_by_each_of_its_names() {
        let attributes = TracedAttributes {
            site: Some(
                ["example.org", "Example.net", "*.example.org", "default"]
                    .map(str::to_owned)
                    .into(),
            ),
            ..attributes()
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
            assert_eq!(filter.decide(&attributes) == FilterMatch::Matches, expected, "{wanted}");
        }
    }

    #[test]
    fn one_condition_that_differs_decides() {
        let filter = Filter {
            method: Some("POST".into()),
            user: Some(Pattern::new("ann")),
            ..Filter::default()
        };
        assert_eq!(filter.decide(&attributes()), FilterMatch::Differs);
        assert_eq!(Filter::default().decide(&attributes()), FilterMatch::Matches);
    }

    #[test]
    fn a_slow_request_matches_as_soon_as_it_is_slow() {
        let filter = Filter { slower_than_ms: Some(10), ..Filter::default() };
        let mut attributes = attributes();
        attributes.time = Duration::from_millis(10);
        assert_eq!(filter.decide(&attributes), FilterMatch::Undecided);
        attributes.time = Duration::from_millis(11);
        assert_eq!(filter.decide(&attributes), FilterMatch::Matches);
        assert!(!filter.is_of_connections());
    }
}
