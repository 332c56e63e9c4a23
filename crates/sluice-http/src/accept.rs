//! Which of several forms of one answer a client prefers: its field Accept (RFC 9110 §12.5.1).
//!
//! Here: reading the field, within a bound, and the choice. Not here: the forms themselves (`error_page`,
//! `handler::listing`), and content codings (`accept_encoding`).

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Bytes that are looked at of a field that lists what a client takes, all of its lines together. Browsers send some 150; what
/// lies beyond is not seen, so that a client cannot make the choice costly.
const LIST_BYTES_MAX: usize = 4096;

/// A form in which an answer can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Html,
    Json,
    /// JSON about a problem (RFC 9457).
    Problem,
    Text,
}

impl Form {
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Form::Html => "text/html; charset=utf-8",
            Form::Json => "application/json",
            Form::Problem => "application/problem+json",
            Form::Text => "text/plain; charset=utf-8",
        })
    }

    /// The types by which clients ask for it. What JSON has a name of its own for, many clients do not know by that name.
    fn types(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Form::Html => &[("text", "html")],
            Form::Json => &[("application", "json")],
            Form::Problem => &[("application", "problem+json"), ("application", "json")],
            Form::Text => &[("text", "plain")],
        }
    }
}

/// What a client thinks of a form. Of two, the greater is the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QValue {
    /// Thousandths; zero is a refusal.
    weight: u16,
    named: Named,
}

/// How closely a media range names a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    /// `*/*`
    Any,
    /// `text/*`
    Kind,
    /// `text/html`
    Exactly,
}

/// The form of `offered` that the client likes best; of equals the one that it names more closely, then the earlier.
///
/// `otherwise` is for clients that leave the choice to the server: no Accept, `*/*`, or nothing that can be had, for an
/// answer in another form helps more than none (RFC 9110 §12.4.1).
pub fn choose(fields: &HeaderMap, offered: &[Form], otherwise: Form) -> Form {
    let accept = read(fields);
    let mut best: Option<(QValue, Form)> = None;
    for form in offered {
        if let Some(quality) = quality(&accept, *form)
            && best.is_none_or(|(most, _)| quality > most)
        {
            best = Some((quality, *form));
        }
    }
    match best {
        Some((most, form)) if most.named > Named::Any => form,
        Some((most, form)) if quality(&accept, otherwise) != Some(most) => form,
        _ => otherwise,
    }
}

/// The field's lines as one list, up to the bound.
fn read(fields: &HeaderMap) -> String {
    let mut list = String::new();
    for line in lines(fields, header::ACCEPT) {
        list.push_str(line);
        list.push(',');
    }
    list
}

/// The lines of a field that lists what a client takes, up to the bound; an entry that the bound cuts is left out.
pub(super) fn lines(fields: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
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
        // A line that is no text names nothing.
        Some(std::str::from_utf8(whole).unwrap_or_default())
    })
}

/// None for a form that the client refuses or does not name.
fn quality(accept: &str, form: Form) -> Option<QValue> {
    let types = form.types().iter();
    types
        .filter_map(|wanted| of_type(accept, *wanted))
        .max()
        .filter(|quality| quality.weight > 0)
}

/// What the closest range that a type falls in says of it (RFC 9110 §12.5.1); of two such ranges the first.
fn of_type(accept: &str, wanted: (&str, &str)) -> Option<QValue> {
    let mut closest: Option<QValue> = None;
    for range in accept.split(',') {
        let mut parts = range.split(';');
        let Some((kind, subtype)) = parts.next().and_then(|name| name.trim().split_once('/')) else {
            continue;
        };
        let named = match (kind, subtype) {
            ("*", "*") => Named::Any,
            (kind, "*") if kind.eq_ignore_ascii_case(wanted.0) => Named::Kind,
            (kind, subtype) if kind.eq_ignore_ascii_case(wanted.0) && subtype.eq_ignore_ascii_case(wanted.1) => {
                Named::Exactly
            }
            _ => continue,
        };
        if closest.is_some_and(|closest| closest.named >= named) {
            continue;
        }
        if let Some(weight) = weight(parts) {
            closest = Some(QValue { weight, named });
        }
    }
    closest
}

