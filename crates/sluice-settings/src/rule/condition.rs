//! What must hold beside the path: method, host, client, scheme, fields of the head, parameters of the query.
//!
//! All that are there must hold. A rule without any costs one look.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderMap, HeaderName, Method};
use percent_encoding::percent_decode_str;

use super::glob::{AnyOf, Glob};
use super::network::Network;

/// What must hold beside the path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    methods: AnyOf<Method>,
    hosts: AnyOf<Glob>,
    clients: AnyOf<Network>,
    scheme: Option<Scheme>,
    fields: Vec<(HeaderName, Fit)>,
    parameters: Vec<(String, Fit)>,
}

/// What a request came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Clear text.
    Http,
    /// TLS.
    Https,
}

/// What a field or parameter must be.
#[derive(Clone, Debug, PartialEq)]
struct Fit {
    glob: Glob,
    /// It must be there with no such value, or not be there.
    is_negated: bool,
}

/// What conditions know of a request beside its path and query.
#[derive(Clone, Copy)]
pub struct RequestAttributes<'a> {
    pub method: &'a Method,
    /// Without port; empty where none was named.
    pub host: &'a str,
    pub client: IpAddr,
    pub scheme: Scheme,
    pub fields: &'a HeaderMap,
}

/// Why a rule is not for a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Miss<'c> {
    Path,
    /// Nobody asks: what a path means is wanted for itself, and then nothing is known of a request.
    Nobody,
    Method(&'c Conditions),
    Host(&'c Conditions),
    Client(&'c Conditions),
    Scheme(Scheme),
    Field(&'c HeaderName, &'c Conditions),
    Parameter(&'c str, &'c Conditions),
}

impl Conditions {
    /// One of these methods; `!GET` is any other.
    ///
    /// # Errors
    /// As for all of these: which word is wrong, and what to write instead.
    pub fn on_method<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        self.methods = AnyOf::read(words)?;
        Ok(())
    }

    /// One of these hosts, with stars, in letters of any case.
    ///
    /// # Errors
    /// As above.
    pub fn on_host<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let words: Vec<_> = words.into_iter().collect();
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-._*[]:!".contains(letter);
        if let Some(wrong) = words
            .iter()
            .find(|word| word.is_empty() || !word.chars().all(is_letter))
        {
            return Err(format!(
                "\"{wrong}\": a host is a name alone, as in \"www.example.org\" or \"*.example.org\""
            ));
        }
        let has_port = |word: &&&str| !word.contains('[') && word.contains(':');
        if let Some(wrong) = words.iter().find(has_port) {
            let name = wrong.split(':').next().unwrap_or_default();
            return Err(format!("\"{wrong}\": a host is written without port: write \"{name}\""));
        }
        // As a request's is (`accept::serve`).
        if let Some((wrong, name)) = words.iter().find_map(|word| Some((word, word.strip_suffix('.')?))) {
            return Err(format!(
                "\"{wrong}\": a host is compared without the dot at its end: write \"{name}\""
            ));
        }
        for word in &*words {
            let (sign, host) = word.split_at(usize::from(word.starts_with('!')));
            // What has stars is left alone.
            if host.starts_with('[') && !host.contains('*') {
                check_bracketed(sign, host).map_err(|wrong| format!("\"{word}\": {wrong}"))?;
            }
        }
        self.hosts = AnyOf::read(words)?;
        Ok(())
    }

    /// An address in one of these networks.
    ///
    /// # Errors
    /// As above.
    pub fn on_client<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        self.clients = AnyOf::read(words)?;
        Ok(())
    }

    /// Over TLS, or not.
    pub fn on_scheme(&mut self, scheme: Scheme) {
        self.scheme = Some(scheme);
    }

    /// A field of the head whose value fits the text, with stars, in letters of any case; `!` before it: none that does.
    ///
    /// # Errors
    /// The name is none.
    pub fn on_field(&mut self, name: &str, value: &str) -> Result<(), String> {
        let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            format!(
                "\"{}\" is no name of a field, as \"User-Agent\" is",
                name.escape_debug()
            )
        })?;
        if self.fields.iter().any(|(own, _)| *own == field) {
            return Err(format!("\"{field}\" stands there twice, in other letters: remove one"));
        }
        self.fields.push((field, Fit::new(value)));
        Ok(())
    }

    /// A parameter of the query whose decoded value fits the text; as above.
    pub fn on_parameter(&mut self, name: &str, value: &str) {
        self.parameters.push((name.to_owned(), Fit::new(value)));
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty()
            && self.hosts.is_empty()
            && self.clients.is_empty()
            && self.scheme.is_none()
            && self.fields.is_empty()
            && self.parameters.is_empty()
    }

    /// The first condition that does not hold.
    pub fn miss(&self, query: Option<&str>, facts: Option<&RequestAttributes<'_>>) -> Option<Miss<'_>> {
        if self.is_empty() {
            return None;
        }
        let Some(facts) = facts else { return Some(Miss::Nobody) };
        if !self.methods.fits(|method| method == facts.method) {
            return Some(Miss::Method(self));
        }
        if let Some(scheme) = self.scheme.filter(|scheme| *scheme != facts.scheme) {
            return Some(Miss::Scheme(scheme));
        }
        if !self.clients.fits(|network| network.holds(facts.client)) {
            return Some(Miss::Client(self));
        }
        if !self.hosts.fits(|glob| glob.fits(facts.host)) {
            return Some(Miss::Host(self));
        }
        let values = |name: &HeaderName| facts.fields.get_all(name).iter();
        let field = self.fields.iter().find(|(name, fit)| {
            let mut values = values(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
            !fit.holds(|glob| values.any(|value| glob.fits(&value)))
        });
        if let Some((name, _)) = field {
            return Some(Miss::Field(name, self));
        }
        let parameter = self.parameters.iter().find(|(name, fit)| {
            let mut values = values_of(name, query.unwrap_or_default());
            !fit.holds(|glob| values.any(|value| glob.fits(&value)))
        });
        parameter.map(|(name, _)| Miss::Parameter(name, self))
    }
}

impl Fit {
    fn new(text: &str) -> Fit {
        let wanted = text.strip_prefix('!');
        Fit {
            glob: Glob::new(wanted.unwrap_or(text)),
            is_negated: wanted.is_some(),
        }
    }

    fn holds(&self, is_there: impl FnOnce(&Glob) -> bool) -> bool {
        is_there(&self.glob) != self.is_negated
    }
}

/// The values of a parameter of a query, decoded (`application/x-www-form-urlencoded`); `?debug` is a name without a value.
///
/// All are looked at, or a client could hide one behind others; their number is bounded with the size of the head.
fn values_of<'q>(name: &'q str, query: &'q str) -> impl Iterator<Item = String> + 'q {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.filter_map(move |pair| {
        let (own, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(own) == name).then(|| decoded(value))
    })
}

/// What stands in brackets must be an IPv6 address, and in its shortest form, as a request's is compared (`accept::serve`): any
/// other would hold for nobody. The error says what to write; `sign` comes before it.
pub fn check_bracketed(sign: &str, host: &str) -> Result<(), String> {
    let literal = host.strip_prefix('[').unwrap_or(host);
    let (literal, after) = literal.split_once(']').unwrap_or((literal, ""));
    let Ok(address) = literal.parse::<Ipv6Addr>() else {
        return Err("in brackets stands an IPv6 address, as in \"[2001:db8::1]\"".into());
    };
    let name = format!("[{address}]");
    if name.eq_ignore_ascii_case(host) {
        return Ok(());
    }
    let rule = match after.starts_with(':') {
        true => "a host is written without port",
        false => "an address is compared in its shortest form",
    };
    Err(format!("{rule}: write \"{sign}{name}\""))
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        })
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negated { "!" } else { "" };
        write!(out, "\"{sign}{}\"", self.glob)
    }
}

