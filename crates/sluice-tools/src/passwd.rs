//! `sluice passwd`: sets, removes and verifies the passwords of a users file.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rustix::fs::{FlockOperation, flock};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use sluice_access::hash::{PASSWORD_BYTES_MAX, StoredHash, hash_new};
use sluice_access::users::{Users, check_name};

const HELP: &str = "\
The file has the format of Apache's htpasswd, for users = \"FILE\" in access of a route. The password is hashed by argon2id. It is asked for at the \
terminal without being shown, or read from standard input: the first line of it. A running server reads the file again within a second.

The exit status of --verify is 0 if the password is right, and 1 otherwise.

Examples:
  sluice passwd --create users.htpasswd ann      make the file, with one user
  sluice passwd users.htpasswd bob               add a user, or set another password
  pwgen 20 1 | tee new | sluice passwd users.htpasswd bob
  sluice passwd --delete users.htpasswd bob
  sluice passwd --verify users.htpasswd ann";

/// The mode of a new file: only its owner may read it.
const MODE: u32 = 0o600;

/// The mode of a new file of root in a directory that a group may enter and others may not.
const GROUP_MODE: u32 = 0o640;

/// `sluice passwd`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Passwd {
    /// Make the file if it does not exist.
    #[arg(long, conflicts_with_all = ["delete", "verify"])]
    create: bool,
    /// Remove the user.
    #[arg(long, conflicts_with = "verify")]
    delete: bool,
    /// Verify the password of the user, and change nothing.
    #[arg(long)]
    verify: bool,
    /// The users file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The user.
    #[arg(value_name = "USER")]
    user: String,
}

/// Runs the command; `print` writes to standard output.
///
/// # Errors
/// One line: the file cannot be read or written, there is no such user, or the password is not usable.
pub fn run(passwd: &Passwd, print: impl Fn(&str) -> Result<(), String>) -> Result<ExitCode, String> {
    check_name("user", &passwd.user)?;
    if passwd.user.starts_with('#') || passwd.user.trim() != passwd.user {
        return Err(format!(
            "user {:?}: a name begins with no \"#\", and has no blank at either end",
            passwd.user
        ));
    }
    // The file that a link leads to is changed, and the link stays.
    let path = fs::canonicalize(&passwd.file).unwrap_or_else(|_| passwd.file.clone());
    let shown = passwd.file.display();
    let user = &passwd.user;
    let text = read(passwd, &path)?;
    if passwd.verify {
        return verify(passwd, &text, print);
    }
    let line = match passwd.delete {
        true => None,
        false => Some(format!("{user}:{}", hash_new(&read_password(Ask::Twice)?)?)),
    };
    let failed = |error: io::Error| format!("{shown}: {error}");
    let locked = lock_directory(&path).map_err(failed)?;
    // Again, because another command may have changed the file while the password was asked for.
    let text = read(passwd, &path)?;
    let is_known = knows(&text, user);
    let is_new = !path.exists();
    replace(&path, &with_line(&text, user, line.as_deref())).map_err(failed)?;
    drop(locked);
    let done = match (passwd.delete, is_known) {
        (true, _) => "removed",
        (false, true) => "has a new password",
        (false, false) => "added",
    };
    let mut report = format!("{shown}: user \"{user}\" {done}\n");
    if is_new {
        let about = fs::metadata(&path).map_err(failed)?;
        report += &note_of_reader((about.uid(), about.gid(), about.mode()), &shown.to_string());
    }
    print(&report).map(|()| ExitCode::SUCCESS)
}

