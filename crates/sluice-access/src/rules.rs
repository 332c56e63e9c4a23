//! Whether a request satisfies a rule: a pure decision of entries and what is known of the client.
//!
//! | of the entries | any | all |
//! |---|---|---|
//! | some hold | granted | needs a user, if the others depend on one; else denied |
//! | none holds, some depend on a user | needs a user | needs a user, if the others hold; else denied |
//! | none can hold | denied | denied |

use std::net::IpAddr;
use std::sync::Arc;

use sluice_settings::rule::{AccessEntry, AccessRule, Require, split_name};

/// A user who has proved who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: Arc<str>,
    /// Their groups.
    pub groups: Arc<[Arc<str>]>,
    /// How they have proved it, for AUTH_TYPE: `Basic`, for example.
    pub auth_type: &'static str,
}

/// The facts about the client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// The address. `None` if nobody has named it: then no network is known to contain it, and none is known not to.
    pub client: Option<IpAddr>,
    /// The subject of its verified certificate, as RFC 4514 writes it.
    pub certificate: Option<&'a str>,
    /// The user. `None` if there is no proof yet.
    pub user: Option<&'a User>,
}

/// Whether a request has the right to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Access is granted, by this group if an entry about groups decided.
    Granted(Option<Arc<str>>),
    /// The answer depends on the user, who is not known.
    NeedsUser,
    /// Access is denied.
    Denied,
}

#[derive(PartialEq, Eq)]
enum Holds {
    Yes(Option<Arc<str>>),
    No,
    DependsOnUser,
}

/// Whether a visitor satisfies a rule.
#[must_use]
pub fn check(rule: &AccessRule, visitor: &Visitor<'_>) -> Permission {
    // A client without a user is not excluded by an entry about users. A client without a known address is excluded by each entry about networks.
    let may_be_meant = |entry: &AccessEntry| match entry {
        AccessEntry::Networks(_) if visitor.client.is_none() => true,
        entry => matches!(holds(entry, visitor), Holds::Yes(_)),
    };
    if rule.but.iter().any(may_be_meant) {
        return Permission::Denied;
    }
    let mut depends_on_user = false;
    let mut group = None;
    for entry in &rule.entries {
        match (holds(entry, visitor), rule.require) {
            (Holds::Yes(by), Require::Any) => return Permission::Granted(by),
            (Holds::Yes(by), Require::All) => group = group.or(by),
            (Holds::No, Require::Any) => {}
            (Holds::No, Require::All) => return Permission::Denied,
            (Holds::DependsOnUser, _) => depends_on_user = true,
        }
    }
    match rule.require {
        _ if depends_on_user => Permission::NeedsUser,
        Require::Any => Permission::Denied,
        Require::All => Permission::Granted(group),
    }
}

