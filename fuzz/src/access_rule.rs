//! The entries of access rules: `user:ann bob`, `net:192.0.2.0/24`, `certificate:CN=ann`, `!group:staff` …
//!
//! Properties: an entry is written as it was read; a network contains exactly the addresses with its prefix; a rule of several entries
//! grants what its entries grant (one of them, or all), and nothing to those who are excluded; a user who is not known never gets more
//! than one who is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sluice_access::rules::{Permission, User, Visitor, check as permission};
use sluice_settings::rule::{AccessRule, Require};

use crate::input::Input;

/// Entries of one rule.
const ENTRIES_MAX: usize = 16;

/// Input: a byte of flags (1: all entries must hold, 2: IPv6, 4: a user, 8: a certificate), the address, a line with the name of the user,
/// one with the group, one with the subject of the certificate, then a line for each entry.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    let require = if flags & 1 == 0 { Require::Any } else { Require::All };
    let client: IpAddr = if flags & 2 == 0 {
        Ipv4Addr::from_bits(u32::from(input.short()) << 16 | u32::from(input.short())).into()
    } else {
        Ipv6Addr::from_bits(u128::from(input.long()) << 64 | u128::from(input.long())).into()
    };
    let (name, group, subject) = (text(&mut input), text(&mut input), text(&mut input));
    let mut entries = Vec::new();
    while !input.is_empty() && entries.len() < ENTRIES_MAX {
        entries.push(text(&mut input));
    }
    let user = User {
        name: name.into(),
        groups: [Arc::from(group)].into(),
        auth_type: "Basic",
    };
    let visitor = Visitor {
        client: (flags & 16 == 0).then_some(client),
        certificate: (flags & 8 != 0).then_some(subject),
        user: (flags & 4 != 0).then_some(&user),
    };
    entries.iter().for_each(|entry| check_entry(entry, client));
    if let Ok(rule) = AccessRule::parse(require, entries.iter().copied()) {
        check_rule(&rule, &visitor);
    }
}

fn text<'a>(input: &mut Input<'a>) -> &'a str {
    str::from_utf8(input.line()).unwrap_or_default()
}

fn check_entry(text: &str, client: IpAddr) {
    let Ok(rule) = AccessRule::parse(Require::Any, [text]) else {
        return;
    };
    let shown = rule.to_string();
    let again = AccessRule::parse(Require::Any, [shown.as_str()]);
    assert_eq!(again.as_ref(), Ok(&rule), "{text:?} is shown as {shown:?}");
    let Some(networks) = text.strip_prefix("net:") else {
        return;
    };
    let visitor = Visitor {
        client: Some(client),
        certificate: None,
        user: None,
    };
    let expected = networks
        .split_whitespace()
        .any(|network| holds(network, client.to_canonical()));
    let granted = permission(&rule, &visitor) == Permission::Granted(None);
    assert_eq!(granted, expected, "{text:?} and {client}");
}

/// Whether a network has an address: by its bits.
fn holds(network: &str, client: IpAddr) -> bool {
    let (address, bits) = match network.split_once('/') {
        Some((address, bits)) => (address, bits.parse().expect("a number of bits")),
        None => (network, 128),
    };
    let prefix = |address: u128, length: u32, bits: u32| address.checked_shr(length.saturating_sub(bits)).unwrap_or(0);
    match (address.parse().expect("an address"), client) {
        (IpAddr::V4(network), IpAddr::V4(client)) => {
            prefix(network.to_bits().into(), 32, bits) == prefix(client.to_bits().into(), 32, bits)
        }
        (IpAddr::V6(network), IpAddr::V6(client)) => {
            prefix(network.to_bits(), 128, bits) == prefix(client.to_bits(), 128, bits)
        }
        _ => false,
    }
}

fn check_rule(rule: &AccessRule, visitor: &Visitor<'_>) {
    let is_granted = |rule: &AccessRule| matches!(permission(rule, visitor), Permission::Granted(_));
    let alone = |entry: &sluice_settings::rule::AccessEntry| AccessRule {
        require: Require::Any,
        entries: vec![entry.clone()],
        but: Vec::new(),
    };
    let granted = is_granted(rule);
    if rule.but.iter().any(|entry| is_granted(&alone(entry))) {
        assert!(!granted, "{rule} grants to somebody whom it excludes");
        return;
    }
    let mut entries = rule.entries.iter().map(|entry| is_granted(&alone(entry)));
    let expected = match rule.require {
        Require::Any => entries.any(|granted| granted),
        Require::All => entries.all(|granted| granted),
    };
    assert_eq!(granted, expected, "{rule}");
    if visitor.user.is_some() {
        assert_ne!(
            permission(rule, visitor),
            Permission::NeedsUser,
            "{rule} does not decide"
        );
    } else if granted {
        // Whoever it is: nobody is excluded who is let in without a name, unless by name.
        let excludes_users = rule.but.iter().any(sluice_settings::rule::AccessEntry::is_about_users);
        assert!(
            excludes_users || rule.entries.iter().any(|entry| !entry.is_about_users()),
            "{rule}"
        );
    }
}