fn read(passwd: &Passwd, path: &Path) -> Result<String, String> {
    let (shown, user) = (passwd.file.display(), &passwd.user);
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !directory_of(path).is_dir() => {
            let directory = directory_of(path).display();
            return Err(format!("{shown}: there is no directory {directory}: make it first"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && passwd.create => String::new(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("{shown}: there is no such file; --create makes it"));
        }
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    if let Some(line) = foreign_line(&text, user) {
        return Err(format!(
            "{shown}:{line}: this is no users file, whose lines are written NAME:HASH, as \"sluice passwd\" and htpasswd do: nothing has changed"
        ));
    }
    if (passwd.verify || passwd.delete) && !knows(&text, user) {
        return Err(format!("{shown}: there is no user \"{user}\""));
    }
    Ok(text)
}

/// The number, from 1, of the first line that no users file has: a wrong file was named. Skips lines of the user, which the command may put right.
fn foreign_line(text: &str, user: &str) -> Option<usize> {
    let is_foreign = |line: &str| {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') || name_of(line) == Some(user) {
            return false;
        }
        let Some((name, rest)) = line.split_once(':') else {
            return true;
        };
        let hash = rest.split(':').next().unwrap_or_default();
        check_name("user", name).is_err() || StoredHash::parse(hash).is_err()
    };
    text.lines().position(is_foreign).map(|index| index + 1)
}

fn knows(text: &str, user: &str) -> bool {
    text.lines().any(|line| name_of(line) == Some(user))
}

/// Locks the file's directory (flock(2)): two commands at once would lose changes. A lock on the file would not do, because it is replaced.
fn lock_directory(path: &Path) -> io::Result<File> {
    let directory = File::open(directory_of(path))?;
    flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

fn verify(passwd: &Passwd, text: &str, print: impl Fn(&str) -> Result<(), String>) -> Result<ExitCode, String> {
    let (shown, user) = (passwd.file.display(), &passwd.user);
    let line = text
        .lines()
        .find(|line| name_of(line) == Some(user))
        .unwrap_or_default();
    let users = Users::parse(line).map_err(|error| format!("{shown}: {}", error.trim_start_matches("1: ")))?;
    let password = read_password(Ask::Once)?;
    if users.hash(user).is_some_and(|hash| hash.verify(&password)) {
        return print("the password is right\n").map(|()| ExitCode::SUCCESS);
    }
    Err(format!("{shown}: the password of \"{user}\" is another one"))
}

/// The name of a line that is not a comment.
fn name_of(line: &str) -> Option<&str> {
    let line = Some(line).filter(|line| !line.starts_with('#'));
    line?.split_once(':').map(|(name, _)| name)
}

/// The text with another line for a user, or without it. Other lines stay as they are.
fn with_line(text: &str, user: &str, new: Option<&str>) -> String {
    let mut new = new;
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        match name_of(line) == Some(user) {
            false => lines.push(line),
            // A second line of the same user goes.
            true => lines.extend(new.take()),
        }
    }
    lines.extend(new);
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

fn directory_of(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Text about the readers of a new file, and what to do if that is root alone, whose server process has another user.
fn note_of_reader((uid, gid, mode): (u32, u32, u32), shown: &str) -> String {
    match (uid, gid) {
        (0, group) if mode & 0o040 != 0 => format!("{shown}: group {group} of the directory may read it (mode 640)\n"),
        (0, _) => format!(
            "{shown}: only root may read it; the user of the server must, too: chgrp GROUP {shown} && chmod 640 {shown}, where GROUP is the server's (sluice in \
             the Debian package)\n"
        ),
        _ => String::new(),
    }
}

/// The group that gets a new file of this user: that of its directory, if root has made the directory for this group and nobody else may enter.
fn group_of_new(user: u32, directory_mode: u32, directory_group: u32) -> Option<u32> {
    let is_for_group = directory_mode & 0o077 == 0o050;
    (user == 0 && directory_group != 0 && is_for_group).then_some(directory_group)
}

/// Replaces a file atomically by one with the same mode and owner.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = directory_of(path);
    let old = fs::metadata(path).ok();
    let mut file = tempfile::Builder::new()
        .prefix(".sluice-passwd-")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    if let Some(old) = &old {
        // Another owner can only be kept by root.
        if (old.uid(), old.gid()) != owner_of(file.as_file())? {
            fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
        }
        file.as_file()
            .set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
    } else {
        let around = fs::metadata(directory)?;
        let (user, _) = owner_of(file.as_file())?;
        if let Some(group) = group_of_new(user, around.mode(), around.gid()) {
            fchown(file.as_file(), None, Some(group))?;
            file.as_file().set_permissions(Permissions::from_mode(GROUP_MODE))?;
        }
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

fn owner_of(file: &File) -> io::Result<(u32, u32)> {
    file.metadata().map(|about| (about.uid(), about.gid()))
}

/// How often a password is asked for at the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Once,
    Twice,
}

/// Reads a password from the terminal, or the first line of standard input.
fn read_password(ask: Ask) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("standard input: {error}");
    if !io::stdin().is_terminal() {
        let mut line = Vec::new();
        let most = PASSWORD_BYTES_MAX as u64 + 2;
        let read = io::stdin().lock().take(most).read_until(b'\n', &mut line);
        read.map_err(failed)?;
        return Ok(without_line_end(line));
    }
    let first = prompt("Password: ").map_err(failed)?;
    if ask == Ask::Twice && prompt("The same again: ").map_err(failed)? != first {
        return Err("the passwords differ".to_owned());
    }
    Ok(first)
}

/// Asks at the terminal, which does not show what is typed.
fn prompt(text: &str) -> io::Result<Vec<u8>> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    // Without signals: Ctrl-C would end the command before the terminal is as before.
    silent
        .local_modes
        .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    // Not before, because an answer that comes at once would be shown, and discarded.
    terminal.write_all(text.as_bytes())?;
    let read = read_keys(io::BufReader::new(&terminal));
    tcsetattr(&terminal, OptionalActions::Flush, &before)?;
    (&terminal).write_all(b"\n")?;
    read
}

/// Reads a line from a terminal that sends every key.
fn read_keys(terminal: impl BufRead) -> io::Result<Vec<u8>> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const KILL: u8 = 21;
    const QUIT: u8 = 28;
    const ERASE: [u8; 2] = [8, 127];
    let mut line = Vec::new();
    for key in terminal.bytes() {
        match key? {
            b'\n' | b'\r' | END => break,
            INTERRUPT | QUIT => {
                let text = "interrupted: nothing has changed";
                return Err(io::Error::new(io::ErrorKind::Interrupted, text));
            }
            KILL => line.clear(),
            key if ERASE.contains(&key) => erase_letter(&mut line),
            key => line.push(key),
        }
    }
    Ok(line)
}

