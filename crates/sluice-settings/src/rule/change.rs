//! What a rule changes for whatever answers: fields of the head, its expiry, bounds, whether it is logged.
//!
//! Rules are gone through in their order, and a later one has the last word. What they change in a head is done to every
//! response, pages of errors too: a head that must not be missing is missed most where something went wrong. But for fields
//! that tell what the body is: those are changed only where it is what was asked for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::cache::CacheUse;

/// What a rule changes; what is none stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Whether the exchange is written down in the access log.
    pub is_logged: Option<bool>,
    /// Bounds of the body of a request.
    pub body: BodyBounds,
    /// Whether answers are compressed, where the client takes it; none: files as the site says, the output of scripts not.
    pub compress: Option<bool>,
    /// How files are kept in the cache; none: as the site says.
    pub cache: Option<CacheUse>,
    /// For how long the response may be kept.
    pub expiry: Option<Expiry>,
    /// Fields of the response's head.
    pub fields: Arc<[FieldChange]>,
}

/// Bounds of the body of a request, where they are not the server's (`limits::Limits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyBounds {
    /// Bytes.
    pub bytes_max: Option<u64>,
    /// Longest silence within it.
    pub timeout: Option<Duration>,
    /// Least rate; 0 is any.
    pub bytes_per_second_min: Option<u64>,
}

/// What all rules on the way of a request change together.
#[derive(Clone, Debug, Default)]
pub struct Adjustments {
    pub is_logged: Option<bool>,
    pub body: BodyBounds,
    pub compress: Option<bool>,
    pub cache: Option<CacheUse>,
    pub head: HeadChanges,
}

/// What is done to the head of a response.
#[derive(Clone, Debug, Default)]
pub struct HeadChanges {
    expiry: Option<Expiry>,
    fields: Vec<Arc<[FieldChange]>>,
}

/// For how long a response may be kept (RFC 9111 §5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// So long.
    Age(Duration),
    /// A year, without asking again even when a page is reloaded (RFC 8246): its address changes with its content.
    Immutable,
    /// It may be kept, but is asked about before it is used.
    NoCache,
    /// It is not kept.
    NoStore,
    /// Nothing is said, whatever an earlier rule says.
    Off,
}

/// A change to a field of a response's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// This value, and no other.
    Set(HeaderName, HeaderValue),
    /// This value besides those that are there.
    Add(HeaderName, HeaderValue),
    /// No value.
    Remove(HeaderName),
}

/// Fields that say how a message is framed or a connection goes on: with another value the client would misread what follows.
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
    // What the body is coded with: without it a compressed one is noise, and with another value any is.
    "content-encoding",
];

/// Fields that tell one version of what is there from another, or when it was made. The server answers conditions and ranges by
/// its own; by one that is the same for all versions clients would put together parts of different ones (RFC 9110 §13.1.5).
const VALIDATORS: [HeaderName; 2] = [header::ETAG, header::LAST_MODIFIED];

impl Changes {
    /// It changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Changes {
            is_logged,
            body,
            compress,
            cache,
            expiry,
            fields,
        } = self;
        is_logged.is_none()
            && *body == BodyBounds::default()
            && compress.is_none()
            && cache.is_none()
            && expiry.is_none()
            && fields.is_empty()
    }

    /// One change a line, for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.fields.iter().map(ToString::to_string));
        lines.extend(self.expiry.map(|expiry| format!("expires {expiry}")));
        let BodyBounds {
            bytes_max,
            timeout,
            bytes_per_second_min,
        } = self.body;
        lines.extend(bytes_max.map(|bytes| format!("bodies up to {bytes} bytes")));
        lines.extend(timeout.map(|time| format!("bodies silent for up to {time:?}")));
        lines.extend(bytes_per_second_min.map(|bytes| format!("bodies at {bytes} bytes a second or more")));
        lines.extend(self.cache.map(|cache| {
            let told = match cache {
                CacheUse::On => "cached",
                CacheUse::Off => "not cached",
                CacheUse::Permanent => "cached for good",
            };
            told.to_owned()
        }));
        lines.extend(
            self.compress
                .map(|compress| if compress { "compressed" } else { "not compressed" }.to_owned()),
        );
        lines.extend(
            self.is_logged
                .map(|is_logged| if is_logged { "logged" } else { "not logged" }.to_owned()),
        );
        lines
    }
}

