//! Users files (htpasswd) and group files.
//!
//! Properties: what is read is in the file, each name once, with a hash that is accepted alone, too; a comment or an empty line changes
//! nothing; a mistake is reported with a line of the file. No password is verified, because that takes long.

use sluice_access::hash::StoredHash;
use sluice_access::users::{Groups, Users, check_name};

use crate::input::Input;

/// Input: a byte (odd: a group file), then the file.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let is_groups = input.byte() & 1 == 1;
    let Ok(text) = str::from_utf8(input.rest()) else {
        return;
    };
    if is_groups {
        check_groups(text);
    } else {
        check_users(text);
    }
}

fn check_users(text: &str) {
    let users = match Users::parse(text) {
        Ok(users) => users,
        Err(message) => return check_message(text, &message),
    };
    let names: Vec<&str> = users.names().collect();
    for (index, name) in names.iter().enumerate() {
        assert!(
            check_name("user", name).is_ok() && !names[..index].contains(name),
            "{name:?}"
        );
        assert!(users.hash(name).is_some(), "{name:?}");
        let begin = format!("{name}:");
        let line = text
            .lines()
            .find(|line| line.starts_with(&begin))
            .expect("a line of the user");
        let hash = line[begin.len()..].trim_end().split(':').next().unwrap_or_default();
        assert!(StoredHash::parse(hash).is_ok(), "{hash:?}");
    }
    assert_eq!(users.hashes_besides(None).next().is_some(), !names.is_empty());
    let lines = names.len();
    assert!(users.weak_hashes().len() <= lines.min(2));
    let with_comments = format!("# a comment: x\n\n{}", text.replace('\n', "\n#\n\n"));
    let again = Users::parse(&with_comments).expect("comments change nothing");
    assert!(again.names().eq(names));
}

fn check_groups(text: &str) {
    let groups = match Groups::parse(text) {
        Ok(groups) => groups,
        Err(message) => return check_message(text, &message),
    };
    for user in groups.users() {
        let own = groups.of(user);
        assert!(!own.is_empty() && !user.is_empty(), "{user:?}");
        for (index, group) in own.iter().enumerate() {
            assert!(groups.has(group) && !own[..index].contains(group), "{group:?}");
            assert!(check_name("group", group).is_ok() && !group.contains(char::is_whitespace));
        }
    }
    assert!(groups.empty().all(|group| groups.has(group)));
    let again = Groups::parse(&format!("{text}\n# {text}").replace('\r', "")).map(|groups| groups.users().len());
    // The text may have several lines, of which only the first is then a comment.
    if !text.contains(['\n', '\r']) {
        assert_eq!(again, Ok(groups.users().len()));
    }
}

/// A message begins with the number of a line.
fn check_message(text: &str, message: &str) {
    let number = message
        .split(':')
        .next()
        .and_then(|number| number.parse::<usize>().ok());
    let lines = text.lines().count();
    assert!(number.is_some_and(|number| (1..=lines).contains(&number)), "{message}");
}
