//! Users files (htpasswd) and group files, parsed.
//!
//! ```text
//! ann:$argon2id$v=19$m=19456,t=2,p=1$…      staff: ann bob
//! bob:$2y$10$…                              editors: ann
//! ```
//! Empty lines and lines that begin with `#` are skipped, as in Apache. A file with a mistake is refused as a whole: a user who cannot
//! log in because of one line would be noticed later than a message at the start.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use crate::hash::{Kind, StoredHash};

/// Bytes of a user's or group's name.
pub const NAME_BYTES_MAX: usize = 128;

/// The users of a file.
#[derive(Debug, Default)]
pub struct Users {
    by_name: HashMap<Box<str>, StoredHash>,
    names: Vec<Box<str>>,
    slowest: Vec<StoredHash>,
}

impl Users {
    /// Parses a users file.
    ///
    /// # Errors
    /// The first mistake, with its line: `3: user "ann" has no password: …`.
    pub fn parse(text: &str) -> Result<Users, String> {
        let mut users = Users::default();
        for (number, line) in lines(text) {
            let Some((name, rest)) = line.split_once(':') else {
                return Err(format!(
                    "{number}: a line is written NAME:HASH, as \"sluice passwd\" and htpasswd do"
                ));
            };
            check_name("user", name).map_err(|message| format!("{number}: {message}"))?;
            // Other programs may write further fields behind the hash.
            let hash = rest.split(':').next().unwrap_or_default();
            let hash = StoredHash::parse(hash).map_err(|message| format!("{number}: user \"{name}\" {message}"))?;
            if users.by_name.insert(name.into(), hash).is_some() {
                return Err(format!(
                    "{number}: user \"{name}\" is in the file twice: remove one of the lines"
                ));
            }
            users.names.push(name.into());
        }
        let of_kind = |kind: Kind| {
            let hashes = users.by_name.values().filter(|hash| hash.kind == kind);
            hashes.max_by_key(|hash| hash.cost).cloned()
        };
        users.slowest = Kind::ALL.into_iter().filter_map(of_kind).collect();
        Ok(users)
    }

    /// The hash of a user's password.
    #[must_use]
    pub fn hash(&self, name: &str) -> Option<&StoredHash> {
        self.by_name.get(name)
    }

    /// The slowest hash of each kind in the file but that of `own`: what a wrong password is compared with besides the user's own hash, so
    /// that it takes the same time for each user and for an unknown one. Empty if the file has no other kinds.
    pub fn hashes_besides(&self, own: Option<&StoredHash>) -> impl Iterator<Item = &StoredHash> {
        let own = own.map(|hash| hash.kind);
        self.slowest.iter().filter(move |hash| Some(hash.kind) != own)
    }

    /// The names, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// A line about each kind of weak hash: who has one, and why it is weak.
    #[must_use]
    pub fn weak_hashes(&self) -> Vec<String> {
        const SHOWN: usize = 3;
        let mut by_weakness: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in self.names() {
            if let Some(weakness) = self.hash(name).and_then(StoredHash::weakness) {
                by_weakness.entry(weakness).or_default().push(name);
            }
        }
        let line = |(weakness, names): (&str, Vec<&str>)| {
            let shown = names[..names.len().min(SHOWN)].join(", ");
            let more = match names.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("weak hash of {shown}{more}: {weakness}: set the password again with \"sluice passwd\"")
        };
        by_weakness.into_iter().map(line).collect()
    }
}

/// The groups of a file, by user.
#[derive(Debug, Default)]
pub struct Groups {
    by_user: HashMap<Box<str>, Vec<Arc<str>>>,
    empty: Vec<Box<str>>,
    names: Vec<Arc<str>>,
}

impl Groups {
    /// Parses a group file: `staff: ann bob`. A group may have several lines.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(text: &str) -> Result<Groups, String> {
        let mut groups = Groups::default();
        for (number, line) in lines(text) {
            let Some((name, users)) = line.split_once(':') else {
                return Err(format!("{number}: a line is written GROUP: USER USER …"));
            };
            let name = name.trim();
            check_name("group", name).map_err(|message| format!("{number}: {message}"))?;
            if name.contains(char::is_whitespace) {
                return Err(format!("{number}: group \"{name}\": a name has no blanks"));
            }
            let group: Arc<str> = name.into();
            if users.split_whitespace().next().is_none() {
                groups.empty.push(name.into());
            }
            for user in users.split_whitespace() {
                let own = groups.by_user.entry(user.into()).or_default();
                if !own.contains(&group) {
                    own.push(Arc::clone(&group));
                }
            }
            groups.names.push(group);
        }
        Ok(groups)
    }

    /// The groups of a user.
    #[must_use]
    pub fn of(&self, user: &str) -> &[Arc<str>] {
        self.by_user.get(user).map_or(&[], Vec::as_slice)
    }

    /// Whether the file has a group of this name.
    #[must_use]
    pub fn has(&self, group: &str) -> bool {
        self.names.iter().any(|name| **name == *group)
    }

    /// The names of the groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The groups that have no users.
    pub fn empty(&self) -> impl Iterator<Item = &str> {
        self.empty.iter().map(|name| &**name)
    }

    /// The users of groups, in alphabetical order.
    #[must_use]
    pub fn users(&self) -> Vec<&str> {
        let mut users: Vec<&str> = self.by_user.keys().map(|name| &**name).collect();
        users.sort_unstable();
        users
    }
}

