//! What a response says of a file: its type, and what tells this version of it from others.
//!
//! Not here: the response (`file`).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, header};

/// What a response says of a file: its validators (RFC 9110 §8.8) and its type.
#[derive(Clone)]
pub(crate) struct Representation {
    pub etag: HeaderValue,
    pub last_modified: HeaderValue,
    pub content_type: HeaderValue,
    modified: SystemTime,
}

impl Representation {
    pub(crate) fn of(name: &str, metadata: &Metadata) -> Representation {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        // Strong: size, and age by the nanosecond, change with the content (RFC 9110 §8.8.1).
        let etag = format!(
            "\"{:x}-{:x}{:08x}\"",
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        let value = |text: String| HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Representation {
            content_type: content_type(Path::new(name)),
            etag: value(etag),
            last_modified: value(httpdate::fmt_http_date(modified.max(SystemTime::UNIX_EPOCH))),
            modified,
        }
    }

    /// The client holds this version (RFC 9110 §13.2.2: If-None-Match decides alone where it is present).
    pub(crate) fn is_current(&self, fields: &HeaderMap) -> bool {
        let mut none_match = fields.get_all(header::IF_NONE_MATCH).iter().peekable();
        if none_match.peek().is_some() {
            return none_match
                .filter_map(|value| value.to_str().ok())
                .flat_map(|list| list.split(','))
                .map(|tag| tag.trim().trim_start_matches("W/"))
                .any(|tag| tag == "*" || tag.as_bytes() == self.etag.as_bytes());
        }
        let since = fields
            .get(header::IF_MODIFIED_SINCE)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| httpdate::parse_http_date(text).ok());
        // HTTP dates have whole seconds.
        since.is_some_and(|since| whole_seconds(self.modified) <= whole_seconds(since))
    }
}

fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |age| age.as_secs())
}

fn content_type(name: &Path) -> HeaderValue {
    let guess = mime_guess::from_path(name).first_raw();
    let Some(kind) = guess else {
        return HeaderValue::from_static("application/octet-stream");
    };
    let is_text = kind.starts_with("text/") || kind == "application/javascript" || kind == "application/json";
    if !is_text {
        return HeaderValue::from_static(kind);
    }
    HeaderValue::try_from(format!("{kind}; charset=utf-8")).unwrap_or_else(|_| HeaderValue::from_static("text/plain"))
}
