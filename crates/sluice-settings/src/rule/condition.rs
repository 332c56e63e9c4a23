//! The conditions of a route besides its path: method, host, client, scheme, header fields, parameters of the query.
//!
//! All of them must hold. For a route without conditions this is one check.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderMap, HeaderName, Method};
use percent_encoding::percent_decode_str;

use crate::rule::glob::{AnyOf, Glob};
use crate::rule::network::Network;

/// The conditions of a route besides its path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    methods: AnyOf<Method>,
    hosts: AnyOf<Glob>,
    clients: AnyOf<Network>,
    scheme: Option<Scheme>,
    /// Whether the client must have a verified certificate, or must have none.
    certificate: Option<bool>,
    fields: Vec<(HeaderName, Fit)>,
    parameters: Vec<(String, Fit)>,
}

/// The scheme of a request, from its connection or a trusted proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Clear text.
    Http,
    /// TLS.
    Https,
}

/// The state of the client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Unknown: the connection is in clear text, or its handshake did not ask for the certificate that the site wants.
    #[default]
    NotAsked,
    /// The address requires a certificate of other authorities than those that have signed the client's.
    Refused,
    /// The handshake asked, and the client has sent none.
    Absent,
    /// The authorities of the site, or of the address, have signed it.
    Verified,
}

/// The condition on the values of a field or parameter.
#[derive(Clone, Debug, PartialEq)]
struct Fit {
    glob: Glob,
    /// No value may fit.
    is_negated: bool,
}

/// The attributes of a request that conditions test, besides its path and query.
#[derive(Clone, Copy)]
pub struct RequestAttributes<'a> {
    /// The method.
    pub method: &'a Method,
    /// The host without port; empty if the request names none.
    pub host: &'a str,
    /// The client's address, which a trusted proxy may have named; if nobody has named the client, that of the proxy, or 127.0.0.1.
    pub client: IpAddr,
    /// The same for access rules. `None` if nobody has named the client.
    pub known_client: Option<IpAddr>,
    /// The scheme.
    pub scheme: Scheme,
    /// The certificate of the client.
    pub certificate: ClientCertificate,
    /// The header fields.
    pub fields: &'a HeaderMap,
}