/// The weight among the parameters of an entry, 1 without one; None for what is no weight (RFC 9110 §12.4.2).
pub(super) fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> Option<u16> {
    let given = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value.trim())
    });
    let Some(given) = given else { return Some(1000) };
    let (whole, fraction) = given.split_once('.').unwrap_or((given, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain([b'0'; 3]).take(3);
    let thousandths = digits.fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Form; 3] = [Form::Html, Form::Problem, Form::Text];

    fn fields(lines: &[&str]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for line in lines {
            fields.append(header::ACCEPT, HeaderValue::from_str(line).unwrap());
        }
        fields
    }

    #[track_caller]
    fn assert_chosen(accept: &str, expected: Form) {
        assert_eq!(choose(&fields(&[accept]), &ALL, Form::Text), expected, "{accept}");
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
            assert_chosen(accept, Form::Html);
        }
    }

    #[test]
    fn who_names_nothing_leaves_the_choice_to_the_server() {
        assert_eq!(choose(&HeaderMap::new(), &ALL, Form::Text), Form::Text);
        for accept in [
            "*/*",
            "image/avif,image/webp,*/*;q=0.8",
            "image/png",
            "",
            "nonsense",
            "text",
        ] {
            assert_chosen(accept, Form::Text);
            assert_eq!(choose(&fields(&[accept]), &ALL, Form::Html), Form::Html, "{accept}");
        }
    }

    #[test]
    fn weights_decide_and_the_closest_range_counts() {
        assert_chosen("application/json", Form::Problem);
        assert_chosen("application/problem+json, text/html;q=0.9", Form::Problem);
        assert_chosen(
            "text/html;q=0.2, application/json;q=0.3, text/plain;q=0.1",
            Form::Problem,
        );
        assert_chosen("text/*;q=0.3, text/html;q=0, application/json;q=0.2", Form::Text);
        assert_chosen("text/html;q=0.5, */*;q=0.8, text/plain;q=0.1", Form::Problem);
        assert_chosen("*/*, text/plain;q=0", Form::Html);
        assert_chosen("text/html; level=1; Q=0.1, text/plain ; q = 0.9", Form::Text);
        assert_chosen("text/*", Form::Html);
        assert_chosen("*/*;q=0", Form::Text);
    }

    #[test]
    fn a_range_whose_weight_is_none_does_not_count() {
        for bad in ["1.1", "2", "-1", "0.1234", "0.x", "", "01", ".5"] {
            assert_chosen(&format!("text/html;q={bad}, application/json;q=0.001"), Form::Problem);
        }
        for (good, expected) in [
            ("0", None),
            ("0.", None),
            ("0.001", Some(1)),
            ("0.5", Some(500)),
            ("1.000", Some(1000)),
        ] {
            let quality = quality(&format!("text/html;q={good}"), Form::Html);
            assert_eq!(quality.map(|quality| quality.weight), expected, "{good}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = fields(&["text/html;q=0.5", "application/json"]);
        assert_eq!(choose(&lines, &ALL, Form::Text), Form::Problem);
    }

    #[test]
    fn what_lies_beyond_the_bound_is_not_seen_and_costs_nothing() {
        let long = format!("application/json,{}text/html", "image/png,".repeat(6000));
        assert_chosen(&long, Form::Problem);
        let one = format!("text/html{}", ";a=b".repeat(16_000));
        assert_chosen(&one, Form::Text);
        let exactly = format!("{}text/html,", " ".repeat(LIST_BYTES_MAX - 10));
        assert_chosen(&exactly, Form::Html);
        assert!(read(&fields(&[&long, &long])).len() <= LIST_BYTES_MAX);
        let many: Vec<&str> = vec!["image/png"; 6000];
        assert!(read(&fields(&many)).len() <= LIST_BYTES_MAX);
    }
}
