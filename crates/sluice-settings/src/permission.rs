//! Why a user may not use a file: the directory or file that refuses, its owner and mode, and the command that changes it.
//!
//! The kernel decides, and this explains: permission bits are compared as path_resolution(7) says. A file with an access control list (acl(5)) is
//! not judged. Names of owners are not looked up, because that may ask a directory server, and this is called on event loops, too; the user of this
//! process is looked up once, when a configuration is read.

use std::fmt;
use std::fs::{Metadata, metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use sluice_launch::{Credentials, deadline, group_by_name, own_user};

use crate::User;

/// A user whose permissions are in question.
#[derive(Clone, Debug)]
pub struct Subject {
    credentials: Credentials,
    name: String,
    /// The primary group, as chgrp(1) takes it.
    group: String,
}

/// The use of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reading a file, or listing a directory.
    Read,
    /// Writing a file, or making and removing files of a directory.
    Write,
    /// Executing a program.
    Execute,
    /// Opening what is in a directory.
    Enter,
}

/// Whether the advice about files that this user may not use is to run the program as root.
static LEAVES_TO_ROOT: AtomicBool = AtomicBool::new(false);

/// Makes the advice about a file of others: run the program as root. For a check by a user who is not that of the server.
pub fn leave_to_root() {
    // Relaxed: set before anything is checked.
    LEAVES_TO_ROOT.store(!rustix::process::geteuid().is_root(), Ordering::Relaxed);
}

/// A refusal by the permissions of a file or directory.
#[derive(Clone, Debug)]
pub struct Denial {
    path: PathBuf,
    wanted: Use,
    mode: u32,
    owner: (u32, u32),
    class: Class,
    subject: Subject,
}

impl Subject {
    /// The user of this process.
    #[must_use]
    pub fn own() -> Subject {
        static OWN: OnceLock<Subject> = OnceLock::new();
        let uid = rustix::process::geteuid().as_raw();
        let credentials = || Credentials {
            uid,
            gid: rustix::process::getegid().as_raw(),
            groups: rustix::process::getgroups()
                .unwrap_or_default()
                .iter()
                .map(|group| group.as_raw())
                .collect(),
        };
        let own = OWN.get_or_init(|| {
            let login = own_user().and_then(|account| String::from_utf8(account.name).ok());
            Subject::new(credentials(), &login.unwrap_or_else(|| uid.to_string()))
        });
        if own.uid() == uid {
            return own.clone();
        }
        // The process had another user then.
        let credentials = credentials();
        Subject {
            name: uid.to_string(),
            group: credentials.gid.to_string(),
            credentials,
        }
    }

    /// A user of the configuration.
    #[must_use]
    pub fn of(user: &User) -> Subject {
        Subject::new(user.credentials.clone(), user.login.as_ref().unwrap_or(&user.name))
    }

    /// A user with a name for messages. Its group is looked up.
    #[must_use]
    pub fn new(credentials: Credentials, name: &str) -> Subject {
        let name = short_name(name);
        // Most users have a group of their own name.
        let is_same = group_by_name(name) == Some(credentials.gid);
        Subject {
            group: if is_same {
                name.to_owned()
            } else {
                credentials.gid.to_string()
            },
            name: name.to_owned(),
            credentials,
        }
    }

    /// The name, or the number of a user without an account.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the group, or its number if the group has another name than the user.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The number of the user.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.credentials.uid
    }

    /// The numbers of the user and its groups.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Whether the permission bits let this user use a file. `None` if it has an access control list.
    fn may(&self, path: &Path, about: &Metadata, wanted: Use) -> Option<bool> {
        let is_allowed = match class(&self.credentials, about) {
            // Root may execute what anybody may execute.
            _ if self.uid() == 0 => wanted != Use::Execute || about.mode() & 0o111 != 0,
            class => about.mode() & (wanted.bit() << class.shift()) != 0,
        };
        let has_list = || rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0_u8; 4096][..]).is_ok();
        (is_allowed || !has_list()).then_some(is_allowed)
    }
}

fn class(credentials: &Credentials, about: &Metadata) -> Class {
    let Credentials { uid, gid, groups } = credentials;
    match about {
        about if about.uid() == *uid => Class::Owner,
        about if about.gid() == *gid || groups.contains(&about.gid()) => Class::Group,
        _ => Class::Others,
    }
}

/// The name without its group, which a configuration may have.
fn short_name(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The permission bits that count for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Owner,
    Group,
    Others,
}

impl Class {
    fn shift(self) -> u32 {
        match self {
            Class::Owner => 6,
            Class::Group => 3,
            Class::Others => 0,
        }
    }

    /// The letter of chmod(1).
    fn letter(self) -> char {
        match self {
            Class::Owner => 'u',
            Class::Group => 'g',
            Class::Others => 'o',
        }
    }
}

