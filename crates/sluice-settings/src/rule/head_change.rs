//! The changes of a response head: fields that a route sets, adds or removes, and how long the response may be cached.
//!
//! Changes of header fields apply to every response, error pages too, because a security field is needed most when something fails.
//! Exceptions are the fields that describe the body: they change only if the body is the one that was requested.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// The changes of a response head.
#[derive(Clone, Debug, Default)]
pub struct HeadChanges {
    /// How long clients may cache the response.
    pub expiry: Option<Expiry>,
    /// Changes of header fields: those of each route.
    pub fields: Vec<Arc<[FieldChange]>>,
}

/// How long a response may be cached (RFC 9111 §5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The response may be cached for this time.
    Age(Duration),
    /// The response may be cached for a year, without revalidation on reload (RFC 8246), because the URL changes with the content.
    Immutable,
    /// The response may be cached, but must be revalidated before each use.
    NoCache,
    /// The response must not be cached.
    NoStore,
    /// No field is sent, even if an earlier route sets an expiry.
    Off,
}

/// A change of a header field of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// Replaces all values with this one.
    Set(HeaderName, HeaderValue),
    /// Adds this value.
    Add(HeaderName, HeaderValue),
    /// Removes all values.
    Remove(HeaderName),
}

/// Fields that control the framing of a message or the connection: with other values the client would misread the message.
const FRAMING: [&str; 11] = [
    "connection",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // A body cannot be decoded with a missing or wrong content coding.
    "content-encoding",
];

/// Validators. The server evaluates conditions and ranges with its own; with one that is the same for all versions, clients
/// would combine parts of different versions (RFC 9110 §13.1.5).
const VALIDATORS: [HeaderName; 2] = [header::ETAG, header::LAST_MODIFIED];

impl HeadChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.expiry.is_none() && self.fields.is_empty()
    }

    /// The changes of header fields, in the order in which they are applied.
    pub fn field_changes(&self) -> impl Iterator<Item = &FieldChange> {
        self.fields.iter().flat_map(|changes| changes.iter())
    }

    /// Adds the changes of a later route, whose expiry overrides the earlier one. Fields that were taken before are not taken again.
    pub(super) fn merge(&mut self, later: &HeadChanges) {
        self.expiry = later.expiry.or(self.expiry);
        for fields in &later.fields {
            if !self.fields.iter().any(|taken| Arc::ptr_eq(taken, fields)) {
                self.fields.push(Arc::clone(fields));
            }
        }
    }

    /// Describes the changes for people, one on each line.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.field_changes().map(ToString::to_string).collect();
        lines.extend(self.expiry.map(|expiry| format!("expires {expiry}")));
        lines
    }

    /// Applies the changes to the head of a response.
    ///
    /// The expiry applies to successful responses and 304 without Cache-Control or Expires: those of a script take precedence, unless a route removes them.
    pub fn apply(&self, status: StatusCode, fields: &mut HeaderMap) {
        if self.is_empty() {
            return;
        }
        let mut says_control = fields.contains_key(header::CACHE_CONTROL);
        let mut says_expires = fields.contains_key(header::EXPIRES);
        let is_parts = is_parts(status, fields);
        for change in self.field_changes() {
            let name = change.name();
            if !may_change(name, status, is_parts) {
                continue;
            }
            // An added value does not suppress the expiry.
            let says = match change {
                FieldChange::Set(..) => Some(true),
                FieldChange::Add(..) => None,
                FieldChange::Remove(_) => Some(false),
            };
            if *name == header::CACHE_CONTROL {
                says_control = says.unwrap_or(says_control);
            }
            if *name == header::EXPIRES {
                says_expires = says.unwrap_or(says_expires);
            }
            match change {
                FieldChange::Set(name, value) => drop(fields.insert(name, value.clone())),
                FieldChange::Add(name, value) => drop(fields.append(name, value.clone())),
                FieldChange::Remove(name) => drop(fields.remove(name)),
            }
        }
        let may_expire = status.is_success() || status == StatusCode::NOT_MODIFIED;
        if let Some(value) = self.expiry.and_then(Expiry::value)
            && may_expire
            && !says_control
            && !says_expires
        {
            fields.append(header::CACHE_CONTROL, value);
        }
    }
}

/// Whether the body is a multipart of ranges (RFC 9110 §14.6), whose Content-Type has the boundary.
fn is_parts(status: StatusCode, fields: &HeaderMap) -> bool {
    let kind = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let start = kind.and_then(|kind| kind.get(..b"multipart/".len()));
    status == StatusCode::PARTIAL_CONTENT && start.is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
}

/// Whether routes may change this field; those that describe the body only if it is the one that was requested: a 304 has none, an error page is HTML.
fn may_change(name: &HeaderName, status: StatusCode, is_parts: bool) -> bool {
    match *name {
        header::CONTENT_TYPE => status.is_success() && !is_parts,
        header::CONTENT_DISPOSITION => status.is_success(),
        _ => true,
    }
}