/// Why a route is not for a request: the first condition that does not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Miss<'c> {
    /// The path does not match.
    Path,
    /// There is no request (MAP-PATH), so conditions cannot hold.
    NoRequest,
    /// The method is not one of these.
    Method(&'c Conditions),
    /// The host is not one of these.
    Host(&'c Conditions),
    /// The client's address is not in one of these networks.
    Client(&'c Conditions),
    /// The scheme is not this one.
    Scheme(Scheme),
    /// The client has no verified certificate.
    NoCertificate,
    /// The client has a verified certificate.
    Certificate,
    /// No value of this header field fits, or one that must not.
    Field(&'c HeaderName, &'c Conditions),
    /// No value of this parameter of the query fits, or one that must not.
    Parameter(&'c str, &'c Conditions),
}

impl Conditions {
    /// Requires one of these methods; `!GET` is any other.
    ///
    /// # Errors
    /// A word is not a method. The message names the word and says what to write instead.
    pub fn on_method(&mut self, words: impl IntoIterator<Item: AsRef<str>>) -> Result<(), String> {
        self.methods = AnyOf::read(words)?;
        Ok(())
    }

    /// Requires one of these hosts, with stars, in any case; `!` excludes one.
    ///
    /// # Errors
    /// A word is not a host. The message names the word and says what to write instead.
    pub fn on_host(&mut self, words: impl IntoIterator<Item: AsRef<str>>) -> Result<(), String> {
        let words: Vec<_> = words.into_iter().collect();
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
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
        // As the host of a request is (`sluice_http::host`).
        if let Some((wrong, name)) = words.iter().find_map(|word| Some((word, word.strip_suffix('.')?))) {
            return Err(format!(
                "\"{wrong}\": a host is compared without the dot at its end: write \"{name}\""
            ));
        }
        for word in &*words {
            let (sign, host) = word.split_at(usize::from(word.starts_with('!')));
            // Patterns with stars are not checked.
            if host.starts_with('[') && !host.contains('*') {
                check_bracketed(sign, host).map_err(|wrong| format!("\"{word}\": {wrong}"))?;
            }
        }
        self.hosts = AnyOf::read(words)?;
        Ok(())
    }

    /// Requires a client in one of these networks; `!` excludes one.
    ///
    /// # Errors
    /// A word is not a network. The message names the word and says what to write instead.
    pub fn on_client(&mut self, words: impl IntoIterator<Item: AsRef<str>>) -> Result<(), String> {
        self.clients = AnyOf::read(words)?;
        Ok(())
    }

    /// Requires this scheme.
    pub fn on_scheme(&mut self, scheme: Scheme) {
        self.scheme = Some(scheme);
    }

    /// Requires a verified certificate of the client.
    pub fn on_certificate(&mut self) {
        self.certificate = Some(true);
    }

    /// Requires that the client has no verified certificate.
    pub fn on_no_certificate(&mut self) {
        self.certificate = Some(false);
    }

    /// Whether the client's certificate is one of the conditions.
    #[must_use]
    pub fn depends_on_certificate(&self) -> bool {
        self.certificate.is_some()
    }

    /// Whether the client's address is one of the conditions.
    #[must_use]
    pub fn depends_on_client(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Requires a value of a header field that fits the text, with stars, in any case; with `!` before the text, that none fits.
    ///
    /// # Errors
    /// The name is invalid or repeated.
    pub fn on_field(&mut self, name: &str, value: &str) -> Result<(), String> {
        let field = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("\"{}\" is not a field name such as \"User-Agent\"", name.escape_debug()))?;
        if self.fields.iter().any(|(own, _)| *own == field) {
            return Err(format!("\"{field}\" stands there twice, in other letters: remove one"));
        }
        self.fields.push((field, Fit::new(value)));
        Ok(())
    }

    /// Requires a decoded value of a parameter of the query that fits the text, as `on_field` does.
    pub fn on_parameter(&mut self, name: &str, value: &str) {
        self.parameters.push((name.to_owned(), Fit::new(value)));
    }

    /// Whether there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty()
            && self.hosts.is_empty()
            && self.clients.is_empty()
            && self.scheme.is_none()
            && self.certificate.is_none()
            && self.fields.is_empty()
            && self.parameters.is_empty()
    }

    /// The first condition that does not hold; `attributes` is `None` if there is no request.
    pub fn miss(&self, query: Option<&str>, attributes: Option<&RequestAttributes<'_>>) -> Option<Miss<'_>> {
        if self.is_empty() {
            return None;
        }
        let Some(attributes) = attributes else {
            return Some(Miss::NoRequest);
        };
        if !self.methods.fits(|method| method == attributes.method) {
            return Some(Miss::Method(self));
        }
        if let Some(scheme) = self.scheme.filter(|scheme| *scheme != attributes.scheme) {
            return Some(Miss::Scheme(scheme));
        }
        let has_certificate = attributes.certificate == ClientCertificate::Verified;
        match self.certificate {
            Some(true) if !has_certificate => return Some(Miss::NoCertificate),
            Some(false) if has_certificate => return Some(Miss::Certificate),
            _ => {}
        }
        if !self.clients.fits(|network| network.holds(attributes.client)) {
            return Some(Miss::Client(self));
        }
        if !self.hosts.fits(|glob| glob.fits(attributes.host)) {
            return Some(Miss::Host(self));
        }
        let values = |name: &HeaderName| attributes.fields.get_all(name).iter();
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
/// All values are checked, because a client could hide one behind others; the limit of the head bounds their number.
fn values_of<'q>(name: &'q str, query: &'q str) -> impl Iterator<Item = String> + 'q {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.filter_map(move |pair| {
        let (own, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(own) == name).then(|| decoded(value))
    })
}

/// Checks that brackets enclose an IPv6 address in its shortest form, in which the host of a request is compared (`sluice_http::host`).
///
/// # Errors
/// What to write instead, with `sign` before it.
pub fn check_bracketed(sign: &str, host: &str) -> Result<(), String> {
    let literal = host.strip_prefix('[').unwrap_or(host);
    let (literal, after) = literal.split_once(']').unwrap_or((literal, ""));
    let Ok(address) = literal.parse::<Ipv6Addr>() else {
        return Err("brackets enclose an IPv6 address, as in \"[2001:db8::1]\"".into());
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

/// For people: `method GET, header user-agent "*bot*"`.
impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown(ToString::to_string))
    }
}

impl Conditions {
    /// The text of `to_string` without the values of header fields and parameters, which may be secrets.
    #[must_use]
    pub fn without_secrets(&self) -> String {
        self.shown(|_| "…".to_owned())
    }

    fn shown(&self, value: impl Fn(&Fit) -> String) -> String {
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
        parts.extend(self.certificate.map(|has_one| match has_one {
            true => "client certificate verified".to_owned(),
            false => "client certificate absent".to_owned(),
        }));
        parts.extend(
            self.fields
                .iter()
                .map(|(name, fit)| format!("header {name} {}", value(fit))),
        );
        parts.extend(
            self.parameters
                .iter()
                .map(|(name, fit)| format!("query {name} {}", value(fit))),
        );
        parts.join(", ")
    }
}

/// For people: `the method is not GET or HEAD`.
impl fmt::Display for Miss<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fit = |of: Option<&(_, Fit)>| of.map(|(_, fit)| fit.to_string()).unwrap_or_default();
        match self {
            Miss::Path => out.write_str("the path does not match"),
            Miss::NoRequest => out.write_str("it has conditions, and there is no request"),
            Miss::Method(conditions) => write!(out, "the method is not {}", conditions.methods),
            Miss::Host(conditions) => write!(out, "the host is not {}", conditions.hosts),
            Miss::Client(conditions) => write!(out, "the client is not {}", conditions.clients),
            Miss::Scheme(scheme) => write!(out, "the scheme is not {scheme}"),
            Miss::NoCertificate => out.write_str("the client has no verified certificate"),
            Miss::Certificate => out.write_str("the client has a verified certificate"),
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
        let attributes = RequestAttributes {
            method: &Method::GET,
            host: "www.Example.org",
            client: "10.1.2.3".parse().unwrap(),
            known_client: None,
            scheme: Scheme::Http,
            certificate: ClientCertificate::NotAsked,
            fields: &fields,
        };
        let miss = conditions.miss(Some("a=1&b=x+y&flag"), Some(&attributes));
        miss.map(|miss| miss.to_string())
    }

    #[track_caller]
    fn assert_miss(expected: Option<&str>, make: impl FnOnce(&mut Conditions) -> Result<(), String>) {
        let mut conditions = Conditions::default();
        make(&mut conditions).unwrap();
        assert_eq!(miss(&conditions).as_deref(), expected);
    }

    #[test]
    fn the_first_condition_that_fails_is_named() {
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
        for (expected, name, value) in [
            (None, "b", "x y"),
            (None, "flag", "*"),
            (Some("query a is not \"2\""), "a", "2"),
            (None, "c", "!*"),
        ] {
            assert_miss(expected, |when| {
                when.on_parameter(name, value);
                Ok(())
            });
        }
    }

    #[test]
    fn only_a_verified_certificate_is_one() {
        let (mut with, mut without) = (Conditions::default(), Conditions::default());
        with.on_certificate();
        without.on_no_certificate();
        let fields = HeaderMap::new();
        for (certificate, is_verified) in [
            (ClientCertificate::NotAsked, false),
            (ClientCertificate::Refused, false),
            (ClientCertificate::Absent, false),
            (ClientCertificate::Verified, true),
        ] {
            let attributes = RequestAttributes {
                method: &Method::GET,
                host: "",
                client: IpAddr::from([127, 0, 0, 1]),
                known_client: None,
                scheme: Scheme::Https,
                certificate,
                fields: &fields,
            };
            assert_eq!(with.miss(None, Some(&attributes)).is_none(), is_verified);
            assert_eq!(without.miss(None, Some(&attributes)).is_none(), !is_verified);
        }
    }

    #[test]
    fn a_parameter_cannot_be_hidden_behind_others() {
        let mut when = Conditions::default();
        when.on_parameter("debug", "*");
        let fields = HeaderMap::new();
        let attributes = RequestAttributes {
            method: &Method::GET,
            host: "",
            client: IpAddr::from([127, 0, 0, 1]),
            known_client: None,
            scheme: Scheme::Http,
            certificate: ClientCertificate::NotAsked,
            fields: &fields,
        };
        let query = format!("{}debug=1", "a&".repeat(5000));
        assert_eq!(when.miss(Some(&query), Some(&attributes)), None);
    }

    #[test]
    fn all_of_them_must_hold() {
        assert_miss(Some("query a is not \"2\""), |when| {
            when.on_parameter("a", "2");
            when.on_method(["GET"])
        });
    }

    #[test]
    fn without_a_request_no_condition_holds() {
        let mut conditions = Conditions::default();
        assert_eq!(conditions.miss(None, None), None);
        conditions.on_method(["GET"]).unwrap();
        assert_eq!(conditions.miss(None, None), Some(Miss::NoRequest));
    }

    #[test]
    fn invalid_hosts_and_fields_are_refused() {
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
                .contains("not a field name")
        );
        when.on_field("Cookie", "*").unwrap();
        assert!(when.on_field("cookie", "a").unwrap_err().contains("twice"));
    }
}
