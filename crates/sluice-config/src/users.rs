//! The users of the processes: `[server.script_owners]`, and `user` of scripts.

use std::fs::read_to_string;

use sluice_launch::{Account, Credentials, account_by_name, account_by_number, group_by_name};
use sluice_settings::{OwnerSettings, ScriptSettings, ScriptUser, Settings, User};

use super::key::{Key, Section, between};
use super::script_draft::Draft;
use super::suggest;
use super::table::Table;

/// The word for the owner of a script.
const OWNER: &str = "owner";

/// The word for all users with an account.
const ALL: &str = "*";

/// `user` of a script.
pub(super) const RUN_AS: Key<Draft> = Key::text("user", |script, text, written| {
    script.settings.confinement.user = match (text.as_str(), parse_user(&text)) {
        (OWNER, _) => ScriptUser::Owner,
        (_, Ok(user)) => ScriptUser::Named(user),
        (_, Err(fault)) if written.document().is_start() => {
            let fault = format!("{}: {fault}", written.shown().value);
            let document = written.document();
            let instead = "until the next reload the answer is 503";
            document.report_fault(written.line, "/etc/passwd".as_ref(), &fault, instead);
            ScriptUser::Unknown { name: text, fault }
        }
        (_, Err(fault)) => return Err(fault),
    };
    Ok(())
});

pub(super) static OWNERS: Section<OwnerSettings> = Section {
    title: "[server.script_owners]",
    keys: &[
        Key::words("users", |owners, names, _| {
            for name in names {
                match name.as_str() {
                    ALL => owners.is_for_all = true,
                    name => owners
                        .users
                        .push(parse_user(name).map_err(|error| format!("\"{name}\": {error}"))?),
                }
            }
            Ok(())
        }),
        Key::words("groups", |owners, names, _| {
            for name in names {
                owners.groups.push(parse_group(&name)?);
            }
            Ok(())
        }),
        Key::number(
            "uid_min",
            "a user",
            between(1, u32::MAX as u64 - 1, "root is 0, and no script runs as root"),
            |owners, least| owners.uid_min = u32::try_from(least).unwrap_or(u32::MAX),
        ),
        Key::texts("directories", |owners, paths, written| {
            owners.directories = written.each(paths, |path, line| match path {
                "" => Err("directories: needs paths, as in \"/home\"".to_owned()),
                path => Ok(written.document().resolve(line, path)),
            });
            Ok(())
        }),
    ],
};

pub(super) fn check_owners(owners: &OwnerSettings, table: &Table<'_>) {
    if !table.has("directories") || owners.directories.is_empty() && !table.document.has_mistakes() {
        table.report_missing("directories");
    }
    if !table.has("users") && !table.has("groups") {
        table.report(
            "[server.script_owners] permits nobody: write, for instance, users = [\"alice\"] or groups = [\"staff\"]; users = \"*\" permits everybody",
        );
    }
}

/// Reports a user that does not go with the rest of a script's keys.
pub(super) fn check_user(script: &ScriptSettings, table: &Table<'_>) {
    if script.mode.has_engine() && script.confinement.user == ScriptUser::Owner {
        let message = "the processes of an engine run the scripts of all owners: name one user, or write mode = \"cgi\" or \"cgiplus\"";
        table.refuse("user", message);
    }
    if script.confinement.user == ScriptUser::Owner && !table.document.permits_owners() {
        let message = "nobody is permitted yet: add [server.script_owners] with users = [\"alice\"] and directories = [\"/home\"]";
        table.refuse("user", message);
    }
}

/// Sets the user of all scripts for routes that name none.
pub(super) fn finish(settings: &mut Settings) {
    let Some(usual) = settings.users.scripts.clone() else {
        return;
    };
    for script in settings.scripts_mut() {
        if script.confinement.user == ScriptUser::Usual {
            script.confinement.user = ScriptUser::Named(usual.clone());
        }
    }
}

/// A user with its groups, as `user` of `[server]` names it.
///
/// # Errors
/// A message about the text.
pub fn parse_user(text: &str) -> Result<User, String> {
    let (name, group) = match text.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (text, None),
    };
    let number = name.parse::<u32>().ok();
    let account = match number {
        Some(uid) => account_by_number(uid),
        None => account_by_name(name),
    };
    let uid = match (number, &account) {
        (Some(uid), _) => uid,
        (None, Some(account)) => account.uid,
        (None, None) => return Err(unknown_user(name)),
    };
    let gid = match (group, &account) {
        (Some(group), _) => parse_group(group)?,
        (None, Some(account)) => account.gid,
        (None, None) => {
            return Err(format!(
                "user {uid} has no account on this machine, so its group is not known: write it, as in \"{uid}:{uid}\""
            ));
        }
    };
    if uid == 0 {
        return Err("is root: name another user, such as \"www-data\" or \"nobody\"".to_owned());
    }
    if gid == 0 {
        return Err("has the group of root: name another group, as in \"name:group\"".to_owned());
    }
    let groups = match (&account, group) {
        (Some(account), None) => account.groups(),
        _ => vec![gid],
    };
    Ok(User {
        name: text.to_owned(),
        credentials: Credentials { uid, gid, groups },
        login: account.as_ref().and_then(login),
        home: account.map(|account| home(&account)),
    })
}

fn login(account: &Account) -> Option<String> {
    String::from_utf8(account.name.clone()).ok()
}

fn home(account: &Account) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(&account.home).into()
}

fn parse_group(text: &str) -> Result<u32, String> {
    if let Ok(gid) = text.parse() {
        return Ok(gid);
    }
    group_by_name(text).ok_or_else(|| {
        let names = names_of("/etc/group");
        let hint = match suggest::similar(text, names.iter().map(String::as_str)) {
            Some(similar) => format!("did you mean \"{similar}\"?"),
            None => "create it (groupadd), or write a number".to_owned(),
        };
        format!("there is no group \"{}\" on this machine; {hint}", text.escape_debug())
    })
}

fn unknown_user(name: &str) -> String {
    let names = names_of("/etc/passwd");
    let hint = match suggest::similar(name, names.iter().map(String::as_str)) {
        Some(similar) => format!("did you mean \"{similar}\"?"),
        None => "create it (useradd --system), or write numbers, as in \"990:990\"".to_owned(),
    };
    format!("there is no user \"{}\" on this machine; {hint}", name.escape_debug())
}

/// The names in a file such as passwd(5).
fn names_of(file: &str) -> Vec<String> {
    let text = read_to_string(file).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_numbers() {
        let user = parse_user("64001:64002").unwrap();
        let Credentials { uid, gid, groups } = user.credentials;
        assert_eq!((uid, gid, groups), (64_001, 64_002, vec![64_002]));
        assert!(parse_user("64001").unwrap_err().contains("\"64001:64001\""));
        for root in ["root", "0", "0:33", "root:33", "33:0", "33:root"] {
            let message = parse_user(root).unwrap_err();
            assert!(message.contains("root"), "{root}: {message}");
        }
        let message = parse_user("sluice-no-such").unwrap_err();
        assert!(message.starts_with("there is no user \"sluice-no-such\""), "{message}");
        assert!(
            parse_user("1:sluice-no-such")
                .unwrap_err()
                .starts_with("there is no group")
        );
        assert!(parse_user("rooot").unwrap_err().ends_with("did you mean \"root\"?"));
    }
}
