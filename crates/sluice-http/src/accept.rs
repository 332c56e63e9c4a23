//! Which media type of a response a client prefers: its field Accept (RFC 9110 §12.5.1).

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Bytes read of a field such as Accept, so that a client cannot make the choice costly. Browsers send some 150.
const LIST_BYTES_MAX: usize = 4096;

/// A quality value in thousandths, 0 to 1000 (RFC 9110 §12.4.2). Zero means "not acceptable".
pub type QValue = u16;

const QVALUE_MAX: QValue = 1000;

/// A media type in which the server can respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `text/html`
    Html,
    /// `application/json`
    Json,
    /// `application/problem+json`: JSON about an error (RFC 9457).
    Problem,
    /// `text/plain`
    Text,
}

impl MediaType {
    /// The value of Content-Type, with the charset of text.
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            MediaType::Html => "text/html; charset=utf-8",
            MediaType::Json => "application/json",
            MediaType::Problem => "application/problem+json",
            MediaType::Text => "text/plain; charset=utf-8",
        })
    }

    /// The names of this media type for clients. Many know only `application/json`, which stands for problems too.
    fn names(self) -> &'static [(&'static str, &'static str)] {
        match self {
            MediaType::Html => &[("text", "html")],
            MediaType::Json => &[("application", "json")],
            MediaType::Problem => &[("application", "problem+json"), ("application", "json")],
            MediaType::Text => &[("text", "plain")],
        }
    }
}

/// How much a client wants a media type. The greater is the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    quality: QValue,
    specificity: Specificity,
}

/// How precisely a media range names a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    /// `*/*`
    Any,
    /// `text/*`
    Type,
    /// `text/html`
    Subtype,
}

/// Chooses the media type of `offered` that the client prefers; of equals the one that it names more precisely, then the first.
///
/// `otherwise` is chosen if the client has no preference: no Accept, `*/*`, or nothing of `offered`. In the last case any
/// response helps more than 406 (RFC 9110 §12.4.1).
pub fn choose(fields: &HeaderMap, offered: &[MediaType], otherwise: MediaType) -> MediaType {
    let accept = read(fields);
    let mut best: Option<(Preference, MediaType)> = None;
    for media_type in offered {
        if let Some(preference) = preference(&accept, *media_type)
            && best.is_none_or(|(most, _)| preference > most)
        {
            best = Some((preference, *media_type));
        }
    }
    match best {
        Some((most, media_type)) if most.specificity > Specificity::Any => media_type,
        Some((most, media_type)) if preference(&accept, otherwise) != Some(most) => media_type,
        _ => otherwise,
    }
}

fn read(fields: &HeaderMap) -> String {
    lines(fields, header::ACCEPT).flat_map(|line| [line, ","]).collect()
}

/// The lines of a field that is a list, up to the limit; an entry across the limit is left out.
pub(crate) fn lines(fields: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let mut left = LIST_BYTES_MAX;
    fields.get_all(name).iter().map_while(move |line| {
        let bytes = line.as_bytes();
        let whole = if bytes.len() < left {
            bytes
        } else {
            let end = bytes[..left].iter().rposition(|byte| *byte == b',');
            &bytes[..end?]
        };
        left -= whole.len() + 1;
        if whole.len() < bytes.len() {
            left = 0;
        }
        // A line that is not UTF-8 is ignored.
        Some(std::str::from_utf8(whole).unwrap_or_default())
    })
}

/// The preference for a media type; `None` if the client refuses or does not name it.
fn preference(accept: &str, media_type: MediaType) -> Option<Preference> {
    let names = media_type.names().iter();
    names
        .filter_map(|(kind, subtype)| preference_of_name(accept, kind, subtype))
        .max()
        .filter(|preference| preference.quality > 0)
}

/// The preference of the most specific range of a type (RFC 9110 §12.5.1); of two such ranges the first.
fn preference_of_name(accept: &str, kind: &str, subtype: &str) -> Option<Preference> {
    let mut closest: Option<Preference> = None;
    for range in accept.split(',') {
        let mut parts = range.split(';');
        let Some(name) = parts.next().and_then(|name| name.trim().split_once('/')) else {
            continue;
        };
        let specificity = match name {
            ("*", "*") => Specificity::Any,
            (own, "*") if own.eq_ignore_ascii_case(kind) => Specificity::Type,
            (own, rest) if own.eq_ignore_ascii_case(kind) && rest.eq_ignore_ascii_case(subtype) => Specificity::Subtype,
            _ => continue,
        };
        if closest.is_some_and(|closest| closest.specificity >= specificity) {
            continue;
        }
        if let Some(quality) = quality(parts) {
            closest = Some(Preference { quality, specificity });
        }
    }
    closest
}