impl Expiry {
    /// The value of Cache-Control. HTTP/1.0's Expires is not sent: a cache that knows Cache-Control ignores it (RFC 9111 §5.3).
    fn value(self) -> Option<HeaderValue> {
        match self {
            Expiry::Age(age) => HeaderValue::try_from(format!("max-age={}", age.as_secs())).ok(),
            Expiry::Immutable => Some(HeaderValue::from_static("max-age=31536000, immutable")),
            Expiry::NoCache => Some(HeaderValue::from_static("no-cache")),
            Expiry::NoStore => Some(HeaderValue::from_static("no-store")),
            Expiry::Off => None,
        }
    }
}

impl FieldChange {
    /// Sets a field.
    ///
    /// # Errors
    /// The name or the value is invalid, or the field belongs to the server. The message says what to write instead.
    pub fn set(name: &str, value: &str) -> Result<FieldChange, String> {
        let field = field_name(name)?;
        if VALIDATORS.contains(&field) {
            return Err(format!(
                "\"{name}\" identifies a version, and would be the same for all: remove it, or leave it as it is"
            ));
        }
        keep_vary(name, &field)?;
        Ok(FieldChange::Set(field, field_value(name, value)?))
    }

    /// Adds a value to those of a field.
    ///
    /// # Errors
    /// As for `set`.
    pub fn add(name: &str, value: &str) -> Result<FieldChange, String> {
        let field = field_name(name)?;
        if VALIDATORS.contains(&field) {
            return Err(format!("\"{name}\" has one value, that of the server or of the script"));
        }
        if [header::CONTENT_TYPE, header::CONTENT_DISPOSITION, header::LOCATION].contains(&field) {
            return Err(format!("\"{name}\" has one value: write it below set"));
        }
        Ok(FieldChange::Add(field, field_value(name, value)?))
    }

    /// Removes a field.
    ///
    /// # Errors
    /// As for `set`.
    pub fn remove(name: &str) -> Result<FieldChange, String> {
        let field = field_name(name)?;
        keep_vary(name, &field)?;
        Ok(FieldChange::Remove(field))
    }

    /// The name of the changed field.
    #[must_use]
    pub fn name(&self) -> &HeaderName {
        match self {
            FieldChange::Set(name, _) | FieldChange::Add(name, _) | FieldChange::Remove(name) => name,
        }
    }
}

/// Refuses to set or remove Vary: caches would send one client's representation, perhaps compressed, to all (RFC 9111 §4.1).
fn keep_vary(name: &str, field: &HeaderName) -> Result<(), String> {
    match *field {
        header::VARY => Err(format!(
            "\"{name}\" lists the fields by which the response varies: add to it, below add"
        )),
        _ => Ok(()),
    }
}

fn field_name(name: &str) -> Result<HeaderName, String> {
    let shown = name.escape_debug();
    match HeaderName::from_bytes(name.as_bytes()) {
        Err(_) => Err(format!("\"{shown}\" is not a field name such as \"X-Frame-Options\"")),
        Ok(field) if FRAMING.contains(&field.as_str()) => Err(format!(
            "\"{shown}\" belongs to the server, because it describes how the message is sent"
        )),
        Ok(field) => Ok(field),
    }
}

fn field_value(name: &str, value: &str) -> Result<HeaderValue, String> {
    let bad = || format!("\"{name}\": its value must be printable ASCII, without a blank at either end");
    if value.trim() != value || !value.is_ascii() {
        return Err(bad());
    }
    HeaderValue::from_str(value).map_err(|_| bad())
}

fn shown(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The value of Cache-Control: `max-age=3600`.
impl fmt::Display for Expiry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => out.write_str(&shown(&value)),
            None => out.write_str("off"),
        }
    }
}