impl Adjustments {
    /// A rule's word is the last.
    pub fn take(&mut self, changes: &Changes) {
        let Changes {
            is_logged,
            body,
            compress,
            cache,
            expiry,
            fields,
        } = changes;
        self.is_logged = is_logged.or(self.is_logged);
        self.body = BodyBounds {
            bytes_max: body.bytes_max.or(self.body.bytes_max),
            timeout: body.timeout.or(self.body.timeout),
            bytes_per_second_min: body.bytes_per_second_min.or(self.body.bytes_per_second_min),
        };
        self.compress = compress.or(self.compress);
        self.cache = cache.or(self.cache);
        self.head.expiry = expiry.or(self.head.expiry);
        if !fields.is_empty() {
            self.head.fields.push(Arc::clone(fields));
        }
    }
}

impl HeadChanges {
    /// Changes the head of a response, whatever made it.
    ///
    /// An expiry is for what was asked for, not for a failure or the way elsewhere; and who made the response may know better: a
    /// script that says how long it may be kept has said it, unless a rule takes that away.
    pub fn apply(&self, status: StatusCode, fields: &mut HeaderMap) {
        let mut says_control = fields.contains_key(header::CACHE_CONTROL);
        let mut says_expires = fields.contains_key(header::EXPIRES);
        let is_parts = is_parts(status, fields);
        for change in self.fields.iter().flat_map(|changes| changes.iter()) {
            let name = change.name();
            if !may_change(name, status, is_parts) {
                continue;
            }
            // What is added says something besides, and leaves room for the expiry.
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
        let is_asked_for = status.is_success() || status == StatusCode::NOT_MODIFIED;
        if let Some(value) = self.expiry.and_then(Expiry::value)
            && is_asked_for
            && !says_control
            && !says_expires
        {
            fields.append(header::CACHE_CONTROL, value);
        }
    }
}

/// Whether the body is several parts of what was asked for (RFC 9110 §14.6); its type then says where each begins.
fn is_parts(status: StatusCode, fields: &HeaderMap) -> bool {
    let kind = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let start = kind.and_then(|kind| kind.get(..b"multipart/".len()));
    status == StatusCode::PARTIAL_CONTENT && start.is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
}

/// Whether a rule has this field to change. What tells of the body is changed where it is what was asked for: a page of errors is
/// HTML whatever files there are beside it, and a 304 has no body to tell of.
fn may_change(name: &HeaderName, status: StatusCode, is_parts: bool) -> bool {
    match *name {
        header::CONTENT_TYPE => status.is_success() && !is_parts,
        header::CONTENT_DISPOSITION => status.is_success(),
        _ => true,
    }
}

impl Expiry {
    /// The value of Cache-Control. HTTP/1.0's Expires is not sent: who understands the one takes no notice of the other
    /// (RFC 9111 §5.3).
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
    /// The name or the value is none, or the field is the server's own; what to write instead.
    pub fn set(name: &str, value: &str) -> Result<FieldChange, String> {
        let field = field_name(name)?;
        if VALIDATORS.contains(&field) {
            return Err(format!(
                "\"{name}\" tells versions apart, and would be the same for all: remove it, or leave it as it is"
            ));
        }
        keep_vary(name, &field)?;
        Ok(FieldChange::Set(field, field_value(name, value)?))
    }

    /// Adds a value to those of a field.
    ///
    /// # Errors
    /// As above.
    pub fn add(name: &str, value: &str) -> Result<FieldChange, String> {
        let field = field_name(name)?;
        if VALIDATORS.contains(&field) {
            return Err(format!(
                "\"{name}\" has one value, which is the server's or the script's"
            ));
        }
        if [header::CONTENT_TYPE, header::CONTENT_DISPOSITION, header::LOCATION].contains(&field) {
            return Err(format!("\"{name}\" has one value: write it below set"));
        }
        Ok(FieldChange::Add(field, field_value(name, value)?))
    }