/// Why a user may not use a path: the first directory on the way, or the file, that refuses. `None` if nothing refuses, or the path does not exist.
#[must_use]
pub fn denial(path: &Path, wanted: Use, subject: &Subject) -> Option<Denial> {
    let (asked, subject) = (path.to_owned(), subject.clone());
    let look = move || {
        // Symbolic links may lead through other directories.
        let real = asked.canonicalize().ok().filter(|real| *real != asked);
        let mut paths = [Some(asked.as_path()), real.as_deref()].into_iter().flatten();
        Ok(paths.find_map(|path| denial_on(path, wanted, &subject)))
    };
    deadline::ask(path, look).ok().flatten()
}

/// Whether the permission bits of a file let a user use it, so that nothing else need be asked.
#[must_use]
pub fn is_permitted_by_bits(about: &Metadata, wanted: Use, user: &User) -> bool {
    (about.mode() >> class(&user.credentials, about).shift()) & wanted.bit() != 0
}

/// Why a user of scripts may not use a file with this metadata. Permissions of the directories above it are not asked.
#[must_use]
pub fn denial_of_script(path: &Path, about: &Metadata, wanted: Use, user: &User) -> Option<Denial> {
    if is_permitted_by_bits(about, wanted, user) {
        return None;
    }
    let subject = Subject {
        credentials: user.credentials.clone(),
        name: short_name(user.login.as_ref().unwrap_or(&user.name)).to_owned(),
        // Not looked up, because this is called for a request.
        group: user.credentials.gid.to_string(),
    };
    (subject.may(path, about, wanted) == Some(false)).then(|| Denial::new(path, wanted, about, &subject))
}

/// An error of using a file, with the cause if permissions refuse it to the user of this process.
#[must_use]
pub fn explained(path: &Path, wanted: Use, error: io::Error) -> io::Error {
    // A caller may have explained it already.
    let is_plain = error.kind() == io::ErrorKind::PermissionDenied && error.get_ref().is_none();
    let denial = is_plain.then(|| denial(path, wanted, &Subject::own())).flatten();
    denial.map_or(error, |denial| io::Error::new(io::ErrorKind::PermissionDenied, denial))
}

/// The error of making or changing a file, with the remedy if its file system is read-only here, as most are in a systemd unit with `ProtectSystem=`.
#[must_use]
pub fn read_only_explained(directory: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::ReadOnlyFilesystem {
        return error;
    }
    let text = format!("{error}: {}", read_only_help(directory, &Subject::own()));
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text)
}

/// Why a user may not make or change files below a directory whose file system is read-only for the server, and what permits it.
#[must_use]
pub fn read_only_help(directory: &Path, subject: &Subject) -> String {
    let (shown, name) = (directory.display(), subject.name());
    format!(
        "user {name} may not write below {shown} here: if the server is a unit of systemd, that permits writing only below its ReadWritePaths=: \
         \"systemctl edit sluice\", add the lines [Service] and ReadWritePaths=-{shown}, then \"systemctl restart sluice\" (a reload is not enough)"
    )
}

fn denial_on(path: &Path, wanted: Use, subject: &Subject) -> Option<Denial> {
    let mut ways: Vec<&Path> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
    ways.reverse();
    for way in ways {
        let about = metadata(way).ok()?;
        let wanted = if way == path { wanted } else { Use::Enter };
        if subject.may(way, &about, wanted) == Some(false) {
            return Some(Denial::new(way, wanted, &about, subject));
        }
    }
    None
}

/// Whether the permissions let a user use a path that exists. False also where an access control list decides, because it is not judged.
#[must_use]
pub fn is_permitted(path: &Path, wanted: Use, subject: &Subject) -> bool {
    let (asked, subject) = (path.to_owned(), subject.clone());
    let look = move || {
        let real = asked.canonicalize()?;
        let about = metadata(&real)?;
        let is_reached = real
            .ancestors()
            .skip(1)
            .all(|way| metadata(way).is_ok_and(|about| subject.may(way, &about, Use::Enter) == Some(true)));
        Ok(is_reached && subject.may(&real, &about, wanted) == Some(true))
    };
    deadline::ask(path, look).unwrap_or(false)
}

impl Denial {
    fn new(path: &Path, wanted: Use, about: &Metadata, subject: &Subject) -> Denial {
        Denial {
            path: path.to_owned(),
            wanted,
            mode: about.mode() & 0o7777,
            owner: (about.uid(), about.gid()),
            class: class(&subject.credentials, about),
            subject: subject.clone(),
        }
    }