/// For people: `x-a: 1`, `x-a removed`.
impl fmt::Display for FieldChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldChange::Set(name, value) => write!(out, "{name}: {}", shown(value)),
            FieldChange::Add(name, value) => write!(out, "{name}: {} (added to others of this name)", shown(value)),
            FieldChange::Remove(name) => write!(out, "{name} removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::change::Adjustments;

    fn changes(expiry: Option<Expiry>, fields: &[FieldChange]) -> Adjustments {
        Adjustments {
            head: HeadChanges { expiry, fields: vec![fields.into()] },
            ..Adjustments::default()
        }
    }

    fn applied(status: u16, before: &[(&str, &str)], routes: &[Adjustments]) -> Vec<String> {
        let mut fields = HeaderMap::new();
        for (name, value) in before {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            fields.append(name, HeaderValue::from_str(value).unwrap());
        }
        let mut adjustments = Adjustments::default();
        routes.iter().for_each(|route| adjustments.merge(route));
        adjustments
            .head
            .apply(StatusCode::from_u16(status).unwrap(), &mut fields);
        let mut lines: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}: {}", shown(value)))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn later_routes_override_earlier_ones() {
        let set = |value| FieldChange::set("X-A", value).unwrap();
        let add = |value| FieldChange::add("X-A", value).unwrap();
        let remove = FieldChange::remove("X-A").unwrap();
        let one = changes(None, &[set("1")]);
        assert_eq!(applied(200, &[("x-a", "0")], std::slice::from_ref(&one)), ["x-a: 1"]);
        assert_eq!(
            applied(404, &[], &[one.clone(), changes(None, &[add("2")])]),
            ["x-a: 1", "x-a: 2"]
        );
        assert!(applied(200, &[("x-a", "0")], &[one, changes(None, &[remove])]).is_empty());
    }

    #[test]
    fn an_expiry_applies_to_success_and_not_over_the_scripts_own() {
        let hour = changes(Some(Expiry::Age(Duration::from_secs(3600))), &[]);
        let off = changes(Some(Expiry::Off), &[]);
        let kept = ["cache-control: max-age=3600"];
        assert_eq!(applied(200, &[], std::slice::from_ref(&hour)), kept);
        assert_eq!(applied(304, &[], std::slice::from_ref(&hour)), kept);
        for status in [301, 302, 404, 503] {
            assert!(applied(status, &[], std::slice::from_ref(&hour)).is_empty(), "{status}");
        }
        assert!(applied(200, &[], &[hour.clone(), off]).is_empty());
        for (name, value) in [("cache-control", "private"), ("expires", "0")] {
            let own = [(name, value)];
            assert_eq!(
                applied(200, &own, std::slice::from_ref(&hour)),
                [format!("{name}: {value}")]
            );
            // Unless a route removes it.
            let remove = changes(None, &[FieldChange::remove(name).unwrap()]);
            assert_eq!(applied(200, &own, &[remove.clone(), hour.clone()]), kept);
            assert_eq!(applied(200, &own, &[hour.clone(), remove]), kept);
        }
        let set = changes(None, &[FieldChange::set("Cache-Control", "public").unwrap()]);
        assert_eq!(applied(200, &[], &[set, hour.clone()]), ["cache-control: public"]);
        let add = changes(None, &[FieldChange::add("Cache-Control", "public").unwrap()]);
        assert_eq!(
            applied(200, &[], &[add, hour]),
            ["cache-control: max-age=3600", "cache-control: public"]
        );
    }

    #[test]
    fn fields_of_the_body_change_only_for_the_requested_body() {
        let download = changes(
            None,
            &[
                FieldChange::set("Content-Type", "a/b").unwrap(),
                FieldChange::set("Content-Disposition", "attachment").unwrap(),
            ],
        );
        let applied = |status, before: &[(&str, &str)]| applied(status, before, std::slice::from_ref(&download));
        let html = [("content-type", "text/html")];
        let changed = ["content-disposition: attachment", "content-type: a/b"];
        for status in [200, 206] {
            assert_eq!(applied(status, &html), changed, "{status}");
        }
        for status in [301, 404, 416, 500] {
            assert_eq!(applied(status, &html), ["content-type: text/html"], "{status}");
        }
        assert!(applied(304, &[]).is_empty());
        let parts = "Multipart/byteranges; boundary=x";
        assert_eq!(
            applied(206, &[("content-type", parts)]),
            [changed[0].to_owned(), format!("content-type: {parts}")]
        );
        let remove = changes(None, &[FieldChange::remove("Content-Type").unwrap()]);
        assert_eq!(self::applied(404, &html, &[remove]), ["content-type: text/html"]);
    }

    #[test]
    fn fields_of_the_server_are_refused() {
        for (name, value, expected) in [
            ("Content-Length", "1", "belongs to the server"),
            ("Transfer-Encoding", "chunked", "belongs to the server"),
            ("Content-Encoding", "gzip", "belongs to the server"),
            ("keep-alive", "1", "belongs to the server"),
            ("X A", "1", "not a field name"),
            ("X-A", "a\nb", "printable ASCII"),
            ("X-A", " a", "printable ASCII"),
            ("X-A", "é", "printable ASCII"),
        ] {
            let error = FieldChange::set(name, value).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
        assert!(
            FieldChange::add("Content-Type", "a/b")
                .unwrap_err()
                .contains("below set")
        );
        for name in ["Date", "Content-Encoding", "Content-Range", "Vary"] {
            assert!(FieldChange::remove(name).is_err(), "{name}");
        }
        for name in ["ETag", "Last-Modified"] {
            assert!(
                FieldChange::set(name, "x")
                    .unwrap_err()
                    .contains("identifies a version"),
                "{name}"
            );
            assert!(FieldChange::remove(name).is_ok(), "{name}");
        }
        assert!(FieldChange::set("Vary", "x").unwrap_err().contains("below add"));
        assert!(FieldChange::add("Vary", "Cookie").is_ok());
    }
}
