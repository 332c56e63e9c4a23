//! Tables of what proxies and liars send, and what is believed of it.

use proptest::prelude::*;
use sluice_settings::address::Peers;

use super::*;

fn settings(forwarded: ForwardedField) -> ProxySettings {
    let mut trusted = Peers::default();
    for network in ["10.0.0.0/8", "2001:db8:a::/48"] {
        trusted.add(network).unwrap();
    }
    ProxySettings { trusted, forwarded }
}

fn fields(name: &HeaderName, lines: &[&str]) -> HeaderMap {
    let line = |line: &&str| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap());
    lines.iter().map(line).collect()
}

/// Who is believed to be the client, as text; `-` for nobody.
fn client(forwarded: ForwardedField, lines: &[&str]) -> String {
    let name = match forwarded {
        ForwardedField::XForwardedFor => X_FORWARDED_FOR,
        ForwardedField::Forwarded => FORWARDED,
    };
    let told = read(&settings(forwarded), &fields(&name, lines));
    told.client.map_or("-".to_owned(), |client| client.to_string())
}

#[test]
fn x_forwarded_for_is_read_from_its_end_to_the_first_address_that_is_not_trusted() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "-"),
        (&[""], "-"),
        (&["192.0.2.1"], "192.0.2.1:0"),
        (&["192.0.2.1, 10.0.0.7, 10.1.2.3"], "192.0.2.1:0"),
        // What a client writes itself stands before what the proxy has seen.
        (&["6.6.6.6, 192.0.2.1, 10.0.0.7"], "192.0.2.1:0"),
        (&["6.6.6.6", "192.0.2.1", "10.0.0.7"], "192.0.2.1:0"),
        // All are proxies: the first of them has asked by itself.
        (&["10.0.0.8, 10.0.0.7"], "10.0.0.8:0"),
        // What is no address ends the way; the last good one stands.
        (&["192.0.2.1, unknown, 10.0.0.7"], "10.0.0.7:0"),
        (&["192.0.2.1, _hidden"], "-"),
        (&["192.0.2.1, 300.1.1.1"], "-"),
        (&["192.0.2.1, a b"], "-"),
        (&["192.0.2.1", "\u{e9}", "10.0.0.7"], "10.0.0.7:0"),
        // Proxies add to the client's own line, whatever stands in it.
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
        // A quote that a client has opened does not swallow what the proxy has added.
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
fn only_the_field_that_was_chosen_is_read() {
    let mut both = fields(&X_FORWARDED_FOR, &["192.0.2.1"]);
    both.extend(fields(&FORWARDED, &["for=192.0.2.2;proto=http"]));
    both.extend(fields(&X_FORWARDED_PROTO, &["https"]));
    let told = |forwarded| {
        let told = read(&settings(forwarded), &both);
        (told.client.map(|client| client.ip().to_string()), told.is_https)
    };
    assert_eq!(
        told(ForwardedField::XForwardedFor),
        (Some("192.0.2.1".to_owned()), Some(true))
    );
    assert_eq!(
        told(ForwardedField::Forwarded),
        (Some("192.0.2.2".to_owned()), Some(false))
    );
}

#[test]
fn the_scheme_is_that_of_who_speaks_with_the_client() {
    for (lines, expected) in [
        (&["https"][..], Some(true)),
        (&["HTTP"], Some(false)),
        (&["http, https"], Some(true)),
        (&["https", "http"], Some(false)),
        (&["gopher"], None),
        (&[], None),
    ] {
        let told = read(
            &settings(ForwardedField::XForwardedFor),
            &fields(&X_FORWARDED_PROTO, lines),
        );
        assert_eq!(told.is_https, expected, "{lines:?}");
    }
    for (line, expected) in [
        ("for=192.0.2.1;proto=https", Some(true)),
        ("for=192.0.2.1;proto=https, for=10.0.0.7;proto=http", Some(true)),
        ("for=6.6.6.6;proto=https, for=192.0.2.1;proto=http", Some(false)),
        ("for=192.0.2.1, for=10.0.0.7;proto=https", None),
        ("for=unknown;proto=https", None),
    ] {
        let told = read(&settings(ForwardedField::Forwarded), &fields(&FORWARDED, &[line]));
        assert_eq!(told.is_https, expected, "{line}");
    }
}

#[test]
fn a_long_row_of_proxies_is_not_followed_to_its_end() {
    let row: Vec<String> = (0..1000)
        .map(|number| format!("10.0.{}.{}", number / 250, number % 250))
        .collect();
    let last = row[row.len() - PROXIES_MAX].clone();
    assert_eq!(
        client(ForwardedField::XForwardedFor, &[&row.join(",")]),
        format!("{last}:0")
    );
}

proptest! {
    #[test]
    fn nothing_panics(text in "[-for=proto\";,\\\\:\\[\\]0-9. _x\u{e9}]{0,60}") {
        for forwarded in [ForwardedField::XForwardedFor, ForwardedField::Forwarded] {
            client(forwarded, &[&text]);
        }
    }

    /// Whatever stands before it, an address that the proxy has added is the client's.
    #[test]
    fn nothing_before_what_the_proxy_adds_counts(text in "[ -~]{0,60}") {
        prop_assert_eq!(client(ForwardedField::XForwardedFor, &[&format!("{text}, 192.0.2.1")]), "192.0.2.1:0");
        prop_assert_eq!(client(ForwardedField::Forwarded, &[&format!("{text}, for=\"192.0.2.1\"")]), "192.0.2.1:0");
    }
}
