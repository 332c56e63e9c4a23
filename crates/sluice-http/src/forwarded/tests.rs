//! Tables of fields, as proxies and forging clients send them, and the client that is read from them.

use proptest::prelude::*;

use super::*;

/// The proxies: 10.0.0.0/8 and 2001:db8:a::/48.
fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.segments()[..3] == [0x2001, 0xdb8, 0xa],
    }
}

fn fields(name: &HeaderName, lines: &[&str]) -> HeaderMap {
    let line = |line: &&str| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap());
    lines.iter().map(line).collect()
}

/// The client that is read from the fields, as text; `-` for none.
fn client(field: ForwardedField, lines: &[&str]) -> String {
    let name = match field {
        ForwardedField::XForwardedFor => X_FORWARDED_FOR,
        ForwardedField::Forwarded => FORWARDED,
    };
    let forwarded = read(field, is_trusted, &fields(&name, lines));
    forwarded.client.map_or("-".to_owned(), |client| client.to_string())
}

#[test]
fn x_forwarded_for_is_read_from_its_end_to_the_first_address_that_is_not_trusted() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "-"),
        (&[""], "-"),
        (&["192.0.2.1"], "192.0.2.1:0"),
        (&["192.0.2.1, 10.0.0.7, 10.1.2.3"], "192.0.2.1:0"),
        // A forged element stands before the elements that proxies have appended.
        (&["6.6.6.6, 192.0.2.1, 10.0.0.7"], "192.0.2.1:0"),
        (&["6.6.6.6", "192.0.2.1", "10.0.0.7"], "192.0.2.1:0"),
        // All are trusted proxies: the first one is the client.
        (&["10.0.0.8, 10.0.0.7"], "10.0.0.8:0"),
        // An invalid address ends the search; the last valid one is used.
        (&["192.0.2.1, unknown, 10.0.0.7"], "10.0.0.7:0"),
        (&["192.0.2.1, _hidden"], "-"),
        (&["192.0.2.1, 300.1.1.1"], "-"),
        (&["192.0.2.1, a b"], "-"),
        (&["192.0.2.1", "\u{e9}", "10.0.0.7"], "10.0.0.7:0"),
        // Proxies append to the client's own line, even if it is invalid.
        (&["\u{e9}, 192.0.2.1, 10.0.0.7"], "192.0.2.1:0"),
        (&[" , 192.0.2.1 ,, \t"], "192.0.2.1:0"),
        // Ports and brackets.
        (&["192.0.2.1:4711"], "192.0.2.1:4711"),
        (&["192.0.2.1:"], "-"),
        (&["192.0.2.1:+80"], "-"),
        (&["192.0.2.1:65536"], "-"),
        (&["2001:db8::1"], "[2001:db8::1]:0"),
        (&["[2001:db8::1]"], "[2001:db8::1]:0"),
        (&["[2001:db8::1]:4711, 2001:db8:a::5"], "[2001:db8::1]:4711"),
        (&["[2001:db8::1"], "-"),
        (&["fe80::1%eth0"], "-"),
        // An IPv4 address written as IPv6 is the same address.
        (&["192.0.2.1, ::ffff:10.0.0.7"], "192.0.2.1:0"),
        (&["::ffff:192.0.2.1"], "192.0.2.1:0"),
    ];
    for (lines, expected) in cases {
        assert_eq!(client(ForwardedField::XForwardedFor, lines), *expected, "{lines:?}");
    }
}

