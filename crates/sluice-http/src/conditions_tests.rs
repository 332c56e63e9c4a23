//! Conditions: examples, and the precedence of RFC 9110 §13.2.2 written out step by step.

use proptest::prelude::*;

use super::*;

/// Sun, 09 Sep 2001 01:46:40 GMT.
const MODIFIED: u64 = 1_000_000_000;

/// The file of these tests, an hour after its modification.
fn file() -> Validators {
    let modified = UNIX_EPOCH + Duration::from_millis(MODIFIED * 1000 + 500);
    Validators::new(5, modified, modified + Duration::from_secs(3600))
}

/// The same file, just modified.
fn fresh_file() -> Validators {
    let modified = UNIX_EPOCH + Duration::from_millis(MODIFIED * 1000 + 500);
    Validators::new(5, modified, modified + Duration::from_millis(999))
}

fn date(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

fn own_tag() -> String {
    file().etag.to_str().unwrap().to_owned()
}

fn fields(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        fields.append(name, HeaderValue::from_str(value).unwrap());
    }
    fields
}

#[track_caller]
fn assert_evaluation(expected: Evaluation, lines: &[(HeaderName, &str)]) {
    assert_eq!(evaluate(&fields(lines), &file()), expected, "{lines:?}");
}

#[test]
fn if_match_compares_strongly() {
    let tag = own_tag();
    for (value, expected) in [
        (tag.as_str(), Evaluation::Perform),
        ("*", Evaluation::Perform),
        (&format!("\"other\", {tag}"), Evaluation::Perform),
        (&format!(",, \"a,b\" ,\t{tag}"), Evaluation::Perform),
        (&format!("W/{tag}"), Evaluation::Failed),
        ("\"other\"", Evaluation::Failed),
        ("", Evaluation::Failed),
        (tag.trim_matches('"'), Evaluation::Failed),
        // A list ends at its first invalid entry.
        (&format!("other, {tag}"), Evaluation::Failed),
        (&format!("\"other\" {tag}"), Evaluation::Failed),
        (&format!("\"other, {tag}"), Evaluation::Failed),
        (&format!("w/\"other\", {tag}"), Evaluation::Failed),
        (&format!("*, {tag}"), Evaluation::Failed),
    ] {
        assert_evaluation(expected, &[(header::IF_MATCH, value)]);
    }
    assert_evaluation(
        Evaluation::Perform,
        &[(header::IF_MATCH, "\"other\""), (header::IF_MATCH, &tag)],
    );
    let any_of_fresh = fields(&[(header::IF_MATCH, fresh_file().etag.to_str().unwrap())]);
    assert_eq!(evaluate(&any_of_fresh, &fresh_file()), Evaluation::Failed);
}

#[test]
fn if_none_match_compares_weakly() {
    let tag = own_tag();
    for (value, expected) in [
        (tag.as_str(), Evaluation::NotModified),
        ("*", Evaluation::NotModified),
        (&format!("W/{tag}"), Evaluation::NotModified),
        (&format!("\"other\",W/\"x,y\",{tag}"), Evaluation::NotModified),
        ("\"other\"", Evaluation::Perform),
        ("", Evaluation::Perform),
        (tag.trim_matches('"'), Evaluation::Perform),
        (&format!("other, {tag}"), Evaluation::Perform),
        (&format!("\"o ther\", {tag}"), Evaluation::Perform),
        ("**", Evaluation::Perform),
    ] {
        assert_evaluation(expected, &[(header::IF_NONE_MATCH, value)]);
    }
    // A tag that was weak just after the modification still names the same version.
    let since = fields(&[(header::IF_NONE_MATCH, fresh_file().etag.to_str().unwrap())]);
    assert_eq!(evaluate(&since, &file()), Evaluation::NotModified);
}