fn holds(entry: &AccessEntry, visitor: &Visitor<'_>) -> Holds {
    let is = |holds: bool| if holds { Holds::Yes(None) } else { Holds::No };
    let of_user = |test: &dyn Fn(&User) -> Holds| visitor.user.map_or(Holds::DependsOnUser, test);
    match entry {
        AccessEntry::All => Holds::Yes(None),
        AccessEntry::AnyUser => of_user(&|_| Holds::Yes(None)),
        AccessEntry::Users(names) => of_user(&|user| is(names.iter().any(|name| **name == *user.name))),
        AccessEntry::Groups(names) => of_user(&|user| {
            let mut own = user.groups.iter();
            let group = own.find(|group| names.iter().any(|name| **name == ***group));
            group.map_or(Holds::No, |group| Holds::Yes(Some(Arc::clone(group))))
        }),
        AccessEntry::Networks(networks) => is(visitor.client.is_some_and(|client| networks.contain(client))),
        AccessEntry::Certificate(attributes) => is(visitor.certificate.is_some_and(|subject| {
            let subject = split_name(subject);
            attributes.iter().all(|attribute| subject.contains(attribute))
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.into(),
            groups: groups.iter().map(|group| Arc::from(*group)).collect(),
            auth_type: "Basic",
        }
    }

    /// The permission of a client at 192.0.2.7 with the certificate of Ann.
    fn permission(require: Require, entries: &[&str], user: Option<&User>) -> &'static str {
        let rule = AccessRule::parse(require, entries.iter().copied()).unwrap();
        let visitor = Visitor {
            client: "192.0.2.7".parse().ok(),
            certificate: Some("CN=ann,O=A\\, B"),
            user,
        };
        match check(&rule, &visitor) {
            Permission::Granted(None) => "granted",
            Permission::Granted(Some(group)) if *group == *"staff" => "granted by staff",
            Permission::Granted(Some(_)) => "granted by another group",
            Permission::NeedsUser => "needs user",
            Permission::Denied => "denied",
        }
    }

    #[test]
    fn any_of_the_entries_grants() {
        let (ann, eve) = (user("ann", &["all", "staff"]), user("eve", &[]));
        for (entries, nobody, as_ann, as_eve) in [
            (&["all"][..], "granted", "granted", "granted"),
            (&["any-user"], "needs user", "granted", "granted"),
            (&["user:bob ann"], "needs user", "granted", "denied"),
            (&["group:editors staff"], "needs user", "granted by staff", "denied"),
            (&["net:192.0.2.0/24"], "granted", "granted", "granted"),
            (&["net:10.0.0.0/8"], "denied", "denied", "denied"),
            (&["net:10.0.0.0/8", "user:ann"], "needs user", "granted", "denied"),
            (&["net:192.0.2.7", "user:ann"], "granted", "granted", "granted"),
            (&["certificate:CN=ann"], "granted", "granted", "granted"),
            (&["certificate:O=A\\, B,CN=ann"], "granted", "granted", "granted"),
            (&["certificate:CN=an"], "denied", "denied", "denied"),
            (&["any-user", "!user:eve"], "needs user", "granted", "denied"),
            (&["all", "!net:192.0.2.7"], "denied", "denied", "denied"),
            (&["all", "!user:eve"], "granted", "granted", "denied"),
        ] {
            for (user, expected) in [(None, nobody), (Some(&ann), as_ann), (Some(&eve), as_eve)] {
                assert_eq!(
                    permission(Require::Any, entries, user),
                    expected,
                    "{entries:?} {user:?}"
                );
            }
        }
    }

    #[test]
    fn all_of_the_entries_must_hold() {
        let (ann, eve) = (user("ann", &["staff"]), user("eve", &[]));
        for (entries, nobody, as_ann, as_eve) in [
            (
                &["net:192.0.2.0/24", "any-user"][..],
                "needs user",
                "granted",
                "granted",
            ),
            (&["net:10.0.0.0/8", "any-user"], "denied", "denied", "denied"),
            (&["any-user", "net:10.0.0.0/8"], "denied", "denied", "denied"),
            (
                &["net:192.0.2.0/24", "group:staff"],
                "needs user",
                "granted by staff",
                "denied",
            ),
            (
                &["certificate:CN=ann", "net:192.0.2.7"],
                "granted",
                "granted",
                "granted",
            ),
        ] {
            for (user, expected) in [(None, nobody), (Some(&ann), as_ann), (Some(&eve), as_eve)] {
                assert_eq!(
                    permission(Require::All, entries, user),
                    expected,
                    "{entries:?} {user:?}"
                );
            }
        }
    }

    #[test]
    fn a_client_whose_address_nobody_knows_is_in_no_network_and_may_be_in_each() {
        let check = |entries: &[&str]| {
            let rule = AccessRule::parse(Require::Any, entries.iter().copied()).unwrap();
            let visitor = Visitor { client: None, certificate: None, user: None };
            check(&rule, &visitor)
        };
        assert_eq!(check(&["net:0.0.0.0/0 ::/0"]), Permission::Denied);
        assert_eq!(check(&["net:127.0.0.0/8", "any-user"]), Permission::NeedsUser);
        assert_eq!(check(&["all", "!net:192.0.2.7"]), Permission::Denied);
        assert_eq!(check(&["all"]), Permission::Granted(None));
    }
}