#[test]
fn forwarded_is_read_by_its_grammar() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "-"),
        (&["for=192.0.2.43"], "192.0.2.43:0"),
        (&["For=\"[2001:db8:cafe::17]:4711\""], "[2001:db8:cafe::17]:4711"),
        (&["for=192.0.2.60;proto=http;by=203.0.113.43"], "192.0.2.60:0"),
        (&["by=\"a,b;c\" ; for=\"192.0.2.43:47011\""], "192.0.2.43:47011"),
        (&["for=192.0.2.43, for=198.51.100.17"], "198.51.100.17:0"),
        (&["for=192.0.2.43, for=10.0.0.7", "for=\"10.0.0.8\""], "192.0.2.43:0"),
        (&["for=\"192.0.2.43:_http\""], "192.0.2.43:0"),
        (&["for=\"\\1\\92.0.2.43\""], "192.0.2.43:0"),
        (&["for=192.0.2.43, for=unknown"], "-"),
        (&["for=192.0.2.43, for=_gazonk, for=10.0.0.7"], "10.0.0.7:0"),
        (&["for=192.0.2.43, proto=https"], "-"),
        (&["for=192.0.2.43;for=192.0.2.44"], "-"),
        (&["for=192.0.2.43 x"], "-"),
        (&["192.0.2.43"], "-"),
        (&["for=\"192.0.2.43"], "-"),
        // A quotation mark that a client has opened does not hide the element that the proxy has appended.
        (&["for=\"6.6.6.6, for=192.0.2.1"], "192.0.2.1:0"),
        (&["for=\"6.6.6.6", "for=192.0.2.1"], "192.0.2.1:0"),
        (&["x=\"\\\", for=\"192.0.2.1\""], "192.0.2.1:0"),
        (&["for=6.6.6.6, x=\"a\\\\\", for=10.0.0.1"], "10.0.0.1:0"),
    ];
    for (lines, expected) in cases {
        assert_eq!(client(ForwardedField::Forwarded, lines), *expected, "{lines:?}");
    }
}

#[test]
fn only_the_configured_field_is_read() {
    let mut both = fields(&X_FORWARDED_FOR, &["192.0.2.1"]);
    both.extend(fields(&FORWARDED, &["for=192.0.2.2;proto=http"]));
    both.extend(fields(&X_FORWARDED_PROTO, &["https"]));
    let read_both = |field| {
        let forwarded = read(field, is_trusted, &both);
        (
            forwarded.client.map(|client| client.ip().to_string()),
            forwarded.is_https,
        )
    };
    assert_eq!(
        read_both(ForwardedField::XForwardedFor),
        (Some("192.0.2.1".to_owned()), Some(true))
    );
    assert_eq!(
        read_both(ForwardedField::Forwarded),
        (Some("192.0.2.2".to_owned()), Some(false))
    );
}

#[test]
fn the_scheme_is_that_of_the_clients_own_connection() {
    for (lines, expected) in [
        (&["https"][..], Some(true)),
        (&["HTTP"], Some(false)),
        (&["http, https"], Some(true)),
        (&["https", "http"], Some(false)),
        (&["gopher"], None),
        (&[], None),
    ] {
        let forwarded = read(
            ForwardedField::XForwardedFor,
            is_trusted,
            &fields(&X_FORWARDED_PROTO, lines),
        );
        assert_eq!(forwarded.is_https, expected, "{lines:?}");
    }
    for (line, expected) in [
        ("for=192.0.2.1;proto=https", Some(true)),
        ("for=192.0.2.1;proto=https, for=10.0.0.7;proto=http", Some(true)),
        ("for=6.6.6.6;proto=https, for=192.0.2.1;proto=http", Some(false)),
        ("for=192.0.2.1, for=10.0.0.7;proto=https", None),
        ("for=unknown;proto=https", None),
    ] {
        let forwarded = read(ForwardedField::Forwarded, is_trusted, &fields(&FORWARDED, &[line]));
        assert_eq!(forwarded.is_https, expected, "{line}");
    }
}

#[test]
fn at_most_proxies_max_elements_are_read() {
    let proxies: Vec<String> = (0..1000)
        .map(|number| format!("10.0.{}.{}", number / 250, number % 250))
        .collect();
    let last = proxies[proxies.len() - PROXIES_MAX].clone();
    assert_eq!(
        client(ForwardedField::XForwardedFor, &[&proxies.join(",")]),
        format!("{last}:0")
    );
}

proptest! {
    #[test]
    fn nothing_panics(text in "[-for=proto\";,\\\\:\\[\\]0-9. _x\u{e9}]{0,60}") {
        for field in [ForwardedField::XForwardedFor, ForwardedField::Forwarded] {
            client(field, &[&text]);
        }
    }

    /// The address that the proxy has appended is the client's, whatever text stands before it.
    #[test]
    fn text_before_the_appended_element_is_ignored(text in "[ -~]{0,60}") {
        prop_assert_eq!(client(ForwardedField::XForwardedFor, &[&format!("{text}, 192.0.2.1")]), "192.0.2.1:0");
        prop_assert_eq!(client(ForwardedField::Forwarded, &[&format!("{text}, for=\"192.0.2.1\"")]), "192.0.2.1:0");
    }
}
