//! The policy of an administrator: the users that scripts may have, and the programs of its routes.
//!
//! A wish (`run_as`) comes from the server process, which parses what clients send. The policy decides: whatever a wish says, no script runs as
//! root, as a user whom the policy does not name, or as the owner of a file that somebody else could have put there; and no program runs that no
//! route has, or without the limits of its route.

use std::ffi::CString;
use std::sync::Arc;

use crate::policy::owned_script::{OwnedScript, OwnerAndMode, share_of_owner};
use crate::policy::route_programs::RoutePrograms;
use crate::policy::run_as::{Decided, Refusal, RunAs, UserPolicy, WishedProgram};
use crate::policy::share::Share;
use crate::users::accounts::{Account, account_by_number};
use crate::users::credentials::Credentials;
use crate::users::own_user::own_uid;

const WRITABLE_BY_OTHERS: u32 = 0o022;

const SET_IDS: u32 = 0o6000;

/// The users that scripts may have. `Default`: only the user of the process that starts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptUsers {
    /// The user of scripts whose route names none. `None`: the user of the process that starts them.
    pub usual: Option<Credentials>,
    /// The users that routes name, each with its name as in the configuration.
    pub named: Vec<NamedUser>,
    /// Which owners of script files may be the users of their scripts. `None`: nobody.
    pub owners: Option<OwnerPolicy>,
    /// The programs of all routes; no others start.
    pub programs: Vec<RoutePrograms>,
}

/// A user that a route names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedUser {
    /// The name as in the configuration.
    pub name: String,
    /// The user with its groups.
    pub credentials: Credentials,
}

/// The owners who may be the users of their scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerPolicy {
    /// The lowest number of a user.
    pub uid_min: u32,
    /// Whether every user with an account and such a number may. Otherwise only `users` and the members of `groups` may.
    pub is_for_all: bool,
    /// Users by name or number.
    pub users: Vec<Credentials>,
    /// Numbers of groups.
    pub groups: Vec<u32>,
    /// Absolute paths; scripts must lie below one of them.
    pub directories: Vec<CString>,
}

/// The check that a script has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedCheck {
    Root,
    OwnedByRoot,
    NotNamed,
    NoOwners,
    Outside,
    /// The file, or the directory so many levels above its own, cannot be opened without following links; the `errno` value.
    Unreadable(Where, i32),
    NotAFile,
    SetId(u32),
    /// Others may write the file or directory; its mode.
    Writable(Where, u32),
    /// This directory belongs to this other user.
    OtherOwner(Where, u32),
    /// The owner's number, and the lowest one.
    BelowMinimum(u32, u32),
    NoAccount(u32),
    RootGroup(u32),
    NotPermitted(u32),
    /// Only root can change users; the wished user.
    NotRoot(u32),
    NoRoute,
    UnknownRoot,
    OutsideOfRoot,
    OtherProgram,
    OtherDirectory,
    /// The limit or restriction with this key is missing, or weaker than that of the route.
    Weaker(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Script,
    /// The directory so many levels above the script's own, 0 for that.
    Directory(u16),
}

impl UserPolicy for ScriptUsers {
    fn decide(&self, wished: &WishedProgram<'_>) -> Result<Decided, Refusal> {
        self.decide_with(&[], wished)
    }

    fn share(&self, run_as: &RunAs) -> Share {
        match run_as {
            RunAs::Usual => Share::User(self.usual.as_ref().map_or_else(own_uid, |usual| usual.uid)),
            RunAs::User(name) => {
                let named = self.named.iter().find(|user| user.name == *name);
                named.map_or(Share::Refused, |user| Share::User(user.credentials.uid))
            }
            RunAs::Owner(script) => {
                let owners = self.owners.as_ref();
                let share = owners.and_then(|owners| share_of_owner(script, &owners.directories));
                share.map_or(Share::Refused, Share::Below)
            }
        }
    }
}

impl ScriptUsers {
    /// Decides about a program that a route of this configuration may have, or of one before it.
    pub(crate) fn decide_with(
        &self,
        before: &[Arc<ScriptUsers>],
        wished: &WishedProgram<'_>,
    ) -> Result<Decided, Refusal> {
        let permitted = self.permitted(wished).or_else(|check| {
            let earlier = before.iter().find_map(|users| users.permitted(wished).ok());
            earlier.ok_or(check)
        });
        let decided = permitted.and_then(|variables| {
            Ok(Decided {
                credentials: self.user_of(wished.run_as)?,
                variables: Some(variables),
            })
        });
        decided.map_err(|check| Refusal(check.text(wished.run_as)))
    }

