//! Representations of files: the metadata that a response states (RFC 9110 §8).

use std::fmt::Display;
use std::fs::Metadata;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method, Response, header};
use sluice_http::body::{Content, ResponseBody};
use sluice_http::conditions::Validators;
use sluice_http::encoding::Encoding;
use sluice_http::head;

use crate::types::FileType;

/// Room for the fields of a head, including those that the server and routes add.
const HEAD_FIELDS: usize = 10;

/// The value of Vary for a file with variants (RFC 9110 §12.5.5).
pub(crate) const VARY: HeaderValue = HeaderValue::from_static("accept-encoding");

const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

#[derive(Clone)]
pub(crate) struct Representation {
    pub validators: Validators,
    pub content_type: HeaderValue,
    /// Whether browsers must not guess another type.
    pub is_exact: bool,
    /// When the file that holds these bytes was modified.
    pub modified: SystemTime,
    pub coding: Coding,
    /// Whether the file may have variants; if a route offers them, the response varies by Accept-Encoding.
    pub has_variants: bool,
}

/// The content coding of a representation, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    /// A compressed file beside the file.
    Precompressed(Encoding),
    OnDemand(Encoding),
}

impl Coding {
    /// The name in Content-Encoding (RFC 9110 §8.4.1). `None` for the file as it is.
    pub(crate) fn token(self) -> Option<&'static str> {
        match self {
            Coding::Identity => None,
            Coding::Precompressed(encoding) | Coding::OnDemand(encoding) => Some(encoding.token()),
        }
    }
}

impl Representation {
    pub(crate) fn of(kind: FileType, metadata: &Metadata) -> Representation {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Representation {
            validators: Validators::new(metadata.len(), modified, SystemTime::now()),
            content_type: kind.value,
            is_exact: kind.is_exact,
            modified,
            coding: Coding::Identity,
            has_variants: false,
        }
    }

    pub(crate) fn into_head(self) -> HeaderMap {
        // Once, because the map would otherwise grow when the server adds its fields.
        let mut head = HeaderMap::with_capacity(HEAD_FIELDS);
        head.insert(header::ETAG, self.validators.etag);
        head.insert(header::LAST_MODIFIED, self.validators.last_modified);
        // There are no ranges of what the server compresses, because it may compress it to other bytes the next time.
        if !matches!(self.coding, Coding::OnDemand(_)) {
            head.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        head.insert(header::CONTENT_TYPE, self.content_type);
        if self.is_exact {
            head.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        }
        if let Some(coding) = self.coding.token() {
            head.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        if self.has_variants {
            head.insert(header::VARY, VARY);
        }
        head
    }

    /// The head of the response with the whole content, with the fields that `head::complete` adds, so that a copy need not grow.
    pub(crate) fn whole_head(&self, content: &Content) -> HeaderMap {
        let mut response = Response::new(ResponseBody::Whole(content.clone()));
        *response.headers_mut() = self.clone().into_head();
        // The copy has no room to grow, which would be kept with each entry.
        head::complete(&Method::GET, response).headers().clone()
    }

    /// The same file converted to other bytes, so its entity tag gets a suffix (RFC 9110 §8.8.3.1).
    pub(crate) fn with_tag_suffix(mut self, suffix: impl Display) -> Representation {
        let tag = self.validators.etag.to_str().unwrap_or_default();
        if let Ok(tag) = HeaderValue::try_from(format!("{}-{suffix}\"", tag.trim_end_matches('"'))) {
            self.validators.etag = tag;
        }
        self
    }

    /// The variant that the server compresses. Its tag is weak, because another version of the library may produce other bytes.
    pub(crate) fn on_demand(&self, encoding: Encoding) -> Representation {
        let mut variant = self.clone().with_tag_suffix(encoding);
        variant.validators.weaken();
        variant.coding = Coding::OnDemand(encoding);
        variant
    }

    /// The precompressed variant in another file, `beside`: bytes and validators are those of that file, the type is that of this one.
    pub(crate) fn precompressed(&self, beside: &Representation, encoding: Encoding) -> Representation {
        Representation {
            content_type: self.content_type.clone(),
            is_exact: self.is_exact,
            coding: Coding::Precompressed(encoding),
            has_variants: true,
            ..beside.clone().with_tag_suffix(encoding)
        }
    }
}
