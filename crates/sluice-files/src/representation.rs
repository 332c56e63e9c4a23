//! What a response says of a file: its type, and what tells this version of it from others.
//!
//! Not here: what a request's conditions make of that (`conditions`), and the response (`file`).

use std::fmt::Display;
use std::fs::Metadata;
use std::time::SystemTime;

use http::HeaderValue;
use sluice_http::conditions::Validators;
use sluice_http::encoding::Encoding;

/// What a response says of a file (RFC 9110 §8).
#[derive(Clone)]
pub(crate) struct Representation {
    pub validators: Validators,
    pub content_type: HeaderValue,
    /// When the file that holds these bytes was changed.
    pub modified: SystemTime,
    pub form: Form,
    /// There may be compressed forms of the file, where a route offers them: which one is sent hangs on Accept-Encoding.
    pub has_forms: bool,
}

/// The form in which a file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is.
    Plain,
    /// Compressed by who made the site: a file beside it.
    Stored(Encoding),
    /// Compressed by the server.
    Made(Encoding),
}

impl Representation {
    /// Of a file of this type, looked at now.
    pub(crate) fn of(content_type: HeaderValue, metadata: &Metadata) -> Representation {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Representation {
            validators: Validators::new(metadata.len(), modified, SystemTime::now()),
            content_type,
            modified,
            form: Form::Plain,
            has_forms: false,
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

    /// The same file as the server compresses it. The tag is weak: another version of the library makes other bytes.
    pub(crate) fn made(&self, encoding: Encoding) -> Representation {
        let mut made = self.clone().in_form(encoding);
        made.validators.weaken();
        made.form = Form::Made(encoding);
        made
    }

    /// What a file that lies beside this one says of itself, as a form of this one: the bytes are its own, their meaning is
    /// this one's.
    pub(crate) fn stored(&self, beside: &Representation, encoding: Encoding) -> Representation {
        Representation {
            content_type: self.content_type.clone(),
            form: Form::Stored(encoding),
            has_forms: true,
            ..beside.clone().in_form(encoding)
        }
    }
}

impl Form {
    /// The field Content-Encoding.
    pub(crate) fn encoding(self) -> Option<Encoding> {
        match self {
            Form::Plain => None,
            Form::Stored(encoding) | Form::Made(encoding) => Some(encoding),
        }
    }
}