    /// The command that permits it, for root or the owner.
    fn command(&self) -> String {
        let (shown, uid) = (self.path.display(), self.subject.uid());
        // A stranger's own command could open a key or a log to everybody, and who serves is not known.
        if LEAVES_TO_ROOT.load(Ordering::Relaxed) && self.class != Class::Owner && uid == Subject::own().uid() {
            return "run it as root, as in \"sudo sluice check\", who also checks what the user of the server may do; change no permissions for this".to_owned();
        }
        match (self.wanted, self.class) {
            // Who has closed a directory or a file to others has a reason: keys, logs, hashes, the files of a user. And nothing is to be written by everybody.
            (wanted, Class::Others)
                if uid != 0 && (wanted == Use::Write || wanted != Use::Execute && self.mode & 0o007 == 0) =>
            {
                let (group, letters) = (&self.subject.group, wanted.letters());
                format!("chgrp {group} {shown} && chmod g+{letters} {shown}")
            }
            (wanted, class) => format!("chmod {}+{} {shown}", class.letter(), wanted.letters()),
        }
    }
}

impl Use {
    /// The permission bit for others.
    fn bit(self) -> u32 {
        match self {
            Use::Read => 0o4,
            Use::Write => 0o2,
            Use::Execute | Use::Enter => 0o1,
        }
    }

    fn letters(self) -> &'static str {
        match self {
            Use::Read => "r",
            Use::Write => "w",
            // A script is read by its interpreter.
            Use::Execute => "rx",
            Use::Enter => "x",
        }
    }
}

/// `user sluice may not enter /home/ann (mode 700, owner 1000:1000): chgrp sluice /home/ann && chmod g+x /home/ann`.
impl fmt::Display for Denial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.wanted {
            Use::Read => "read",
            Use::Write => "write",
            Use::Execute => "execute",
            Use::Enter => "enter",
        };
        let number = |number: u32| match number {
            0 => "root".to_owned(),
            number if number == self.subject.uid() => self.subject.name.clone(),
            number => number.to_string(),
        };
        write!(
            out,
            "user {} may not {verb} {} (mode {:03o}, owner {}:{}): {}",
            self.subject.name,
            self.path.display(),
            self.mode,
            number(self.owner.0),
            match self.owner.1 {
                0 => "root".to_owned(),
                group => group.to_string(),
            },
            self.command()
        )
    }
}

impl std::error::Error for Denial {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn subject(uid: u32, gid: u32) -> Subject {
        let credentials = Credentials { uid, gid, groups: vec![gid] };
        Subject::new(credentials, &format!("u{uid}:g{gid}"))
    }

    /// A directory that everybody may enter, with a file in it.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let closed = root.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        let file = closed.join("file");
        std::fs::write(&file, "").unwrap();
        for (path, mode) in [(root.path(), 0o755), (&closed, 0o700), (&file, 0o640)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        (root, file)
    }

    #[test]
    fn the_first_directory_that_refuses_is_named_with_its_mode_and_the_command() {
        let (root, file) = tree();
        let about = file.metadata().unwrap();
        let stranger = subject(about.uid() + 4_000, about.gid() + 4_000);
        let closed = file.parent().unwrap();
        let text = denial(&file, Use::Read, &stranger).unwrap().to_string();
        let begin = format!(
            "user u{} may not enter {} (mode 700, owner ",
            stranger.uid(),
            closed.display()
        );
        assert!(text.starts_with(&begin), "{text}");
        let command = format!(
            ": chgrp {0} {1} && chmod g+x {1}",
            about.gid() + 4_000,
            closed.display()
        );
        assert!(text.ends_with(&command), "{text}");
        assert!(!is_permitted(&file, Use::Read, &stranger));

        std::fs::set_permissions(closed, PermissionsExt::from_mode(0o755)).unwrap();
        let text = denial(&file, Use::Read, &stranger).unwrap().to_string();
        let command = format!("chgrp {0} {1} && chmod g+r {1}", about.gid() + 4_000, file.display());
        assert!(text.contains("may not read") && text.ends_with(&command), "{text}");
        let member = subject(about.uid() + 4_000, about.gid());
        assert!(denial(&file, Use::Read, &member).is_none() && is_permitted(&file, Use::Read, &member));
        let text = denial(&file, Use::Write, &member).unwrap().to_string();
        assert!(text.ends_with(&format!("chmod g+w {}", file.display())), "{text}");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let text = denial(&file, Use::Write, &stranger).unwrap().to_string();
        let command = format!("chgrp {0} {1} && chmod g+w {1}", about.gid() + 4_000, file.display());
        assert!(text.ends_with(&command), "not by everybody: {text}");
        let text = denial(&file, Use::Execute, &subject(0, 0)).unwrap().to_string();
        assert!(text.contains("may not execute"), "{text}");
        assert!(denial(&root.path().join("none"), Use::Read, &stranger).is_none());
    }

    #[test]
    fn directories_behind_a_symbolic_link_count_too() {
        let (root, file) = tree();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let about = file.metadata().unwrap();
        let text = denial(&link, Use::Read, &subject(about.uid() + 1, about.gid() + 1)).unwrap();
        assert!(text.to_string().contains("may not"), "{text}");
        assert!(denial(&link, Use::Read, &Subject::own()).is_none());
    }
}