    /// Checks what depends on no file: a route has such a program, with such limits. Returns the variables that may name code: those of all these routes.
    fn permitted(&self, wished: &WishedProgram<'_>) -> Result<Vec<Vec<u8>>, FailedCheck> {
        let mut failed = FailedCheck::NoRoute;
        let mut variables = None;
        for programs in &self.programs {
            match programs.check(wished) {
                Ok(()) => variables
                    .get_or_insert_with(Vec::new)
                    .extend_from_slice(&programs.variables),
                Err(check) => failed = failed.later(check),
            }
        }
        variables.ok_or(failed)
    }

    /// The user for a wish. `None`: the user of this process.
    fn user_of(&self, wish: &RunAs) -> Result<Option<Credentials>, FailedCheck> {
        let chosen = match wish {
            RunAs::Usual => match &self.usual {
                None => return Ok(None),
                Some(usual) => usual.clone(),
            },
            RunAs::User(name) => {
                let named = self.named.iter().find(|user| user.name == *name);
                named.ok_or(FailedCheck::NotNamed)?.credentials.clone()
            }
            RunAs::Owner(script) => {
                let owners = self.owners.as_ref().ok_or(FailedCheck::NoOwners)?;
                let script = OwnedScript::examine(script, &owners.directories)?;
                owners.decide(&script, account_by_number)?
            }
        };
        if chosen.uid == 0 || chosen.gid == 0 {
            return Err(FailedCheck::Root);
        }
        match own_uid() {
            0 => Ok(Some(chosen)),
            // An ordinary user can change to nobody else.
            own if own == chosen.uid => Ok(None),
            _ => Err(FailedCheck::NotRoot(chosen.uid)),
        }
    }
}

impl OwnerPolicy {
    /// The owner of a script as its user. A pure function of what was found, but for the accounts.
    fn decide(
        &self,
        script: &OwnedScript,
        account: impl Fn(u32) -> Option<Account>,
    ) -> Result<Credentials, FailedCheck> {
        let owner = script.file.uid;
        if !script.is_regular {
            return Err(FailedCheck::NotAFile);
        }
        if owner == 0 {
            return Err(FailedCheck::OwnedByRoot);
        }
        if owner < self.uid_min {
            return Err(FailedCheck::BelowMinimum(owner, self.uid_min));
        }
        if script.file.mode & SET_IDS != 0 {
            return Err(FailedCheck::SetId(script.file.mode));
        }
        is_private(Where::Script, &script.file)?;
        for (level, directory) in (0..).zip(&script.directories) {
            let at = Where::Directory(level);
            // Who owns a directory can replace what is in it.
            if directory.uid != owner && directory.uid != 0 {
                return Err(FailedCheck::OtherOwner(at, directory.uid));
            }
            is_private(at, directory)?;
        }
        self.permitted(owner, account)
    }

    fn permitted(&self, owner: u32, account: impl Fn(u32) -> Option<Account>) -> Result<Credentials, FailedCheck> {
        if let Some(user) = self.users.iter().find(|user| user.uid == owner) {
            return Ok(user.clone());
        }
        if !self.is_for_all && self.groups.is_empty() {
            return Err(FailedCheck::NotPermitted(owner));
        }
        let account = account(owner).ok_or(FailedCheck::NoAccount(owner))?;
        let groups = account.groups();
        if account.gid == 0 || groups.contains(&0) {
            return Err(FailedCheck::RootGroup(owner));
        }
        if !self.is_for_all && !groups.iter().any(|group| self.groups.contains(group)) {
            return Err(FailedCheck::NotPermitted(owner));
        }
        Ok(Credentials { uid: owner, gid: account.gid, groups })
    }
}

fn is_private(at: Where, entry: &OwnerAndMode) -> Result<(), FailedCheck> {
    match entry.mode & WRITABLE_BY_OTHERS {
        0 => Ok(()),
        _ => Err(FailedCheck::Writable(at, entry.mode)),
    }
}

impl Where {
    /// The path of the file, or of the directory, of this script.
    fn path(self, script: &str) -> &str {
        let levels = match self {
            Where::Script => 0,
            Where::Directory(levels) => usize::from(levels) + 1,
        };
        let ends = script.rmatch_indices('/').map(|(end, _)| end);
        let end = ends.take(levels).last().unwrap_or(script.len());
        &script[..end]
    }

    fn name(self, script: &str) -> String {
        let kind = match self {
            Where::Script => "the script",
            Where::Directory(_) => "the directory",
        };
        format!("{kind} {}", self.path(script))
    }
}

