//! Which of a site's responses are compressed, and in which variants its files are sent.

use http::{HeaderMap, HeaderValue};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::accept::{Accepted, Ranked};

/// Which of a site's responses are compressed, for clients that accept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionSettings {
    /// Content codings, the preferred one first, for clients that accept several equally; empty: nothing is compressed.
    pub encodings: Vec<Encoding>,
    /// Media types that are compressed, in lower case, without parameters; a `*` stands for any run of characters.
    pub types: Vec<String>,
    /// Smallest response that is compressed, bytes, if its length is known.
    pub least_bytes: u64,
    /// The variants of files, unless their route has a setting.
    pub files: Precompressed,
}

/// The compressed variants in which files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precompressed {
    /// None.
    Off,
    /// The variants stored beside the files (`NAME.gz`).
    Static,
    /// The variants stored beside the files, and those that the server compresses and keeps in its cache.
    OnDemand,
}

impl Default for CompressionSettings {
    fn default() -> Self {
        let types = [
            "text/*",
            "application/*+json",
            "application/*+xml",
            "application/javascript",
            "application/json",
            "application/wasm",
            "application/x-javascript",
            "application/x-ndjson",
            "application/xml",
            "application/vnd.ms-fontobject",
            "font/otf",
            "font/ttf",
            "image/bmp",
            "image/svg+xml",
            "image/x-icon",
        ];
        CompressionSettings {
            encodings: Encoding::ALL.to_vec(),
            types: types.map(str::to_owned).to_vec(),
            least_bytes: 1 << 10,
            files: Precompressed::OnDemand,
        }
    }
}

/// A site's compression settings, prepared for use.
pub struct Compression {
    /// The preferred one first.
    encodings: Vec<Encoding>,
    types: Vec<Pattern>,
    /// Smallest response that is compressed, bytes.
    pub least_bytes: u64,
    files: Precompressed,
}

/// `text/html`, or `text/*`, or `application/*+json`: the text before the star and the text after it, in lower case.
struct Pattern {
    before: String,
    after: Option<String>,
}

impl Compression {
    /// Prepares the settings of a site.
    pub fn new(settings: &CompressionSettings) -> Compression {
        let pattern = |text: &String| {
            let text = text.to_ascii_lowercase();
            // `*/*` matches types without a slash too.
            let text = if text == "*/*" { "*".to_owned() } else { text };
            match text.split_once('*') {
                Some((before, after)) => Pattern {
                    before: before.to_owned(),
                    after: Some(after.to_owned()),
                },
                None => Pattern { before: text, after: None },
            }
        };
        Compression {
            encodings: settings.encodings.clone(),
            types: settings.types.iter().map(pattern).collect(),
            least_bytes: settings.least_bytes,
            files: settings.files,
        }
    }

    /// The variants of the files of a route, whose own setting is `compress`; `None` if there are none.
    pub fn files(&self, compress: Option<bool>) -> Option<Precompressed> {
        let variants = match compress {
            None => self.files,
            Some(true) => Precompressed::OnDemand,
            Some(false) => Precompressed::Off,
        };
        (variants != Precompressed::Off && !self.encodings.is_empty()).then_some(variants)
    }

    /// Whether content of this type may be compressed.
    pub fn is_for(&self, content_type: &HeaderValue) -> bool {
        let text = content_type.to_str().unwrap_or_default();
        let essence = text.split(';').next().unwrap_or_default().trim();
        self.types.iter().any(|pattern| pattern.matches(essence))
    }

    /// The codings of the site that a client accepts, the preferred one first.
    pub fn rank(&self, fields: &HeaderMap) -> Ranked {
        Accepted::read(fields).rank(&self.encodings)
    }
}

impl Pattern {
    fn matches(&self, essence: &str) -> bool {
        let Some(after) = &self.after else {
            return essence.eq_ignore_ascii_case(&self.before);
        };
        let begins = |part: &str| part.eq_ignore_ascii_case(&self.before);
        let ends = |part: &str| part.eq_ignore_ascii_case(after);
        essence.len() >= self.before.len() + after.len()
            && essence.get(..self.before.len()).is_some_and(begins)
            && essence.get(essence.len() - after.len()..).is_some_and(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_matched_without_parameters_and_in_any_case() {
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
        let overlapping = Pattern { before: "a/b".into(), after: Some("b".into()) };
        assert!(!overlapping.matches("a/b") && overlapping.matches("a/bb"));
    }

    #[test]
    fn a_route_overrides_its_site_unless_there_are_no_encodings() {
        let with = |files, encodings: &[Encoding]| {
            Compression::new(&CompressionSettings {
                files,
                encodings: encodings.to_vec(),
                ..CompressionSettings::default()
            })
        };
        for (files, compress, expected) in [
            (Precompressed::OnDemand, None, Some(Precompressed::OnDemand)),
            (Precompressed::Static, None, Some(Precompressed::Static)),
            (Precompressed::Off, None, None),
            (Precompressed::Off, Some(true), Some(Precompressed::OnDemand)),
            (Precompressed::Static, Some(true), Some(Precompressed::OnDemand)),
            (Precompressed::OnDemand, Some(false), None),
        ] {
            assert_eq!(
                with(files, &Encoding::ALL).files(compress),
                expected,
                "{files:?} {compress:?}"
            );
            assert_eq!(with(files, &[]).files(compress), None);
        }
    }
}