/// The quality value among the parameters of an entry; 1 without one, `None` if it is invalid (RFC 9110 §12.4.2).
pub(crate) fn quality<'a>(mut parameters: impl Iterator<Item = &'a str>) -> Option<QValue> {
    let given = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value.trim())
    });
    let Some(given) = given else { return Some(QVALUE_MAX) };
    let (whole, fraction) = given.split_once('.').unwrap_or((given, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain([b'0'; 3]).take(3);
    let thousandths = digits.fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(QVALUE_MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [MediaType; 3] = [MediaType::Html, MediaType::Problem, MediaType::Text];

    fn fields(lines: &[&str]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for line in lines {
            fields.append(header::ACCEPT, HeaderValue::from_str(line).unwrap());
        }
        fields
    }

    #[track_caller]
    fn assert_chosen(accept: &str, expected: MediaType) {
        assert_eq!(choose(&fields(&[accept]), &ALL, MediaType::Text), expected, "{accept}");
    }

    #[test]
    fn browsers_and_text_browsers_get_html() {
        for accept in [
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
            "text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01",
            "text/html, text/*;q=0.5, image/*, application/*, x-content/*",
            "*/*, text/html",
            "TEXT/HTML",
        ] {
            assert_chosen(accept, MediaType::Html);
        }
    }

    #[test]
    fn without_a_preference_the_server_chooses() {
        assert_eq!(choose(&HeaderMap::new(), &ALL, MediaType::Text), MediaType::Text);
        for accept in [
            "*/*",
            "image/avif,image/webp,*/*;q=0.8",
            "image/png",
            "",
            "nonsense",
            "text",
        ] {
            assert_chosen(accept, MediaType::Text);
            assert_eq!(
                choose(&fields(&[accept]), &ALL, MediaType::Html),
                MediaType::Html,
                "{accept}"
            );
        }
    }

    #[test]
    fn quality_values_decide_and_the_most_specific_range_counts() {
        assert_chosen("application/json", MediaType::Problem);
        assert_chosen("application/problem+json, text/html;q=0.9", MediaType::Problem);
        assert_chosen(
            "text/html;q=0.2, application/json;q=0.3, text/plain;q=0.1",
            MediaType::Problem,
        );
        assert_chosen("text/*;q=0.3, text/html;q=0, application/json;q=0.2", MediaType::Text);
        assert_chosen("text/html;q=0.5, */*;q=0.8, text/plain;q=0.1", MediaType::Problem);
        assert_chosen("*/*, text/plain;q=0", MediaType::Html);
        assert_chosen("text/html; level=1; Q=0.1, text/plain ; q = 0.9", MediaType::Text);
        assert_chosen("text/*", MediaType::Html);
        assert_chosen("*/*;q=0", MediaType::Text);
    }

    #[test]
    fn a_range_with_an_invalid_quality_value_is_ignored() {
        for bad in ["1.1", "2", "-1", "0.1234", "0.x", "", "01", ".5"] {
            assert_chosen(
                &format!("text/html;q={bad}, application/json;q=0.001"),
                MediaType::Problem,
            );
        }
        for (good, expected) in [
            ("0", None),
            ("0.", None),
            ("0.001", Some(1)),
            ("0.5", Some(500)),
            ("1.000", Some(1000)),
        ] {
            let preference = preference(&format!("text/html;q={good}"), MediaType::Html);
            assert_eq!(preference.map(|preference| preference.quality), expected, "{good}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = fields(&["text/html;q=0.5", "application/json"]);
        assert_eq!(choose(&lines, &ALL, MediaType::Text), MediaType::Problem);
    }

    #[test]
    fn entries_beyond_the_limit_are_ignored_and_cost_nothing() {
        let long = format!("application/json,{}text/html", "image/png,".repeat(6000));
        assert_chosen(&long, MediaType::Problem);
        let one = format!("text/html{}", ";a=b".repeat(16_000));
        assert_chosen(&one, MediaType::Text);
        let exactly = format!("{}text/html,", " ".repeat(LIST_BYTES_MAX - 10));
        assert_chosen(&exactly, MediaType::Html);
        assert!(read(&fields(&[&long, &long])).len() <= LIST_BYTES_MAX);
        let many: Vec<&str> = vec!["image/png"; 6000];
        assert!(read(&fields(&many)).len() <= LIST_BYTES_MAX);
    }
}