#[test]
fn dates_count_whole_seconds_and_invalid_ones_are_ignored() {
    for (value, is_unmodified) in [
        (date(MODIFIED), true),
        (date(MODIFIED + 1), true),
        (date(MODIFIED - 1), false),
        ("Sunday, 09-Sep-01 01:46:40 GMT".to_owned(), true),
        ("Sun Sep  9 01:46:39 2001".to_owned(), false),
    ] {
        let (unmodified, modified) = if is_unmodified {
            (Evaluation::Perform, Evaluation::NotModified)
        } else {
            (Evaluation::Failed, Evaluation::Perform)
        };
        assert_evaluation(unmodified, &[(header::IF_UNMODIFIED_SINCE, &value)]);
        assert_evaluation(modified, &[(header::IF_MODIFIED_SINCE, &value)]);
    }
    for name in [header::IF_UNMODIFIED_SINCE, header::IF_MODIFIED_SINCE] {
        for seconds in [MODIFIED - 1, MODIFIED, MODIFIED + 1] {
            let (one, two) = (date(seconds), format!("{0}, {0}", date(seconds)));
            assert_evaluation(Evaluation::Perform, &[(name.clone(), &one), (name.clone(), &one)]);
            assert_evaluation(Evaluation::Perform, &[(name.clone(), &two)]);
        }
        for value in [
            "",
            "yesterday",
            "2001-09-09T01:46:40Z",
            "Sun, 09 Sep 2001 01:46:40 CET",
            "0",
        ] {
            assert_evaluation(Evaluation::Perform, &[(name.clone(), value)]);
        }
    }
}

#[test]
fn if_range_must_name_this_version() {
    let (tag, own_date) = (own_tag(), date(MODIFIED));
    for (value, is_same) in [
        (tag.as_str(), true),
        (&own_date, true),
        ("Sunday, 09-Sep-01 01:46:40 GMT", true),
        (&format!("W/{tag}"), false),
        ("\"other\"", false),
        ("*", false),
        ("", false),
        ("anything", false),
        (&format!("{tag}, {tag}"), false),
        (&format!("{tag}x"), false),
        (&date(MODIFIED + 1), false),
        (&date(MODIFIED - 1), false),
    ] {
        let fields = fields(&[(header::IF_RANGE, value)]);
        assert_eq!(is_same_version(&fields, &file()), is_same, "{value:?}");
        let (again, name) = (HeaderValue::from_str(value).unwrap(), header::IF_RANGE);
        let mut twice = fields;
        twice.append(name, again);
        assert!(!is_same_version(&twice, &file()), "{value:?} twice");
    }
    assert!(is_same_version(&HeaderMap::new(), &file()));
}

#[test]
fn without_a_reliable_mtime_validators_are_weak() {
    let (fresh, old) = (fresh_file(), file());
    assert_eq!(fresh.etag.to_str().unwrap(), format!("W/{}", own_tag()));
    assert_eq!(fresh.last_modified, old.last_modified);
    for value in [own_tag(), fresh.etag.to_str().unwrap().to_owned(), date(MODIFIED)] {
        let fields = fields(&[(header::IF_RANGE, value.as_str())]);
        assert!(!is_same_version(&fields, &fresh), "{value}");
    }
}

#[test]
fn every_file_time_gives_a_valid_date() {
    let now = UNIX_EPOCH + Duration::from_secs(MODIFIED);
    let days = |count: u64| Duration::from_secs(count * 86_400);
    // The year 12000: HTTP has four digits.
    let far = Validators::new(1, UNIX_EPOCH + days(3_663_000), now);
    assert_eq!(
        far.last_modified.to_str().unwrap(),
        date(MODIFIED),
        "never later than the response"
    );
    assert!(far.etag.to_str().unwrap().starts_with("W/\""));
    let old = Validators::new(1, UNIX_EPOCH - days(10_000), now);
    assert_eq!(old.last_modified.to_str().unwrap(), date(0));
    let older = Validators::new(1, UNIX_EPOCH - days(10_001), now);
    assert_ne!(old.etag, older.etag);
    assert_ne!(old.etag, Validators::new(1, UNIX_EPOCH + days(10_000), now).etag);
}

/// A tag in a list: this file's or not, weak or strong.
#[derive(Clone, Copy, Debug)]
struct Listed {
    is_own: bool,
    is_weak: bool,
}

/// The value of If-Match or If-None-Match.
#[derive(Clone, Debug)]
enum List {
    Any,
    Of(Vec<Listed>),
}