    /// Removes a field.
    ///
    /// # Errors
    /// As above.
    pub fn remove(name: &str) -> Result<FieldChange, String> {
        let field = field_name(name)?;
        keep_vary(name, &field)?;
        Ok(FieldChange::Remove(field))
    }

    /// The field that it changes.
    #[must_use]
    pub fn name(&self) -> &HeaderName {
        match self {
            FieldChange::Set(name, _) | FieldChange::Add(name, _) | FieldChange::Remove(name) => name,
        }
    }
}

/// Refuses to lose what Vary says: caches would give one client's form, compressed perhaps, to all (RFC 9111 §4.1).
fn keep_vary(name: &str, field: &HeaderName) -> Result<(), String> {
    match *field {
        header::VARY => Err(format!(
            "\"{name}\" says to caches which forms there are: more may be added to it, below add"
        )),
        _ => Ok(()),
    }
}

fn field_name(name: &str) -> Result<HeaderName, String> {
    let shown = name.escape_debug();
    match HeaderName::from_bytes(name.as_bytes()) {
        Err(_) => Err(format!("\"{shown}\" is no name of a field, as \"X-Frame-Options\" is")),
        Ok(field) if FRAMING.contains(&field.as_str()) => Err(format!(
            "\"{shown}\" belongs to the server, which says by it how the message is sent"
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

/// `max-age=3600`
impl fmt::Display for Expiry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => out.write_str(&shown(&value)),
            None => out.write_str("off"),
        }
    }
}

/// `x-a: 1`, `x-a removed`.
impl fmt::Display for FieldChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldChange::Set(name, value) => write!(out, "{name}: {}", shown(value)),
            FieldChange::Add(name, value) => write!(out, "{name}: {} (besides others)", shown(value)),
            FieldChange::Remove(name) => write!(out, "{name} removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(expiry: Option<Expiry>, fields: &[FieldChange]) -> Changes {
        Changes {
            expiry,
            fields: fields.into(),
            ..Changes::default()
        }
    }

    fn applied(status: u16, before: &[(&str, &str)], rules: &[Changes]) -> Vec<String> {
        let mut fields = HeaderMap::new();
        for (name, value) in before {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            fields.append(name, HeaderValue::from_str(value).unwrap());
        }
        let mut adjustments = Adjustments::default();
        rules.iter().for_each(|rule| adjustments.take(rule));
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
    fn later_rules_have_the_last_word() {
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
    fn an_expiry_is_for_what_was_asked_for_and_says_nothing_against_its_maker() {
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
            // Unless that is taken away.
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
    fn what_the_body_is_is_changed_only_where_it_is_what_was_asked_for() {
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
    fn fields_that_are_not_theirs_are_refused() {
        for (name, value, told) in [
            ("Content-Length", "1", "belongs to the server"),
            ("Transfer-Encoding", "chunked", "belongs to the server"),
            ("Content-Encoding", "gzip", "belongs to the server"),
            ("keep-alive", "1", "belongs to the server"),
            ("X A", "1", "no name of a field"),
            ("X-A", "a\nb", "printable ASCII"),
            ("X-A", " a", "printable ASCII"),
            ("X-A", "é", "printable ASCII"),
        ] {
            let error = FieldChange::set(name, value).unwrap_err();
            assert!(error.contains(told), "{name}: {error}");
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
            assert!(FieldChange::set(name, "x").unwrap_err().contains("versions"), "{name}");
            assert!(FieldChange::remove(name).is_ok(), "{name}");
        }
        assert!(FieldChange::set("Vary", "x").unwrap_err().contains("below add"));
        assert!(FieldChange::add("Vary", "Cookie").is_ok());
    }
}
