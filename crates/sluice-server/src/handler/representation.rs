//! What a response says of a file: its type, and what tells this version of it from others.
//!
//! Not here: what a request's conditions make of that (`conditions`), and the response (`file`).

use std::fmt::Display;
use std::fs::Metadata;
use std::path::Path;
use std::time::SystemTime;

use http::HeaderValue;

use crate::handler::conditions::Validators;

/// What a response says of a file (RFC 9110 §8).
#[derive(Clone)]
pub(crate) struct Representation {
    pub validators: Validators,
    pub content_type: HeaderValue,
}

impl Representation {
    /// Of the file of this name, looked at now.
    pub(crate) fn of(name: &str, metadata: &Metadata) -> Representation {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Representation {
            validators: Validators::new(metadata.len(), modified, SystemTime::now()),
            content_type: content_type(Path::new(name)),
        }
    }

    /// The same file in another form: its bytes are others, and so is its tag (RFC 9110 §8.8.3.1).
    pub(crate) fn in_form(mut self, form: impl Display) -> Representation {
        let tag = self.validators.etag.to_str().unwrap_or_default();
        if let Ok(tag) = HeaderValue::try_from(format!("{}-{form}\"", tag.trim_end_matches('"'))) {
            self.validators.etag = tag;
        }
        self
    }
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