/// `method GET, header user-agent "*bot*"`
impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (name, list) in [
            ("method", self.methods.to_string()),
            ("host", self.hosts.to_string()),
            ("client", self.clients.to_string()),
            (
                "scheme",
                self.scheme.map(|scheme| scheme.to_string()).unwrap_or_default(),
            ),
        ] {
            parts.extend((!list.is_empty()).then(|| format!("{name} {list}")));
        }
        parts.extend(self.fields.iter().map(|(name, fit)| format!("header {name} {fit}")));
        parts.extend(self.parameters.iter().map(|(name, fit)| format!("query {name} {fit}")));
        out.write_str(&parts.join(", "))
    }
}

/// What is asked for and not so: `method is not GET or HEAD`.
impl fmt::Display for Miss<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fit = |of: Option<&(_, Fit)>| of.map(|(_, fit)| fit.to_string()).unwrap_or_default();
        match self {
            Miss::Path => out.write_str("the path does not match"),
            Miss::Nobody => out.write_str("it has conditions, and there is no request"),
            Miss::Method(conditions) => write!(out, "the method is not {}", conditions.methods),
            Miss::Host(conditions) => write!(out, "the host is not {}", conditions.hosts),
            Miss::Client(conditions) => write!(out, "the client is not {}", conditions.clients),
            Miss::Scheme(scheme) => write!(out, "the scheme is not {scheme}"),
            Miss::Field(name, conditions) => {
                let of = conditions.fields.iter().find(|(own, _)| own == *name);
                write!(
                    out,
                    "header {name} is not {}",
                    of.map(|(_, fit)| fit.to_string()).unwrap_or_default()
                )
            }
            Miss::Parameter(name, conditions) => {
                let of = conditions.parameters.iter().find(|(own, _)| own == *name);
                write!(out, "query {name} is not {}", fit(of))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// The condition that a request misses; its query is `a=1&b=x+y&flag`, its only field is User-Agent.
    fn miss(conditions: &Conditions) -> Option<String> {
        let fields = HeaderMap::from_iter([(http::header::USER_AGENT, HeaderValue::from_static("Some-Bot/1"))]);
        let facts = RequestAttributes {
            method: &Method::GET,
            host: "www.Example.org",
            client: "10.1.2.3".parse().unwrap(),
            scheme: Scheme::Http,
            fields: &fields,
        };
        let miss = conditions.miss(Some("a=1&b=x+y&flag"), Some(&facts));
        miss.map(|miss| miss.to_string())
    }

    #[track_caller]
    fn assert_miss(told: Option<&str>, make: impl FnOnce(&mut Conditions) -> Result<(), String>) {
        let mut conditions = Conditions::default();
        make(&mut conditions).unwrap();
        assert_eq!(miss(&conditions).as_deref(), told);
    }

    #[test]
    fn conditions_hold_or_say_what_does_not() {
        assert_miss(None, |_| Ok(()));
        assert_miss(None, |when| when.on_method(["GET", "HEAD"]));
        assert_miss(Some("the method is not other than GET"), |when| {
            when.on_method(["!GET"])
        });
        assert_miss(None, |when| when.on_host(["*.example.org"]));
        assert_miss(Some("the host is not example.org"), |when| {
            when.on_host(["example.org"])
        });
        assert_miss(None, |when| when.on_client(["10.0.0.0/8", "::1"]));
        assert_miss(Some("the client is not other than 10.0.0.0/8"), |when| {
            when.on_client(["!10.0.0.0/8"])
        });
        assert_miss(Some("the scheme is not https"), |when| {
            when.on_scheme(Scheme::Https);
            Ok(())
        });
        assert_miss(None, |when| when.on_field("User-Agent", "*bot*"));
        assert_miss(Some("header user-agent is not \"!*bot*\""), |when| {
            when.on_field("User-Agent", "!*bot*")
        });
        assert_miss(None, |when| when.on_field("Cookie", "!*"));
        assert_miss(Some("header cookie is not \"*\""), |when| when.on_field("Cookie", "*"));
        for (told, name, value) in [
            (None, "b", "x y"),
            (None, "flag", "*"),
            (Some("query a is not \"2\""), "a", "2"),
            (None, "c", "!*"),
        ] {
            assert_miss(told, |when| {
                when.on_parameter(name, value);
                Ok(())
            });
        }
    }

    #[test]
    fn a_parameter_cannot_be_hidden_behind_others() {
        let mut when = Conditions::default();
        when.on_parameter("debug", "*");
        let fields = HeaderMap::new();
        let facts = RequestAttributes {
            method: &Method::GET,
            host: "",
            client: IpAddr::from([127, 0, 0, 1]),
            scheme: Scheme::Http,
            fields: &fields,
        };
        let query = format!("{}debug=1", "a&".repeat(5000));
        assert_eq!(when.miss(Some(&query), Some(&facts)), None);
    }

    #[test]
    fn all_of_them_must_hold() {
        assert_miss(Some("query a is not \"2\""), |when| {
            when.on_parameter("a", "2");
            when.on_method(["GET"])
        });
    }

    #[test]
    fn where_nobody_asks_none_holds() {
        let mut conditions = Conditions::default();
        assert_eq!(conditions.miss(None, None), None);
        conditions.on_method(["GET"]).unwrap();
        assert_eq!(conditions.miss(None, None), Some(Miss::Nobody));
    }

    #[test]
    fn hosts_and_fields_that_there_cannot_be_are_refused() {
        let mut when = Conditions::default();
        assert!(when.on_host(["https://a.org"]).unwrap_err().contains("a name alone"));
        assert!(when.on_host(["a.org:80"]).unwrap_err().ends_with("write \"a.org\""));
        assert!(when.on_host(["!a.org."]).unwrap_err().ends_with("write \"!a.org\""));
        assert!(when.on_host(["[::1]", "![2001:DB8::1]", "[2001:db8:*]"]).is_ok());
        for wrong in ["![::1]:80", "![0:0::1]", "![::1"] {
            assert!(
                when.on_host([wrong]).unwrap_err().ends_with("write \"![::1]\""),
                "{wrong}"
            );
        }
        assert!(when.on_host(["[a.org]"]).unwrap_err().contains("an IPv6 address"));
        assert!(
            when.on_field("User Agent", "*")
                .unwrap_err()
                .contains("no name of a field")
        );
        when.on_field("Cookie", "*").unwrap();
        assert!(when.on_field("cookie", "a").unwrap_err().contains("twice"));
    }
}
