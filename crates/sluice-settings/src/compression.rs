//! What of a site's answers may be compressed, and in which forms.
//!
//! Here: the settings, ready for use. Not here: what a client takes (`accept_encoding`), the compressing (`encode`), and which
//! form an answer is sent in at last (`handler::encodings` for files, `handler::reply_encoding` for scripts).

use http::{HeaderMap, HeaderValue};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::accept::{Accepted, Ranked};

use crate::settings::{CompressionSettings, Precompressed};

/// What of a site's answers may be compressed.
pub struct Compression {
    /// In the order in which the site prefers them.
    encodings: Vec<Encoding>,
    types: Vec<Pattern>,
    /// What is shorter is left as it is.
    pub least_bytes: u64,
    files: Precompressed,
}

/// `text/html`, or `text/*`, or `application/*+json`: what stands before the star and behind it, in lower case.
struct Pattern {
    before: String,
    behind: Option<String>,
}

impl Compression {
    pub fn new(settings: &CompressionSettings) -> Compression {
        let pattern = |text: &String| {
            let text = text.to_ascii_lowercase();
            // Any type at all.
            let text = if text == "*/*" { "*".to_owned() } else { text };
            match text.split_once('*') {
                Some((before, behind)) => Pattern {
                    before: before.to_owned(),
                    behind: Some(behind.to_owned()),
                },
                None => Pattern {
                    before: text,
                    behind: None,
                },
            }
        };
        Compression {
            encodings: settings.encodings.clone(),
            types: settings.types.iter().map(pattern).collect(),
            least_bytes: settings.least_bytes,
            files: settings.files,
        }
    }

    /// Which forms the files of a route may have; `None` for no other than they are. `wish` is the route's own.
    pub fn files(&self, wish: Option<bool>) -> Option<Precompressed> {
        let forms = match wish {
            None => self.files,
            Some(true) => Precompressed::OnDemand,
            Some(false) => Precompressed::Off,
        };
        (forms != Precompressed::Off && !self.encodings.is_empty()).then_some(forms)
    }

    /// Whether content of this type may be compressed.
    pub fn is_for(&self, content_type: &HeaderValue) -> bool {
        let text = content_type.to_str().unwrap_or_default();
        let essence = text.split(';').next().unwrap_or_default().trim();
        self.types.iter().any(|pattern| pattern.matches(essence))
    }

    /// The forms that a client takes, the best first.
    pub fn rank(&self, fields: &HeaderMap) -> Ranked {
        Accepted::read(fields).rank(&self.encodings)
    }
}

impl Pattern {
    fn matches(&self, essence: &str) -> bool {
        let Some(behind) = &self.behind else {
            return essence.eq_ignore_ascii_case(&self.before);
        };
        let begins = |part: &str| part.eq_ignore_ascii_case(&self.before);
        let ends = |part: &str| part.eq_ignore_ascii_case(behind);
        essence.len() >= self.before.len() + behind.len()
            && essence.get(..self.before.len()).is_some_and(begins)
            && essence.get(essence.len() - behind.len()..).is_some_and(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_matched_without_their_parameters_and_in_any_case() {
        let compression = Compression::new(&CompressionSettings::default());
        for (kind, expected) in [
            ("text/html; charset=utf-8", true),
            ("Text/Plain", true),
            ("text/event-stream", true),
            ("application/json", true),
            ("application/problem+json", true),
            ("application/rss+XML ; a=b", true),
            ("application/wasm", true),
            ("image/svg+xml", true),
            ("image/png", false),
            ("application/octet-stream", false),
            ("application/gzip", false),
            ("application/jsonish", false),
            ("video/mp4", false),
            ("text", false),
            ("", false),
        ] {
            let value = HeaderValue::from_str(kind).unwrap();
            assert_eq!(compression.is_for(&value), expected, "{kind}");
        }
        let any = Compression::new(&CompressionSettings {
            types: vec!["*/*".to_owned()],
            ..CompressionSettings::default()
        });
        assert!(any.is_for(&HeaderValue::from_static("image/png")));
        let overlapping = Pattern {
            before: "a/b".into(),
            behind: Some("b".into()),
        };
        assert!(!overlapping.matches("a/b") && overlapping.matches("a/bb"));
    }

    #[test]
    fn a_route_decides_over_its_site_and_nothing_over_no_encodings() {
        let with = |files, encodings: &[Encoding]| {
            Compression::new(&CompressionSettings {
                files,
                encodings: encodings.to_vec(),
                ..CompressionSettings::default()
            })
        };
        for (files, wish, expected) in [
            (Precompressed::OnDemand, None, Some(Precompressed::OnDemand)),
            (Precompressed::Static, None, Some(Precompressed::Static)),
            (Precompressed::Off, None, None),
            (Precompressed::Off, Some(true), Some(Precompressed::OnDemand)),
            (Precompressed::Static, Some(true), Some(Precompressed::OnDemand)),
            (Precompressed::OnDemand, Some(false), None),
        ] {
            assert_eq!(with(files, &Encoding::ALL).files(wish), expected, "{files:?} {wish:?}");
            assert_eq!(with(files, &[]).files(wish), None);
        }
    }
}