/// Removes the last letter, in UTF-8 its continuation bytes, too.
fn erase_letter(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

fn without_line_end(mut line: Vec<u8>) -> Vec<u8> {
    line.pop_if(|byte| *byte == b'\n');
    line.pop_if(|byte| *byte == b'\r');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_of_root_is_for_the_group_that_alone_may_enter_its_directory() {
        assert_eq!(group_of_new(0, 0o40_750, 33), Some(33));
        assert_eq!(
            group_of_new(0, 0o42_770, 33),
            None,
            "the group may write there: not made for a server"
        );
        assert_eq!(group_of_new(0, 0o40_755, 33), None, "everybody may enter");
        assert_eq!(group_of_new(0, 0o40_700, 33), None, "nobody else may enter");
        assert_eq!(group_of_new(0, 0o40_750, 0), None);
        assert_eq!(group_of_new(1000, 0o40_750, 33), None);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("users");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o750)).unwrap();
        let is_root = std::os::unix::fs::chown(directory.path(), None, Some(4_321)).is_ok();
        replace(&file, "").unwrap();
        let about = fs::metadata(&file).unwrap();
        let expected = if is_root {
            (4_321, GROUP_MODE)
        } else {
            (about.gid(), MODE)
        };
        assert_eq!((about.gid(), about.mode() & 0o777), expected);
    }

    #[test]
    fn root_learns_how_the_server_can_read_a_new_file() {
        let note = |about| note_of_reader(about, "users");
        assert!(note((0, 0, 0o100_600)).contains("chgrp GROUP users && chmod 640 users"));
        assert!(note((0, 33, 0o100_640)).contains("group 33"));
        assert_eq!(note((1000, 1000, 0o100_600)), "");
    }

    #[test]
    fn keys_of_a_terminal_are_a_line() {
        for (keys, expected) in [
            (&b"secret\rrest"[..], &b"secret"[..]),
            (b"wrong\x15right\x7ft\n", b"right"),
            ("a\u{e4}\u{7f}b\u{4}".as_bytes(), b"ab"),
            (b"\x7f\x08x", b"x"),
        ] {
            assert_eq!(read_keys(keys).unwrap(), expected);
        }
        assert_eq!(
            read_keys(&b"sec\x03ret\n"[..]).unwrap_err().kind(),
            io::ErrorKind::Interrupted
        );
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let text = "# staff\nann:1\n\nbob:2:Bob\nann:3";
        for (user, new, expected) in [
            ("ann", Some("ann:9"), "# staff\nann:9\n\nbob:2:Bob\n"),
            ("eve", Some("eve:9"), "# staff\nann:1\n\nbob:2:Bob\nann:3\neve:9\n"),
            ("bob", None, "# staff\nann:1\n\nann:3\n"),
        ] {
            assert_eq!(with_line(text, user, new), expected);
        }
    }
}