/// The lines with content, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines().map(str::trim_end));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Checks the name of a user or group.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(kind: &str, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("the {kind} has no name"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("the name of the {kind} has more than {NAME_BYTES_MAX} bytes"));
    }
    if name.contains(':') || name.chars().any(char::is_control) {
        return Err(format!(
            "{kind} {name:?}: a name has no colon and no control characters"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=";

    #[test]
    fn users_are_read_with_comments_and_further_fields() {
        let text = format!("# staff\n\nann:{HASH}\r\nbob:{HASH}:Bob:x\n");
        let users = Users::parse(&text).unwrap();
        assert_eq!(users.names().collect::<Vec<_>>(), ["ann", "bob"]);
        assert!(users.hash("ann").unwrap().verify(b"open sesame"));
        assert!(users.hash("eve").is_none());
        let weak = users.weak_hashes();
        assert!(
            weak.len() == 1 && weak[0].starts_with("weak hash of ann, bob: {SHA}"),
            "{weak:?}"
        );
    }

    #[test]
    fn a_wrong_password_costs_one_hash_of_each_kind_whoever_the_user_is() {
        let fast = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";
        let slow = fast.replace("$05$", "$12$");
        let rounds = "$6$rounds=1000$saltsalt$/IiX/CoEcxCZ9SksEXnbjfCT1LGvD4z5OpJkaFYl/T37OAwuKZ8I8BixDhruhPLkw6lS7dw/6wQWgQnGo7lLg/";
        let usual =
            "$6$saltsalt$e/5XKibXPLqVcfjpD.ouauaJrAOL5V0uo80Lt7n7EbRdRiCx3HbQ90yjOHr.G0T.mx79PEMRy8nmtr0qSYhQp1";
        let text = format!("ann:{HASH}\nbob:{fast}\neve:{slow}\nzoe:{rounds}\nzac:{usual}\n");
        let users = Users::parse(&text).unwrap();
        let besides = |name| -> Vec<(Kind, u64)> {
            let hashes = users.hashes_besides(users.hash(name));
            hashes.map(|hash| (hash.kind, hash.cost)).collect()
        };
        let (bcrypt, sha_crypt, sha1) = ((Kind::Bcrypt, 12), (Kind::ShaCrypt, 5000), (Kind::Sha1, 1));
        assert_eq!(besides("nobody"), [bcrypt, sha_crypt, sha1]);
        assert_eq!(besides("ann"), [bcrypt, sha_crypt]);
        assert_eq!(besides("eve"), [sha_crypt, sha1]);
        assert_eq!(besides("zac"), [bcrypt, sha1]);
    }

    #[test]
    fn mistakes_in_users_files_are_reported_with_their_line() {
        for (text, expected) in [
            ("ann".to_owned(), "1: a line is written NAME:HASH"),
            (format!("#\n:{HASH}"), "2: the user has no name"),
            ("ann:secret".to_owned(), "1: user \"ann\" has a password in clear text"),
            (
                format!("ann:{HASH}\nann:{HASH}"),
                "2: user \"ann\" is in the file twice",
            ),
            (
                format!("a\tb:{HASH}"),
                "1: user \"a\\tb\": a name has no colon and no control",
            ),
            (format!("{}:{HASH}", "a".repeat(129)), "more than 128 bytes"),
        ] {
            let error = Users::parse(&text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn groups_are_read_by_user() {
        let groups = Groups::parse("# groups\nstaff: ann bob\neditors:ann\nstaff: eve ann\nnobody:\n").unwrap();
        let of = |user| groups.of(user).iter().map(|name| &**name).collect::<Vec<_>>();
        assert_eq!(of("ann"), ["staff", "editors"]);
        assert_eq!((of("eve"), of("zoe")), (vec!["staff"], vec![]));
        assert_eq!(groups.empty().collect::<Vec<_>>(), ["nobody"]);
        assert!(groups.has("nobody") && !groups.has("ann"));
        assert_eq!(groups.users(), ["ann", "bob", "eve"]);
        for (text, expected) in [
            ("staff", "1: a line is written GROUP:"),
            ("a b: c", "has no blanks"),
            (": a", "no name"),
        ] {
            let error = Groups::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "([a-z:$#{} ]|\\PC|\n){0,80}") {
            let _ = (Users::parse(&text).map(|users| users.weak_hashes()), Groups::parse(&text));
        }
    }
}
