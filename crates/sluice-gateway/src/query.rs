//! Parsing of query strings: the keywords of an ISINDEX query (RFC 3875 §4.4), the fields of an HTML form.

use percent_encoding::percent_decode_str;

/// Keywords in the longest query that is parsed as ISINDEX; with more, the script has `QUERY_STRING` only.
const KEYWORDS_MAX: usize = 128;

/// Form fields that become variables, limited because each is compared with those before it. For further ones the script has `QUERY_STRING`.
const FORM_FIELDS_MAX: usize = 128;

/// The command line arguments that an ISINDEX query gives to a CGI script (RFC 3875 §4.4): its keywords, decoded.
///
/// Empty if the query has an unencoded `=` (then it is a form), if a keyword holds a NUL, or if one begins with `-`: a
/// program would parse it as an option, and a request must not choose a program's options (CVE-2012-1823).
pub fn isindex_arguments(query: &str) -> Vec<Vec<u8>> {
    let words: Vec<Vec<u8>> = keywords(query).map(|word| percent_decode_str(word).collect()).collect();
    let is_fit = |word: &Vec<u8>| word.first() != Some(&b'-') && !word.contains(&0);
    if words.iter().all(is_fit) { words } else { Vec::new() }
}

/// The keywords of a query, still encoded; empty for a form, an empty query, or one with more than [`KEYWORDS_MAX`].
pub(crate) fn keywords(query: &str) -> impl Iterator<Item = &str> {
    let is_search =
        !query.is_empty() && !query.contains('=') && query.split('+').take(KEYWORDS_MAX + 1).count() <= KEYWORDS_MAX;
    query.split('+').take(if is_search { KEYWORDS_MAX } else { 0 })
}

/// Names and values of a form's fields, still encoded; empty for a keyword query.
pub(crate) fn form_fields(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let fields = query.split('&').filter(|field| !field.is_empty());
    let fields = fields.map(|field| field.split_once('=').unwrap_or((field, "")));
    fields.take(if query.contains('=') { FORM_FIELDS_MAX } else { 0 })
}

/// Decodes a form's name or value (`application/x-www-form-urlencoded`).
pub(crate) fn form_decoded(text: &str) -> impl Iterator<Item = u8> {
    let mut parts = text.split('+');
    let first = parts.next().unwrap_or_default();
    let rest = parts.flat_map(|part| std::iter::once(b' ').chain(percent_decode_str(part)));
    percent_decode_str(first).chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arguments(query: &str) -> Vec<String> {
        isindex_arguments(query)
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap())
            .collect()
    }

    #[test]
    fn a_search_becomes_arguments() {
        assert_eq!(arguments("one+two%20three+%3d"), ["one", "two three", "="]);
        assert_eq!(arguments("one++two"), ["one", "", "two"]);
    }

    #[test]
    fn a_form_or_an_empty_query_has_no_arguments() {
        assert!(arguments("a=b").is_empty());
        assert!(arguments("").is_empty());
    }

    #[test]
    fn a_nul_or_an_option_discards_all_arguments() {
        assert!(arguments("a+b%00").is_empty());
        assert!(arguments("a+-s").is_empty());
        assert!(arguments("%2ds").is_empty());
        assert_eq!(arguments("a-s"), ["a-s"]);
    }

    #[test]
    fn too_many_keywords_give_no_arguments() {
        assert_eq!(arguments(&"a+".repeat(KEYWORDS_MAX - 1)).len(), KEYWORDS_MAX);
        assert!(arguments(&"a+".repeat(KEYWORDS_MAX)).is_empty());
    }

    #[test]
    fn form_fields_may_lack_a_value() {
        let fields: Vec<_> = form_fields("a=1&b&&c=d=e").collect();
        assert_eq!(fields, [("a", "1"), ("b", ""), ("c", "d=e")]);
        assert_eq!(form_fields("a+b").count(), 0);
        assert_eq!(form_fields("a&b").count(), 0);
    }

    #[test]
    fn form_texts_are_decoded() {
        assert_eq!(form_decoded("a+b%2B%zz+").collect::<Vec<u8>>(), b"a b+%zz ");
        assert_eq!(form_decoded("").count(), 0);
    }

    proptest! {
        #[test]
        fn any_query_is_parsed_without_panic(query in "[-a+=&%0-9A-F\u{e4}]{0,60}") {
            let words = isindex_arguments(&query);
            prop_assert!(words.is_empty() || !query.contains('='));
            prop_assert!(words.iter().all(|word| !word.starts_with(b"-") && !word.contains(&0)));
            let decoded: usize = form_fields(&query).map(|(name, value)| form_decoded(name).chain(form_decoded(value)).count()).sum();
            prop_assert!(decoded <= query.len());
        }
    }
}
