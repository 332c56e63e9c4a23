//! Entries as they are written and shown, and the messages about wrong ones.

use super::*;

fn parse(texts: &[&str]) -> Result<AccessRule, String> {
    AccessRule::parse(Require::Any, texts.iter().copied())
}

#[test]
fn entries_are_read_and_shown_as_they_are_written() {
    let texts = [
        "all",
        "any-user",
        "user:ann bob",
        "group:staff",
        "group:\"Domain Admins\" staff",
        "user:\"Ann \\\"A\\\" Author\"",
        "user:EXAMPLE\\ann",
        "net:192.0.2.0/24 ::1",
        "certificate:CN=ann,O=Example",
    ];
    for text in texts {
        assert_eq!(parse(&[text]).unwrap().to_string(), text);
    }
    assert_eq!(
        parse(&["any-user", "net:10.0.0.0/8", "!user:eve", "!net:10.0.0.1"])
            .unwrap()
            .to_string(),
        "any-user or net:10.0.0.0/8, but not user:eve or net:10.0.0.1"
    );
}

#[test]
fn wrong_entries_are_reported_with_what_to_write() {
    for (text, expected) in [
        ("ann", "a user is written \"user:ann\""),
        ("valid-user", "\"any-user\""),
        ("user:", "names nothing"),
        ("users:ann", "is written \"user:ann\""),
        ("192.0.2.1", "a network is written \"net:192.0.2.1\""),
        ("ip:192.0.2.1", "networks are written \"net:192.0.2.1\""),
        ("net:example.org", "must be an address or a network"),
        ("certificate:ann", "is not an attribute"),
        ("a-b", "must be \"any-user\""),
        ("!all", "nobody would have access"),
        ("!user:eve", "nobody would have access"),
    ] {
        let error = parse(&[text]).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(parse(&[]).unwrap_err().contains("nobody would have access"));
}

#[test]
fn a_name_with_blanks_is_in_quotation_marks() {
    let names = |text: &str| {
        let rule = parse(&[text]).unwrap();
        rule.groups().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names("group:\"Domain Admins\""), ["Domain Admins"]);
    assert_eq!(
        names("group: staff \"Domain Admins\"  editors"),
        ["staff", "Domain Admins", "editors"]
    );
    assert_eq!(names("group:Domain Admins"), ["Domain", "Admins"]);
    assert_eq!(names("group:\"A\\B \\\\ \\\"\""), ["A\\B \\ \""]);
    let as_one = |text: &str| parse(&[text]).unwrap().entries[0].as_one_name();
    assert_eq!(
        as_one("group:Domain Admins").as_deref(),
        Some("group:\"Domain Admins\"")
    );
    assert_eq!(as_one("group:\"Domain Admins\" staff"), None);
    assert_eq!(as_one("group:staff"), None);
    for (text, expected) in [
        ("group:\"Domain Admins", "does not end with one"),
        ("group:\"Domain Admins\\", "does not end with one"),
        ("group:\"\"", "is empty"),
        ("group:Domain\"Admins\"", "begins or ends a name"),
        ("group:\"Domain Admins\"staff", "a blank must follow"),
        (
            "!group:Domain Admins",
            "Write '!group:\"Domain Admins\"', or an entry for each name",
        ),
        ("!user:Ann Author", "Write '!user:\"Ann Author\"'"),
    ] {
        let error = parse(&["any-user", text]).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let rule = parse(&[
        "any-user",
        "!group:\"Domain Admins\"",
        "!user:eve",
        "!net:10.0.0.1 10.0.0.2",
    ])
    .unwrap();
    assert_eq!(rule.but[0], AccessEntry::Groups(vec!["Domain Admins".to_owned()]));
}

#[test]
fn names_are_split_at_commas_that_are_not_escaped() {
    assert_eq!(
        split_name("CN=Ann\\, Miss, O=A\\\\,C=X"),
        ["CN=Ann\\, Miss", "O=A\\\\", "C=X"]
    );
    assert_eq!(split_name("CN=a\\  , O=b\\\\ "), ["CN=a\\ ", "O=b\\\\"]);
}

#[test]
fn safe_methods_read() {
    for (method, expected) in [
        ("GET", true),
        ("PROPFIND", true),
        ("POST", false),
        ("PUT", false),
        ("get", false),
    ] {
        assert_eq!(
            is_read(&Method::from_bytes(method.as_bytes()).unwrap()),
            expected,
            "{method}"
        );
    }
}