impl FailedCheck {
    /// Chooses, of two checks of different routes, the one that a program has come further to.
    pub(crate) fn later(self, other: FailedCheck) -> FailedCheck {
        let step = |check| match check {
            FailedCheck::NoRoute => 0,
            FailedCheck::UnknownRoot => 1,
            FailedCheck::OtherProgram => 2,
            FailedCheck::OutsideOfRoot => 3,
            FailedCheck::OtherDirectory => 4,
            _ => 5,
        };
        if step(other) > step(self) { other } else { self }
    }

    fn text(self, wish: &RunAs) -> String {
        let script = match wish {
            RunAs::Owner(script) => script.to_string_lossy(),
            RunAs::Usual | RunAs::User(_) => "".into(),
        };
        match self {
            FailedCheck::OwnedByRoot => {
                format!("the script {script} belongs to root, and no script runs as root: chown it to its user")
            }
            FailedCheck::Outside => {
                format!("the script {script} is below none of the directories of [server.script_owners]")
            }
            FailedCheck::Unreadable(at, errno) => {
                let error = std::io::Error::from_raw_os_error(errno);
                format!(
                    "{} cannot be opened without following a link: {error}",
                    at.name(&script)
                )
            }
            FailedCheck::NotAFile => {
                format!("the script {script} is no regular file: if it is a symbolic link, name the file itself")
            }
            FailedCheck::SetId(mode) => format!(
                "the script {script} has a set-user-ID or set-group-ID bit (mode {:04o}): chmod u-s,g-s {script}",
                mode & 0o7777
            ),
            FailedCheck::Writable(at, mode) => format!(
                "{} is writable by its group or by others (mode {:04o}): chmod go-w {}",
                at.name(&script),
                mode & 0o7777,
                at.path(&script)
            ),
            FailedCheck::OtherOwner(at, uid) => format!(
                "{} belongs to user {uid}, and neither to the owner of the script nor to root",
                at.name(&script)
            ),
            FailedCheck::Root => "no script runs as root, nor with the group of root".to_owned(),
            FailedCheck::NotNamed => "the configuration has no such user for scripts".to_owned(),
            FailedCheck::NoOwners => {
                "the configuration has no [server.script_owners], so no script runs as the owner of its file".to_owned()
            }
            FailedCheck::BelowMinimum(uid, least) => {
                format!("its owner, user {uid}, is below uid_min = {least} of [server.script_owners]")
            }
            FailedCheck::NoAccount(uid) => format!("its owner, user {uid}, has no account on this machine"),
            FailedCheck::RootGroup(uid) => format!("its owner, user {uid}, is a member of the group of root"),
            FailedCheck::NotPermitted(uid) => format!(
                "its owner, user {uid}, is neither among the users nor in one of the groups of [server.script_owners]"
            ),
            FailedCheck::NoRoute => "no route of the configuration has scripts of this user".to_owned(),
            FailedCheck::UnknownRoot => "no route of its user has its root (chroot) in the configuration".to_owned(),
            FailedCheck::OutsideOfRoot => format!("the script {script} is not below its root (chroot)"),
            FailedCheck::OtherProgram if script.is_empty() => {
                "the program is neither a script that a route has for this user nor its interpreter or engine"
                    .to_owned()
            }
            FailedCheck::OtherProgram => format!(
                "the program is neither the script {script} nor an interpreter that a route with user = \"owner\" has for it"
            ),
            FailedCheck::OtherDirectory => {
                "its working directory is neither that of the script nor the one of its route".to_owned()
            }
            FailedCheck::Weaker(key) => format!("its limits are weaker than those of its route: {key}"),
            FailedCheck::NotRoot(uid) => {
                format!("it would run as user {uid}, and only a server that was started as root can change users")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 2000;

    fn script() -> OwnedScript {
        let entry = |uid, mode| OwnerAndMode { uid, mode };
        OwnedScript {
            is_regular: true,
            file: entry(OWNER, 0o755),
            directories: vec![entry(OWNER, 0o755), entry(0, 0o755)],
        }
    }

    fn user(uid: u32) -> Credentials {
        Credentials { uid, gid: uid, groups: vec![uid] }
    }

    fn policy() -> OwnerPolicy {
        OwnerPolicy {
            uid_min: 1000,
            users: vec![user(OWNER), user(500)],
            ..OwnerPolicy::default()
        }
    }

    fn refusal(policy: &OwnerPolicy, script: &OwnedScript) -> FailedCheck {
        policy.decide(script, |_| None).unwrap_err()
    }

    #[test]
    fn the_owner_of_a_private_script_is_its_user() {
        assert_eq!(policy().decide(&script(), |_| None), Ok(user(OWNER)));
    }

    #[test]
    fn each_check_refuses() {
        let with = |change: &dyn Fn(&mut OwnedScript)| {
            let mut script = script();
            change(&mut script);
            refusal(&policy(), &script)
        };
        assert_eq!(with(&|script| script.is_regular = false), FailedCheck::NotAFile);
        assert_eq!(with(&|script| script.file.uid = 0), FailedCheck::OwnedByRoot);
        assert_eq!(
            with(&|script| script.file.uid = 500),
            FailedCheck::BelowMinimum(500, 1000)
        );
        assert_eq!(
            with(&|script| script.file.uid = 3000),
            FailedCheck::OtherOwner(Where::Directory(0), OWNER)
        );
        for mode in [0o775, 0o757] {
            assert_eq!(
                with(&|script| script.file.mode = mode),
                FailedCheck::Writable(Where::Script, mode)
            );
            assert_eq!(
                with(&|script| script.directories[1].mode = mode),
                FailedCheck::Writable(Where::Directory(1), mode)
            );
        }
        for mode in [0o4755, 0o2755] {
            assert_eq!(with(&|script| script.file.mode = mode), FailedCheck::SetId(mode));
        }
        assert_eq!(
            with(&|script| script.directories[0].uid = 3000),
            FailedCheck::OtherOwner(Where::Directory(0), 3000)
        );
        // A directory for everybody, such as /tmp, is no place for scripts.
        assert_eq!(
            with(&|script| script.directories[1].mode = 0o1777),
            FailedCheck::Writable(Where::Directory(1), 0o1777)
        );
    }

    #[test]
    fn owners_are_permitted_by_name_by_group_or_all() {
        let account = |gid| {
            move |uid| {
                Some(Account {
                    name: b"no-such-user-of-this-test".to_vec(),
                    uid,
                    gid,
                    home: Vec::new(),
                })
            }
        };
        let none = OwnerPolicy { users: Vec::new(), ..policy() };
        assert_eq!(refusal(&none, &script()), FailedCheck::NotPermitted(OWNER));
        let group = OwnerPolicy { groups: vec![77], ..none.clone() };
        assert!(group.decide(&script(), account(77)).is_ok());
        assert_eq!(
            group.decide(&script(), account(78)),
            Err(FailedCheck::NotPermitted(OWNER))
        );
        assert_eq!(group.decide(&script(), account(0)), Err(FailedCheck::RootGroup(OWNER)));
        let all = OwnerPolicy { is_for_all: true, ..none };
        assert!(all.decide(&script(), account(78)).is_ok());
        assert_eq!(refusal(&all, &script()), FailedCheck::NoAccount(OWNER));
    }

    #[test]
    fn a_wish_cannot_exceed_the_policy() {
        let named = |name: &str, uid| NamedUser { name: name.to_owned(), credentials: user(uid) };
        let users = ScriptUsers {
            usual: Some(user(own_uid().max(1))),
            named: vec![named("root", 0), named("alice", OWNER)],
            owners: None,
            programs: Vec::new(),
        };
        let wish = |name: &str| users.user_of(&RunAs::User(name.to_owned()));
        assert_eq!(wish("root"), Err(FailedCheck::Root));
        assert_eq!(wish("bob"), Err(FailedCheck::NotNamed));
        let owner = RunAs::Owner(c"/etc/passwd".into());
        assert_eq!(users.user_of(&owner), Err(FailedCheck::NoOwners));
        let alice = match own_uid() {
            0 => Ok(Some(user(OWNER))),
            _ => Err(FailedCheck::NotRoot(OWNER)),
        };
        assert_eq!(wish("alice"), alice);
        assert!(users.user_of(&RunAs::Usual).is_ok());
        assert_eq!(ScriptUsers::default().user_of(&RunAs::Usual), Ok(None));
        let root = ScriptUsers { usual: Some(user(0)), ..ScriptUsers::default() };
        assert_eq!(root.user_of(&RunAs::Usual), Err(FailedCheck::Root));
    }

    #[test]
    fn a_refusal_names_the_check_the_file_and_the_fix() {
        let wish = RunAs::Owner(c"/home/ann/cgi/hello".into());
        for (at, named) in [
            (Where::Script, "the script /home/ann/cgi/hello"),
            (Where::Directory(0), "the directory /home/ann/cgi"),
            (Where::Directory(1), "the directory /home/ann"),
        ] {
            let path = named.split_once('/').unwrap().1;
            assert_eq!(
                FailedCheck::Writable(at, 0o40775).text(&wish),
                format!("{named} is writable by its group or by others (mode 0775): chmod go-w /{path}")
            );
        }
        assert_eq!(
            FailedCheck::NotPermitted(7).text(&RunAs::Usual),
            "its owner, user 7, is neither among the users nor in one of the groups of [server.script_owners]"
        );
    }
}