impl List {
    fn value(&self) -> String {
        let List::Of(tags) = self else { return "*".to_owned() };
        let tags = tags.iter().map(|tag| {
            let weak = if tag.is_weak { "W/" } else { "" };
            let own = own_tag();
            format!("{weak}{}", if tag.is_own { &own } else { "\"o,ther\"" })
        });
        tags.collect::<Vec<_>>().join(", ")
    }
}

fn list() -> impl Strategy<Value = Option<List>> {
    let tag = (any::<bool>(), any::<bool>()).prop_map(|(is_own, is_weak)| Listed { is_own, is_weak });
    let tags = prop::collection::vec(tag, 0..4).prop_map(List::Of);
    prop::option::of(prop_oneof![4 => tags, 1 => Just(List::Any)])
}

/// Seconds after the file's date; the inner `None` is an invalid date.
fn time() -> impl Strategy<Value = Option<Option<i64>>> {
    prop::option::of(prop::option::of(-2..=2_i64))
}

fn time_value(beside: Option<i64>) -> String {
    beside.map_or("no date".to_owned(), |beside| {
        date(MODIFIED.saturating_add_signed(beside))
    })
}

proptest! {
    #[test]
    fn conditions_have_the_precedence_of_the_rfc(
        matches in list(),
        unmodified in time(),
        none_match in list(),
        modified in time(),
    ) {
        let mut given = HeaderMap::new();
        let values = [
            (header::IF_MATCH, matches.as_ref().map(List::value)),
            (header::IF_UNMODIFIED_SINCE, unmodified.map(time_value)),
            (header::IF_NONE_MATCH, none_match.as_ref().map(List::value)),
            (header::IF_MODIFIED_SINCE, modified.map(time_value)),
        ];
        for (name, value) in values {
            value.map(|value| given.insert(name, HeaderValue::try_from(value).unwrap()));
        }
        // Step 1, else step 2.
        let goes_on = match (&matches, unmodified) {
            (Some(List::Of(tags)), _) => tags.iter().any(|tag| tag.is_own && !tag.is_weak),
            (None, Some(Some(beside))) => beside >= 0,
            (Some(List::Any), _) | (None, _) => true,
        };
        // Step 3, else step 4.
        let is_sent = match (&none_match, modified) {
            (Some(List::Any), _) => false,
            (Some(List::Of(tags)), _) => !tags.iter().any(|tag| tag.is_own),
            (None, Some(Some(beside))) => beside < 0,
            (None, _) => true,
        };
        let expected = match (goes_on, is_sent) {
            (false, _) => Evaluation::Failed,
            (true, false) => Evaluation::NotModified,
            (true, true) => Evaluation::Perform,
        };
        prop_assert_eq!(evaluate(&given, &file()), expected, "{:?}", given);
    }

    #[test]
    fn random_values_neither_panic_nor_match(
        bytes in prop::collection::vec(prop::sample::select(&b" \t,\"W/*a,\"-\x80\xff"[..]), 0..60),
    ) {
        prop_assume!(bytes != b"*");
        let value = HeaderValue::from_bytes(&bytes).unwrap();
        let only = |name: HeaderName| HeaderMap::from_iter([(name, value.clone())]);
        prop_assert_eq!(evaluate(&only(header::IF_MATCH), &file()), Evaluation::Failed);
        prop_assert_eq!(evaluate(&only(header::IF_NONE_MATCH), &file()), Evaluation::Perform);
        prop_assert_eq!(evaluate(&only(header::IF_MODIFIED_SINCE), &file()), Evaluation::Perform);
        prop_assert!(!is_same_version(&only(header::IF_RANGE), &file()));
    }

    #[test]
    fn a_tag_is_found_at_every_position_of_a_list(
        before in prop::collection::vec("(W/)?\"[!#-~]{0,5}\"", 0..5),
        separator in "[ \t]{0,2},[ \t,]{0,3}",
    ) {
        let list = before.iter().chain([&own_tag()]).map(String::as_str).collect::<Vec<_>>().join(&separator);
        let given = fields(&[(header::IF_MATCH, &list)]);
        prop_assert_eq!(evaluate(&given, &file()), Evaluation::Perform, "{}", list);
    }
}
