//! What a response says of a file: its type, and what tells this version of it from others.
//!
//! Not here: what a request's conditions make of that (`conditions`), and the response (`file`).

use std::fmt::Display;
use std::fs::Metadata;
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
    /// Of a file of this type, looked at now.
    pub(crate) fn of(content_type: HeaderValue, metadata: &Metadata) -> Representation {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Representation {
            validators: Validators::new(metadata.len(), modified, SystemTime::now()),
            content_type,
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
