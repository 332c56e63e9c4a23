//! Media types of files by the endings of their names: first the types that a site adds, then the table of a library.

use http::HeaderValue;
use sluice_settings::FileSettings;

/// Sent for unknown endings (RFC 9110 §8.3); browsers offer to save such a file.
const UNKNOWN: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The media types of a site's files.
pub struct Types {
    /// The types that the site adds. Endings are in lower case, the longest first, so that `.tar.gz` comes before `.gz`.
    added: Vec<(String, HeaderValue)>,
    /// The charset of text types that name none themselves, such as `utf-8`; empty for no charset.
    charset: String,
    /// Whether browsers must not guess other types (`X-Content-Type-Options`).
    is_exact: bool,
}

/// The media type of a file.
pub struct FileType {
    /// The value of Content-Type.
    pub value: HeaderValue,
    /// Whether browsers must not guess another one.
    pub is_exact: bool,
}

impl Types {
    /// The types that the settings add, and their charset. A type that is not a valid field value is ignored.
    pub fn new(settings: &FileSettings) -> Types {
        let charset = settings.charset.clone();
        let added = settings.types.iter().filter_map(|(ending, kind)| {
            let value = HeaderValue::try_from(with_charset(kind, &charset)).ok()?;
            Some((ending.to_ascii_lowercase(), value))
        });
        let mut added: Vec<_> = added.collect();
        added.sort_by_key(|(ending, _)| std::cmp::Reverse(ending.len()));
        Types { added, charset, is_exact: settings.nosniff }
    }

    /// The media type of a file with this name or path.
    pub fn of(&self, name: &str) -> FileType {
        FileType {
            value: self.value_of(name),
            is_exact: self.is_exact,
        }
    }

    fn value_of(&self, name: &str) -> HeaderValue {
        let ends = |ending: &str| {
            let at = name.len().checked_sub(ending.len());
            at.and_then(|at| name.get(at..))
                .is_some_and(|end| end.eq_ignore_ascii_case(ending))
        };
        if let Some((_, kind)) = self.added.iter().find(|(ending, _)| ends(ending)) {
            return kind.clone();
        }
        match mime_guess::from_path(name).first_raw() {
            None => UNKNOWN,
            Some(kind) if is_text(kind) && !self.charset.is_empty() => {
                HeaderValue::try_from(with_charset(kind, &self.charset)).unwrap_or(UNKNOWN)
            }
            Some(kind) => HeaderValue::from_static(kind),
        }
    }
}

fn with_charset(kind: &str, charset: &str) -> String {
    if is_text(kind) && !charset.is_empty() && !kind.contains(';') {
        format!("{kind}; charset={charset}")
    } else {
        kind.to_owned()
    }
}

/// Whether a browser treats a type as text and needs its charset.
fn is_text(kind: &str) -> bool {
    kind.starts_with("text/") || kind == "application/javascript" || kind == "application/json"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(charset: &str, added: &[(&str, &str)]) -> Types {
        let pair = |(ending, kind): &(&str, &str)| ((*ending).to_owned(), (*kind).to_owned());
        Types::new(&FileSettings {
            types: added.iter().map(pair).collect(),
            charset: charset.to_owned(),
            ..FileSettings::default()
        })
    }

    #[test]
    fn types_of_the_site_come_first_and_the_longest_ending_counts() {
        let types = types(
            "utf-8",
            &[
                (".gz", "application/x-one"),
                (".tar.gz", "application/x-two"),
                (".foo", "text/x-foo"),
                (".html", "text/html; charset=iso-8859-1"),
            ],
        );
        for (name, expected) in [
            ("a.gz", "application/x-one"),
            ("a.tar.gz", "application/x-two"),
            ("A.TAR.GZ", "application/x-two"),
            ("d/a.foo", "text/x-foo; charset=utf-8"),
            ("a.html", "text/html; charset=iso-8859-1"),
            ("a.htm", "text/html; charset=utf-8"),
            ("a.png", "image/png"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("é", "application/octet-stream"),
            ("", "application/octet-stream"),
        ] {
            assert_eq!(types.of(name).value, expected, "{name}");
        }
    }

    #[test]
    fn charset_is_that_of_the_site_or_absent() {
        assert_eq!(
            types("iso-8859-15", &[]).of("a.txt").value,
            "text/plain; charset=iso-8859-15"
        );
        assert_eq!(types("", &[(".foo", "text/x-foo")]).of("a.txt").value, "text/plain");
        assert_eq!(types("", &[(".foo", "text/x-foo")]).of("a.foo").value, "text/x-foo");
    }
}
